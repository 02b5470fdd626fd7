package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// cookieName is the cookie that stands for the token.
const cookieName = "toolwire_console"

// maxForm is the most bytes of a form: as large as arguments may be.
const maxForm = 20 << 20

// guard lets through who has the token, asks under a name that is served, and sends forms of ours.
type guard struct {
	token string
	cross *http.CrossOriginProtection

	mu    sync.Mutex
	hosts []string
}

func newGuard(cfg Config) *guard {
	return &guard{token: cfg.Token, cross: http.NewCrossOriginProtection(), hosts: slices.Clone(cfg.Hosts)}
}

// serve adds the names under which an address is reached.
func (g *guard) serve(addr string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
			g.hosts = append(g.hosts, net.JoinHostPort(name, port))
		}
	}
	g.hosts = append(g.hosts, addr)
}

func (g *guard) knows(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	name, _, err := net.SplitHostPort(host)
	return slices.Contains(g.hosts, host) || err == nil && slices.Contains(g.hosts, name)
}

// session is the value of the cookie: it tells nothing of the token.
func (g *guard) session() string { return g.derive("cookie") }

// formToken is what every form brings along.
func (g *guard) formToken() string { return g.derive("form") }

func (g *guard) derive(what string) string {
	mac := hmac.New(sha256.New, []byte(g.token))
	mac.Write([]byte(what))
	return hex.EncodeToString(mac.Sum(nil))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// wrap puts the guard before a handler. Files of the page itself are for anybody.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		if !g.knows(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "This console is not served under the name "+r.Host+". Open the address that it printed at its start, or start it with --console-host.")
			return
		}
		if err := g.cross.Check(r); err != nil {
			refuse(w, http.StatusForbidden, "The request comes from another site. Open the console itself.")
			return
		}
		if strings.HasPrefix(r.URL.Path, "/static/") {
			next.ServeHTTP(w, r)
			return
		}
		if g.login(w, r) {
			return
		}
		if c, err := r.Cookie(cookieName); (err != nil || !same(c.Value, g.session())) && !g.bearer(r) {
			refuse(w, http.StatusUnauthorized, "This console wants its token. Open the address that it printed at its start: it ends in ?token=…")
			return
		}
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if err := r.ParseForm(); err != nil {
				refuse(w, http.StatusBadRequest, "The form cannot be read: "+err.Error())
				return
			}
			if !g.bearer(r) && !same(r.PostForm.Get("csrf"), g.formToken()) {
				refuse(w, http.StatusForbidden, "The form is not one of this console, or of an earlier start of it. Load the page again.")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// login takes the token from the address and puts a cookie in its place.
func (g *guard) login(w http.ResponseWriter, r *http.Request) (done bool) {
	token := r.URL.Query().Get("token")
	if token == "" || r.Method != http.MethodGet {
		return false
	}
	if !same(token, g.token) {
		refuse(w, http.StatusUnauthorized, "This is not the token of this console. It may have been started anew: open the address that it printed last.")
		return true
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where there is TLS: on loopback there is none
		Name: cookieName, Value: g.session(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: 30 * 24 * 3600,
		Secure: r.TLS != nil,
	})
	to := *r.URL
	q := to.Query()
	q.Del("token")
	to.RawQuery = q.Encode()
	http.Redirect(w, r, (&url.URL{Path: to.Path, RawQuery: to.RawQuery}).String(), http.StatusSeeOther)
	return true
}

func (g *guard) bearer(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && same(token, g.token)
}

func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // plain text, which no browser takes for anything else
}
