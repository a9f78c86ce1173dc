package model_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/pkg/store"
)

func words(list ...any) string {
	out := make([]string, len(list))
	for i, v := range list {
		switch v {
		case true:
			out[i] = "t"
		case false:
			out[i] = "f"
		default:
			out[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(out, " ")
}

// likeAny replaces a line's last word by "any" if that is what the other line
// ends in.
func likeAny(line, other string) string {
	if !strings.HasSuffix(other, " any") {
		return line
	}
	head, _, _ := cutLast(line)
	return head + " any"
}

func cutLast(line string) (head, last string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}

func ids(runs []*run) []string {
	var out []string
	for _, r := range runs {
		out = append(out, r.id.String())
	}
	slices.Sort(out)
	return out
}

func sortedIDs(list []store.Acquired) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.Lease.RunID.String())
	}
	slices.Sort(out)
	return out
}
