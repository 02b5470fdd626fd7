package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// keys are made of the token, so that neither a cookie nor a form says it.
type keys struct{ token, cookie, form string }

func newKeys(token string) keys {
	derive := func(what string) string {
		h := hmac.New(sha256.New, []byte(token))
		h.Write([]byte("toolwire console " + what))
		return hex.EncodeToString(h.Sum(nil))
	}
	return keys{token: derive("token"), cookie: derive("cookie"), form: derive("form")}
}

// same compares in constant time.
func same(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// opens says whether a token is the right one.
func (c *Console) opens(token string) bool { return same(newKeys(token).token, c.keys.token) }

// cookieName has the port in it, since cookies of a host are shared by all of its ports.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "toolwire_console"
	}
	return "toolwire_console_" + port
}

// letIn gives a browser its cookie.
func (c *Console) letIn(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is TLS; on loopback there is none
		Name: cookieName(r), Value: c.keys.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

// bearer is the token that a program sends with each request.
func (c *Console) bearer(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && c.opens(token)
}

func (c *Console) knows(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(r))
	return err == nil && same(cookie.Value, c.keys.cookie) || c.bearer(r)
}

// guard is around all that the console serves: who asks, by which name, and from where.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // no-referrer would hide the origin of our own forms, too
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !c.hosts[bareHost(r.Host)] {
			c.refuse(w, r, http.StatusMisdirectedRequest, "This console is not served under that name. Open the address that it printed at its start, or start it with --console-host.")
			return
		}
		if why := foreign(r); why != "" {
			c.refuse(w, r, http.StatusForbidden, why)
			return
		}
		// A page that streams sets deadlines of its own.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTimeout))
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// foreign says why a request is none that a page of the console makes; "": it may be one.
func foreign(r *http.Request) string {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "", site == "none", site == "same-origin":
	case reads && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document": // a link
	default:
		return "The request comes from another site."
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return "The request comes from another origin."
		}
	}
	return ""
}

// inside is around what only those see who are let in. A token in the address lets in, and leaves it.
func (c *Console) inside(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if token := q.Get("token"); token != "" && r.Method == http.MethodGet && c.opens(token) {
			c.letIn(w, r)
			q.Del("token")
			http.Redirect(w, r, (&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String(), http.StatusSeeOther)
			return
		}
		if !c.knows(r) {
			c.loginPage(w, r, q.Get("token") != "")
			return
		}
		if r.Method == http.MethodPost && !c.formed(w, r) {
			return
		}
		next(w, r)
	}
}

// formed reads a form, and says whether it is of a page of the console.
func (c *Console) formed(w http.ResponseWriter, r *http.Request) bool {
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, http.StatusRequestEntityTooLarge, "The form cannot be read; it may have "+size(maxBody)+" at most.")
		return false
	}
	if !c.bearer(r) && !same(r.PostForm.Get("csrf"), c.keys.form) {
		c.refuse(w, r, http.StatusForbidden, "The form is not of a page of this console, or of one before it was started again. Load the page again.")
		return false
	}
	return true
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request, wrong bool) {
	p := c.page(r, "Sign in")
	p.Login, p.Next, p.Wrong = true, (&url.URL{Path: r.URL.Path}).String(), wrong
	if r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/events") {
		p.Next = "/"
	}
	c.show(w, r, http.StatusUnauthorized, "login", p)
}

// login takes a token that was typed.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || !c.opens(strings.TrimSpace(r.PostForm.Get("token"))) {
		c.loginPage(w, r, true)
		return
	}
	c.letIn(w, r)
	http.Redirect(w, r, within(r.PostForm.Get("next")), http.StatusSeeOther) //nolint:gosec // a path of ours
}

// within is a path of the console; whatever else it is given becomes the first page.
func within(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

func (c *Console) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	c.log.Debug().Str("method", r.Method).Int("status", status).Str("remote", r.RemoteAddr).Msg("request refused")
	http.Error(w, why, status)
}
