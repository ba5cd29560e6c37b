package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// widthOf is how many columns the terminal behind w has, 0 if there is none:
// files and pipes get lines of any length.
func widthOf(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// fit makes the table not wider than a terminal: the given columns are cut, the
// first of them first. They must not carry colours. Zero is any width.
func (t *table) fit(width int, elastic ...int) {
	t.width, t.elastic = width, elastic
}

// leastWidth is what remains of a column that is cut.
const leastWidth = 6

// shrink takes from elastic columns what is too much.
func (t *table) shrink(widths []int) {
	if t.width <= 0 || len(widths) == 0 {
		return
	}
	whole := 2 * (len(widths) - 1)
	for _, width := range widths {
		whole += width
	}
	for _, column := range t.elastic {
		if column >= len(widths) || whole <= t.width {
			continue
		}
		cut := min(whole-t.width, max(0, widths[column]-leastWidth))
		widths[column] -= cut
		whole -= cut
	}
}

// cutTo cuts a plain text to so many characters.
func cutTo(text string, width int) string {
	if visibleWidth(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}
