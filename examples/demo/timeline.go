package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// tone is how a line is meant.
type tone string

const (
	plain   tone = ""
	hand    tone = "\x1b[1;33m" // we interfere
	refused tone = "\x1b[1;31m" // the database says no
	good    tone = "\x1b[32m"
	quiet   tone = "\x1b[2m"
	heading tone = "\x1b[1;36m"
)

// event is one line of the timeline.
type event struct {
	at   time.Time
	who  string
	what string
	tone tone
}

// timeline prints events as they happen. It is safe for concurrent use.
type timeline struct {
	start time.Time
	color bool

	mu   sync.Mutex // guards out and last
	out  io.Writer
	last time.Time
}

// say prints one event.
func (t *timeline) say(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// What we only read of is printed after what we did ourselves meanwhile;
	// a time that jumped back would make the reader doubt the order.
	if e.at.Before(t.last) {
		e.at = t.last
	}
	t.last = e.at
	line := fmt.Sprintf("%6.1fs  %-12s  %s", e.at.Sub(t.start).Seconds(), e.who, e.what)
	fmt.Fprintln(t.out, t.paint(e.tone, line))
}

// now prints an event of this moment.
func (t *timeline) now(who string, tone tone, format string, args ...any) {
	t.say(event{at: time.Now(), who: who, what: fmt.Sprintf(format, args...), tone: tone})
}

// act prints the heading of an act and why anybody should care.
func (t *timeline) act(title string, why ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "\n%s\n", t.paint(heading, "── "+title+" "+strings.Repeat("─", max(2, 72-len([]rune(title))))))
	for _, line := range why {
		fmt.Fprintln(t.out, "   "+line)
	}
}

func (t *timeline) paint(tone tone, text string) string {
	if !t.color || tone == plain {
		return text
	}
	return string(tone) + text + "\x1b[0m"
}
