package console

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// Handler serves the console; [Console.Run] serves it on its address.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	files, _ := fs.Sub(static, "static") // it is embedded
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(files)))
	mux.HandleFunc("POST /login", c.login)
	mux.HandleFunc("GET /{$}", c.inside(c.listPage))
	mux.HandleFunc("GET /questions/{request}", c.inside(c.questionPage))
	mux.HandleFunc("POST /questions/{request}/confirm", c.inside(c.confirm))
	mux.HandleFunc("POST /questions/{request}/answer", c.inside(c.answer))
	mux.HandleFunc("GET /decisions", c.inside(c.decisionsPage))
	mux.HandleFunc("GET /events", c.inside(c.stream))
	mux.HandleFunc("/", c.inside(func(w http.ResponseWriter, r *http.Request) {
		p := c.page(r, "Not found")
		p.Error = "There is no such page."
		c.show(w, r, http.StatusNotFound, "error", p)
	}))
	return c.guard(mux)
}

const (
	pageRows = 100
	maxSeen  = 5000 // questions that one page looks through for a text
)

// listPage shows what is open, oldest first.
func (c *Console) listPage(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	q := r.URL.Query()
	l := &list{Text: strings.TrimSpace(q.Get("q")), Kind: q.Get("kind"), Mine: q.Get("mine") != "", Questions: []row{}}
	req := events.QuestionsRequest{All: !l.Mine}
	switch kind := events.Kind(l.Kind); kind {
	case events.KindConfirm, events.KindExternal:
		req.Kind = kind
	}
	req.After, _ = strconv.ParseUint(q.Get("after"), 10, 64) // else from the beginning
	l.Paged = req.After > 0
	l.Filtered = l.Text != "" || req.Kind != "" || l.Mine
	seen, last := 0, uint64(0)
	p := c.page(r, "Open questions")
	p.List = l
	for open, err := range c.c.Questions(ctx, req) {
		if err != nil {
			c.failed(w, r, p, err)
			return
		}
		if seen++; len(l.Questions) == pageRows || seen > maxSeen {
			next := r.URL.Query()
			next.Set("after", strconv.FormatUint(last, 10))
			next.Del("part")
			l.More = "/?" + next.Encode()
			break
		}
		last = open.Seq
		if matches(open, l.Text) {
			l.Questions = append(l.Questions, row{OpenQuestion: open})
		}
	}
	c.show(w, r, http.StatusOK, part(r, "list"), p)
}

// part is the template of a page, or of the part of it that the script asks for.
func part(r *http.Request, name string) string {
	if r.URL.Query().Get("part") != "" {
		return name + "-part"
	}
	return name
}

func matches(q events.OpenQuestion, text string) bool {
	text = strings.ToLower(text)
	for _, in := range []string{
		string(q.Question.Call.Name), q.Question.Title, q.Question.Why, string(q.Question.Requester), string(q.Session),
		q.Question.RequestID, string(q.Question.Call.Input),
	} {
		if strings.Contains(strings.ToLower(in), text) {
			return true
		}
	}
	return false
}

// decisionsPage shows what was decided, newest first.
func (c *Console) decisionsPage(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	skip, _ := strconv.Atoi(r.URL.Query().Get("skip")) // else none
	skip = max(0, min(skip, maxSeen))
	p := c.page(r, "Decisions")
	p.Newer = skip > 0
	seen := 0
	for d, err := range c.c.Decisions(ctx) {
		if err != nil {
			c.failed(w, r, p, err)
			return
		}
		if seen++; seen <= skip {
			continue
		}
		if len(p.Decisions) == pageRows {
			p.Older = skip + pageRows
			break
		}
		p.Decisions = append(p.Decisions, row{OpenQuestion: events.OpenQuestion{Session: d.Session, Turn: d.Turn, Question: d.Decided.Question}, Decided: &d.Decided})
	}
	c.show(w, r, http.StatusOK, "decisions", p)
}

// failed shows why a page cannot be had.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, p page, err error) {
	status, text := trouble(err)
	if status >= http.StatusInternalServerError {
		c.log.Warn().Err(err).Msg("asking a dispatcher")
	}
	p.Error = text
	c.show(w, r, status, "error", p)
}

// trouble says for people what an error of the client means.
func trouble(err error) (status int, text string) {
	switch {
	case errors.Is(err, agent.ErrNotFound):
		return http.StatusNotFound, "No such question is known, or no longer."
	case errors.Is(err, agent.ErrDenied):
		return http.StatusForbidden, "The identity of this console may not do that: " + err.Error()
	case errors.Is(err, agent.ErrInvalid):
		return http.StatusBadRequest, "That cannot be: " + err.Error()
	case errors.Is(err, agent.ErrFull):
		return http.StatusServiceUnavailable, "The installation takes no more for now; nothing was stored. Try again in a while."
	case errors.Is(err, agent.ErrUnavailable), errors.Is(err, agent.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "No dispatcher answers just now. What is open stays open; try again in a while. (" + err.Error() + ")"
	}
	return http.StatusInternalServerError, err.Error()
}
