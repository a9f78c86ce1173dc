package main

import (
	"fmt"
	"strings"
)

// markdown is the table of docs/mutants.md.
func markdown(list []mutant) string {
	var b strings.Builder
	b.WriteString("| mutant | without it | killed by |\n|---|---|---|\n")
	for _, m := range list {
		fmt.Fprintf(&b, "| %s | %s | `%s` in %s |\n", m.name, m.removes, m.by.name, strings.TrimPrefix(m.by.pkg, "./"))
	}
	return b.String()
}
