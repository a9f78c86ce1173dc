package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cli/go-gh/v2/pkg/tableprinter"
	"golang.org/x/term"
)

// print writes a list: rows for people and pipes, list itself as JSON.
func (e *env) print(list any, header []string, rows [][]string) error {
	if e.output == "json" {
		return e.printJSON(list)
	}
	tty, width := terminal(e.Out)
	t := tableprinter.New(e.Out, e.output == "table" || (e.output == "" && tty), width)
	if len(header) > 0 && (tty || e.output == "table") {
		t.AddHeader(header)
	}
	for _, row := range rows {
		for i, field := range row {
			// The first column is what one copies: never cut it.
			if i == 0 {
				t.AddField(field, tableprinter.WithTruncate(nil))
				continue
			}
			t.AddField(field)
		}
		t.EndRow()
	}
	return t.Render()
}

// printJSON writes v without touching the raw JSON inside it: numbers stay
// what they are.
func (e *env) printJSON(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// say tells a person something that is not data.
func (e *env) say(format string, args ...any) {
	_, _ = fmt.Fprintf(e.Err, format+"\n", args...)
}

func terminal(w io.Writer) (bool, int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, 200
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		width = 120
	}
	return true, width
}

// pair is a line of a single thing's description.
type pair struct{ name, value string }

// printPairs describes one thing: v as JSON, pairs for a person.
func (e *env) printPairs(v any, pairs []pair) error {
	if e.output == "json" {
		return e.printJSON(v)
	}
	for _, p := range pairs {
		if p.value == "" {
			continue
		}
		if _, err := fmt.Fprintf(e.Out, "%-14s %s\n", p.name, strings.ReplaceAll(p.value, "\n", "\n               ")); err != nil {
			return err
		}
	}
	return nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func stampOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return stamp(*t)
}

func age(t *time.Time) string {
	if t == nil {
		return ""
	}
	return time.Since(*t).Truncate(time.Second).String()
}
