package document

import "strings"

// Normal returns a key or the name of a value in the form used for comparison: a hyphen
// is an underscore.
func Normal(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Nearest returns the candidate that name was most likely meant to be. Earlier candidates
// win ties. It returns none if all are too different.
func Nearest(name string, candidates []string) (string, bool) {
	const longest = 100
	if len(name) > longest {
		return "", false
	}
	name = strings.ToLower(Normal(name))
	best, least := "", 1+len(name)/4+1
	for _, candidate := range candidates {
		if d := editDistance(name, strings.ToLower(Normal(candidate)), least); d < least {
			best, least = candidate, d
		}
	}
	return best, best != ""
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours
// that lead from a to b. A result of limit or more may be too small.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// didYouMean ends a message about an unknown name.
func didYouMean(name string, candidates []string) string {
	if nearest, ok := Nearest(name, candidates); ok {
		return `; did you mean "` + nearest + `"?`
	}
	return ""
}
