// Keeps pages up to date and moves the focus by keys. Everything works without it.
"use strict";
(() => {
  const part = document.getElementById("part");
  const live = document.getElementById("live");
  const say = (text) => { if (live) live.textContent = text; };

  // Time left.
  const span = (s) => s < 60 ? Math.floor(s) + " s" : s < 3600 ? Math.floor(s / 60) + " min"
    : s < 172800 ? Math.floor(s / 3600) + " h " + Math.floor(s / 60) % 60 + " min" : Math.floor(s / 86400) + " days";
  const clocks = () => {
    for (const el of document.querySelectorAll("[data-until]")) {
      const s = (new Date(el.dataset.until) - Date.now()) / 1000;
      el.textContent = s > 0 ? span(s) + " left" : "expired";
      el.classList.toggle("soon", s < 900);
    }
  };
  clocks();
  setInterval(clocks, 1000);

  // What the server renders anew takes the place of what is there; the focus stays on the same question.
  let busy = false, stale = false;
  const refresh = async () => {
    if (!part || part.dataset.request && !("open" in part.dataset)) return;
    if (busy) { stale = true; return; }
    busy = true;
    try {
      const at = new URL(location.href);
      at.searchParams.set("part", "1");
      const r = await fetch(at, { headers: { Accept: "text/html" } });
      if (r.ok) {
        const focused = document.activeElement && part.contains(document.activeElement) ? document.activeElement.id : "";
        part.innerHTML = await r.text();
        if (focused) document.getElementById(focused)?.focus();
        clocks();
      }
    } catch { /* the next event, or the next tick, tries again */ }
    busy = false;
    if (stale) { stale = false; refresh(); }
  };
  if (part) {
    const mine = part.dataset.request;
    const source = new EventSource("/events");
    const facts = (e) => { const [request, tool] = e.data.split(" "); return { request, tool }; };
    source.addEventListener("begun", () => { document.documentElement.dataset.live = "1"; refresh(); });
    source.addEventListener("asked", (e) => { if (!mine) { say("New question: " + facts(e).tool); refresh(); } });
    source.addEventListener("decided", (e) => {
      const { request, tool } = facts(e);
      if (!mine) { say("Decided: " + tool); refresh(); return; }
      if (request === mine && "open" in part.dataset) {
        document.getElementById("changed").hidden = false;
        say("This question was decided meanwhile.");
      }
    });
    setInterval(() => { if (!document.hidden) refresh(); }, 15000);
  }

  // After an answer the first thing to read is what became of it.
  (document.getElementById("wrong") || document.getElementById("said"))?.focus();

  // A form is sent once.
  for (const form of document.querySelectorAll(".answer form")) {
    form.addEventListener("submit", (e) => {
      if (form.dataset.sent) e.preventDefault();
      form.dataset.sent = "1";
    });
  }
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("[data-sent]")) delete form.dataset.sent;
  });

  // Keys.
  const move = (by) => {
    const cards = [...document.querySelectorAll(".card")];
    const at = cards.indexOf(document.activeElement);
    const to = at < 0 ? (by > 0 ? 0 : cards.length - 1) : Math.min(Math.max(at + by, 0), cards.length - 1);
    cards[to]?.focus();
  };
  const go = (id) => {
    const el = document.getElementById(id);
    if (!el) return;
    const fold = el.closest("details");
    if (fold) fold.open = true;
    el.focus();
    el.scrollIntoView({ block: "center" });
  };
  const keys = {
    j: () => move(1), k: () => move(-1), "/": () => go("q"), e: () => go("input"), d: () => go("reason"),
    a: () => go(document.getElementById("do-approve") ? "do-approve" : document.querySelector("#result [name=choice]") ? "do-answer" : "content"),
    u: () => { location.href = "/"; },
    "?": () => { const k = document.getElementById("keys"); k.open = !k.open; k.querySelector("summary").focus(); },
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
    if (e.key === "Escape") { document.activeElement?.blur(); return; }
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName) && !/^(radio|checkbox)$/.test(document.activeElement.type)) return;
    if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
  });
})();
