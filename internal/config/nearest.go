package config

// nearest returns the candidate closest to name by edit distance, or "" if none
// is close enough to be what was meant.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", 2+len(name)/4
	for _, c := range candidates {
		if d := distance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func didYouMean(name string, candidates []string) string {
	if n := nearest(name, candidates); n != "" {
		return " (did you mean " + n + "?)"
	}
	return ""
}
