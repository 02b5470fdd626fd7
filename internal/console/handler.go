package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// parsePages returns the templates by the name of their page, each with the layout.
func parsePages() map[string]*template.Template {
	all := make(map[string]*template.Template)
	for _, name := range []string{"list", "question", "decisions", "error"} {
		all[name] = template.Must(template.ParseFS(templateFiles, "templates/layout.html", "templates/rows.html", "templates/"+name+".html"))
	}
	return all
}

const (
	askTimeout = 10 * time.Second // of a request to the installation
	pageSize   = 100              // questions or decisions on one page
)

// Handler serves the page. Nothing reaches it that the guard does not let through.
func (c *Console) Handler() http.Handler {
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic(err) //nolint:forbidigo // the directory is part of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	mux.HandleFunc("GET /{$}", c.list)
	mux.HandleFunc("GET /question/{request}", c.show)
	mux.HandleFunc("POST /question/{request}/confirm", c.confirm)
	mux.HandleFunc("POST /question/{request}/answer", c.answer)
	mux.HandleFunc("GET /decisions", c.decisions)
	mux.HandleFunc("GET /events", c.events)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, http.StatusNotFound, "There is no such page.")
	})
	return c.guard.wrap(mux)
}

// frame is what every page has.
type frame struct {
	Title string
	Actor string
	CSRF  string
	Path  string
}

func (c *Console) frame(title string, r *http.Request) frame {
	return frame{Title: title, Actor: visible(c.cfg.Actor), CSRF: c.guard.formToken(), Path: r.URL.Path}
}

func (c *Console) render(w http.ResponseWriter, code int, page, part string, data any) {
	var b bytes.Buffer
	if err := c.pages[page].ExecuteTemplate(&b, part, data); err != nil {
		c.log.Error().Err(err).Str("page", page).Msg("page not made")
		refuse(w, http.StatusInternalServerError, "The page could not be made. The log of the console says why.")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // a browser that is gone needs no page
}

type errorPage struct {
	frame
	Text string
}

func (c *Console) fail(w http.ResponseWriter, r *http.Request, code int, text string) {
	c.render(w, code, "error", "layout", errorPage{c.frame("That did not work", r), visible(text)})
}

// trouble shows an error of the installation.
func (c *Console) trouble(w http.ResponseWriter, r *http.Request, err error) {
	code, text := http.StatusBadGateway, "The installation does not answer at present: "+err.Error()
	switch {
	case errors.Is(err, agent.ErrNotFound):
		code, text = http.StatusNotFound, "There is no such question. It may have been decided long ago."
	case errors.Is(err, agent.ErrDenied):
		code, text = http.StatusForbidden, "This console may not do that: "+err.Error()
	case errors.Is(err, agent.ErrInvalid):
		code, text = http.StatusBadRequest, err.Error()
	case r.Context().Err() != nil:
		return
	}
	c.log.Warn().Err(err).Msg("request of the page failed")
	c.fail(w, r, code, text)
}

type listPage struct {
	frame
	Rows        []row
	Tool        string
	Kind        string
	Filtered    bool
	More        string // address of the next page; "": there is none
	After       bool   // not the first page
	RefreshedAt string
}

// list shows the open questions, oldest first.
func (c *Console) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	after, _ := strconv.ParseUint(q.Get("after"), 10, 64) // anything else is the first page
	page := listPage{
		frame: c.frame("Open questions", r), Tool: visible(q.Get("tool")), Kind: q.Get("kind"), After: after > 0,
		Filtered: q.Get("tool") != "" || q.Get("kind") != "", RefreshedAt: time.Now().Format("15:04:05"),
	}
	want := events.QuestionsRequest{After: after, Limit: pageSize + 1, Tool: events.ToolName(q.Get("tool"))}
	if k := events.Kind(page.Kind); k == events.KindConfirm || k == events.KindExternal {
		want.Kind = k
	} else {
		page.Kind = ""
	}
	last := uint64(0)
	for open, err := range c.client.Questions(ctx, want) {
		if err != nil {
			c.trouble(w, r, err)
			return
		}
		if len(page.Rows) == pageSize {
			next := url.Values{"after": {strconv.FormatUint(last, 10)}}
			for _, k := range []string{"tool", "kind"} {
				if v := q.Get(k); v != "" {
					next.Set(k, v)
				}
			}
			page.More = "/?" + next.Encode()
			break
		}
		last = open.Seq
		page.Rows = append(page.Rows, newRow(open, time.Now()))
	}
	part := "layout"
	if q.Get("part") == "rows" {
		part = "rows"
	}
	c.render(w, http.StatusOK, "list", part, page)
}

type decisionsPage struct {
	frame
	Rows []decisionRow
}

// decisions shows what was decided, newest first.
func (c *Console) decisions(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	page := decisionsPage{frame: c.frame("Decisions", r)}
	for d, err := range c.client.Decisions(ctx) {
		if err != nil && len(page.Rows) == 0 {
			c.trouble(w, r, err)
			return
		}
		if err != nil || len(page.Rows) == pageSize {
			break
		}
		page.Rows = append(page.Rows, newDecisionRow(d))
	}
	c.render(w, http.StatusOK, "decisions", "layout", page)
}

// show shows one question, with a form if it is open.
func (c *Console) show(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	reply, err := c.client.Question(ctx, r.PathValue("request"))
	if err != nil {
		c.trouble(w, r, err)
		return
	}
	page := c.questionPage(r, reply)
	switch r.URL.Query().Get("said") {
	case events.JudgedAccepted:
		page.Notice = "Your answer decided the question."
	case events.JudgedCounted:
		page.Notice = "Your approval is counted. Others have to approve as well."
	case events.JudgedDuplicate:
		page.Notice = "You had said the same before. It counts once."
	}
	c.render(w, http.StatusOK, "question", "layout", page)
}
