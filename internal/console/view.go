package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

//go:embed templates
var templates embed.FS

//go:embed static
var static embed.FS

// page is what every page has, and what some have.
type page struct {
	Title, Actor, CSRF, Path string
	Login, Wrong             bool   // the page to sign in, after a wrong token
	Next                     string // where to go on then

	List      *list
	Question  *question
	Decisions []row
	Older     int // decisions to leave out on the next page; 0: there is none
	Newer     bool
	Error     string // of the page
}

func (c *Console) page(r *http.Request, title string) page {
	return page{Title: title, Actor: c.cfg.Actor, CSRF: c.keys.form, Path: r.URL.Path}
}

// list is what is open.
type list struct {
	Text, Kind string
	Mine       bool
	Questions  []row
	More       string // where the next page begins
	Filtered   bool
	Paged      bool
}

// row is a question in a list.
type row struct {
	events.OpenQuestion
	Decided *events.Decided
}

// Args is the beginning of the arguments, and how large they are if that is not all.
func (r row) Args() string { return beginning(string(r.Question.Call.Input), maxArgs) }

// MoreArgs says how large arguments are that are not shown whole; "": they are.
func (r row) MoreArgs() string {
	if n := len(r.Question.Call.Input); n > maxArgs {
		return size(n)
	}
	return ""
}

// maxArgs is how many bytes of arguments a list shows.
const maxArgs = 140

// Needed says who is still needed.
func (r row) Needed() string { return needed(r.OpenQuestion) }

func needed(q events.OpenQuestion) string {
	who := "anyone but the requester"
	if len(q.Question.Roles) > 0 {
		who = "of " + strings.Join(q.Question.Roles, ", ")
	}
	switch {
	case q.Question.Kind == events.KindExternal:
		return "an answer from " + who
	case q.Question.Quorum > 1:
		return fmt.Sprintf("%d of %d people, %s", q.Missing, q.Question.Quorum, who)
	}
	return "1 person, " + who
}

// parsePages reads the templates. Untrusted text goes through text (marked in place) or line (in attributes).
func parsePages() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"text": func(s any) template.HTML { return marked(fmt.Sprint(s)) },
		"line": func(s any) string { return show.Line(fmt.Sprint(s)) },
		"left": func(t *time.Time) string { return left(t, time.Now()) },
		"when": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"iso":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ago":  func(t time.Time) string { return span(time.Since(t)) + " ago" },
		"doc":  func(raw []byte) document { return newDocument(raw) },
		"join": strings.Join,
		"content": func(c events.Content) string { // a text, or the block as it is
			if s, ok := c.Text(); ok {
				return s
			}
			return string(c)
		},
	}).ParseFS(templates, "templates/*.html")
}

// marked is untrusted text as HTML, in which each escape is marked as one.
func marked(s string) template.HTML {
	var b strings.Builder
	for _, p := range show.Pieces(s) {
		if p.Escaped {
			b.WriteString(`<span class="esc" title="a character that does not show">` + template.HTMLEscapeString(p.Text) + `</span>`)
			continue
		}
		b.WriteString(template.HTMLEscapeString(p.Text))
	}
	return template.HTML(b.String()) //nolint:gosec // every piece is escaped above
}

// left says how much time there is until then.
func left(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return "no limit"
	case !t.After(now):
		return "expired"
	}
	return span(t.Sub(now)) + " left"
}

func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// show writes a page whole, or says that it cannot.
func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	var b bytes.Buffer
	if err := c.pages.ExecuteTemplate(&b, name, p); err != nil {
		c.log.Error().Err(err).Str("page", name).Msg("page cannot be shown")
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes())
	}
}
