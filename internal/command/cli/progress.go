package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/document"
)

// progress shows the progress of a long computation on a terminal. Elsewhere, and for computations
// that end within a second, it shows nothing.
type progress struct {
	out     io.Writer
	whole   time.Duration
	started time.Time
	shown   time.Time
}

func newProgress(out io.Writer, whole time.Duration) *progress {
	if file, ok := out.(*os.File); !ok || !isTerminal(file) {
		out = nil
	}
	return &progress{out: out, whole: whole, started: time.Now()}
}

// show draws the bar for a part of the whole time.
func (p *progress) show(done time.Duration) {
	p.showAs(float64(done)/float64(p.whole),
		document.FormatDuration(done.Truncate(time.Minute))+" of "+document.FormatDuration(p.whole))
}

// showAs draws the bar with a text beside it, at most ten times a second.
func (p *progress) showAs(part float64, text string) {
	now := time.Now()
	if p.out == nil || now.Sub(p.started) < time.Second || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	const width = 40
	filled := min(max(int(part*width), 0), width)
	fmt.Fprintf(p.out, "\r[%s%s] %3.0f %%  %s\x1b[K", strings.Repeat("=", filled), strings.Repeat(" ", width-filled), 100*part, text)
}

// clear removes the bar from the screen.
func (p *progress) clear() {
	if p.out != nil && !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
