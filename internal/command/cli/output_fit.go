package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// widthOf is the width of the terminal behind w in columns, 0 if there is none:
// files and pipes get lines of any length.
func widthOf(w io.Writer) int {
	file, ok := behindOf(w).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// fit limits the table to the width of a terminal: it cuts the given columns,
// in their order. They must not contain colours. Zero means any width.
func (t *table) fit(width int, elastic ...int) {
	t.width, t.elastic = width, elastic
}

// leastWidth is the least width to which a column is cut.
const leastWidth = 6

// shrink narrows the elastic columns until the table fits.
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

// cutTo cuts plain text to width characters.
func cutTo(text string, width int) string {
	if visibleWidth(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}
