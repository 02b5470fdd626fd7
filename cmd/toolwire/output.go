package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, one line")
}

// colours says whether w is a terminal whose user wants colours.
func (a *app) colours(w io.Writer) bool {
	return a.env["NO_COLOR"] == "" && a.env["TERM"] != "dumb" && isTerminal(w)
}

// The colours that are used.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint colours text that goes to stdout.
func (a *app) paint(colour, s string) string {
	if !a.colours(a.out) {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// print writes to stdout. A reader that went away ends the command elsewhere.
func (a *app) print(format string, args ...any) { _, _ = fmt.Fprintf(a.out, format, args...) }

// note writes a line for people to stderr.
func (a *app) note(format string, args ...any) { _, _ = fmt.Fprintf(a.err, format+"\n", args...) }

// printJSON writes v as one line. Raw JSON inside stays as it is, but for white space.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// table writes rows under a heading, in columns. Cells are untrusted text.
func (a *app) table(heading []string, rows [][]string) {
	width := make([]int, len(heading))
	cells := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{heading}, rows...) {
		line := make([]string, len(row))
		for i, c := range row {
			line[i] = show.Line(c)
			width[i] = max(width[i], utf8.RuneCountInString(line[i]))
		}
		cells = append(cells, line)
	}
	for n, row := range cells {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2))
			}
		}
		line := strings.TrimRight(b.String(), " ")
		if n == 0 {
			line = a.paint(dim, line)
		}
		a.print("%s\n", line)
	}
}

// brief is the first line of s, cut to what fits in a table.
func brief(s string) string {
	const most = 60
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// count says how many of something there are: 1 tool, 2 tools.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
