// Keeps the page up to date and adds keys. Everything works without it.
"use strict";
(() => {
  const page = document.body.dataset.page;
  const say = (text) => { document.getElementById("live").textContent = text; };

  const help = document.getElementById("help");
  const helpButton = document.getElementById("help-button");
  const toggleHelp = () => {
    help.hidden = !help.hidden;
    helpButton.setAttribute("aria-expanded", String(!help.hidden));
  };
  helpButton.hidden = false;
  helpButton.addEventListener("click", toggleHelp);

  const rows = () => [...document.querySelectorAll(".rows .row > a")];
  const move = (by) => {
    const all = rows();
    if (all.length === 0) return;
    const at = all.indexOf(document.activeElement);
    all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))].focus();
  };
  const focus = (id, opens) => {
    const el = document.getElementById(id);
    if (!el) return false;
    if (opens) { const d = el.closest("details"); if (d) d.open = true; }
    el.focus();
    return true;
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
    switch (e.key) {
      case "j": move(1); break;
      case "k": move(-1); break;
      case "a": if (!focus("approve")) return; break;
      case "d": if (!focus("reason")) return; break;
      case "e": if (!focus("input", true) && !focus("text")) return; break;
      case "u": { const back = document.getElementById("back"); if (!back) return; location.href = back.href; break; }
      case "?": toggleHelp(); break;
      default: return;
    }
    e.preventDefault();
  });

  // A form is sent once.
  for (const form of document.querySelectorAll("form.answer")) {
    form.addEventListener("submit", (e) => {
      if (form.dataset.sent) { e.preventDefault(); return; }
      form.dataset.sent = "yes";
    });
  }
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form.answer")) delete form.dataset.sent;
  });

  const refresh = async () => {
    const box = document.getElementById("rows");
    const known = new Set(rows().map((a) => a.getAttribute("href")));
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    const to = new URL(location.href);
    to.searchParams.set("part", "rows");
    const reply = await fetch(to, { credentials: "same-origin" });
    if (!reply.ok) return;
    const doc = new DOMParser().parseFromString(await reply.text(), "text/html");
    box.replaceChildren(...doc.body.childNodes);
    let fresh = 0;
    for (const a of rows()) {
      const href = a.getAttribute("href");
      if (!known.has(href)) { a.parentElement.classList.add("new"); fresh++; }
      if (href === focused) a.focus();
    }
    const n = rows().length;
    say(`${n} open${fresh ? `, ${fresh} new` : ""}`);
  };

  if (page !== "list" && page !== "question") return;
  let busy = false, again = false;
  const look = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try { await refresh(); } catch { /* the next change is another try */ }
    busy = false;
    if (again) { again = false; look(); }
  };
  const source = new EventSource("/events");
  source.onmessage = (e) => {
    if (page === "list") { look(); return; }
    const article = document.querySelector("article[data-request]");
    if (e.data && article && article.dataset.request === e.data) document.getElementById("meanwhile").hidden = false;
  };
  if (page === "list") setInterval(look, 60000); // the time that is left
})();
