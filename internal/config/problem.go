package config

import (
	"sort"
	"strings"
)

// Problem is one mistake in the configuration.
type Problem struct {
	// Key is the key's path in the file, such as worker.lease_ttl.
	Key string
	// Place is where the value was given: file and line, environment variable
	// or flag; empty if it was not given at all.
	Place string
	// Message says what is wrong and what would be right.
	Message string
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Place != "" && p.Place != p.Key {
		if p.Key != "" {
			b.WriteString(" ")
		}
		b.WriteString("(" + p.Place + ")")
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Error holds every mistake that was found. Its text has one line for each.
type Error struct {
	Problems []Problem
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return "invalid configuration:\n  " + strings.Join(lines, "\n  ")
}

// problems collects mistakes while a configuration is read.
type problems struct {
	list []Problem
}

func (p *problems) add(key, place, message string) {
	p.list = append(p.list, Problem{Key: key, Place: place, Message: message})
}

// about reports whether one of keys is already known to be wrong: a relation
// with a value that could not be read says nothing.
func (p *problems) about(keys ...string) bool {
	for _, have := range p.list {
		for _, k := range keys {
			if have.Key == k {
				return true
			}
		}
	}
	return false
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	sort.SliceStable(p.list, func(i, j int) bool { return p.list[i].Key < p.list[j].Key })
	return &Error{Problems: p.list}
}
