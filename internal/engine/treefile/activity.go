package treefile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/document"
)

// Window is a time in which an operation has its demand, counted from the
// moment that the file describes.
type Window struct {
	From time.Duration
	// To is the end of the window; Forever if it has none.
	To time.Duration
	// Every repeats the window; zero means once.
	Every time.Duration
}

// Forever is the end of a window without end.
const Forever time.Duration = 1<<63 - 1

// Activity is when an operation has its demand. An empty one means always.
type Activity []Window

// ParseWindow reads "12h-24h every 24h", "6h-7h", "12h-" (from then on).
func ParseWindow(text string) (w Window, err error) {
	span, every, repeats := strings.Cut(text, " every ")
	from, to, ranged := strings.Cut(span, "-")
	if !ranged {
		return w, errors.New(`must be a time like "12h-24h", "12h-24h every 24h" or "12h-"`)
	}
	if w.From, err = document.ParseDuration(strings.TrimSpace(from)); err != nil {
		return w, fmt.Errorf("begins with %q, which is no duration", shorten(from))
	}
	w.To = Forever
	if to = strings.TrimSpace(to); to != "" {
		if w.To, err = document.ParseDuration(to); err != nil {
			return w, fmt.Errorf("ends with %q, which is no duration", shorten(to))
		}
	}
	if repeats {
		if w.Every, err = document.ParseDuration(strings.TrimSpace(every)); err != nil {
			return w, fmt.Errorf("repeats every %q, which is no duration", shorten(every))
		}
	}
	switch {
	case w.To <= w.From:
		return w, errors.New("must end after it begins")
	case repeats && w.Every <= 0:
		return w, errors.New("must repeat after a positive time")
	case repeats && w.To == Forever:
		return w, errors.New("cannot repeat without an end")
	case repeats && w.To-w.From > w.Every:
		return w, fmt.Errorf("is longer than the time after which it repeats, %s", document.FormatDuration(w.Every))
	}
	return w, nil
}

func (w Window) contains(now time.Duration) bool {
	if now < w.From {
		return false
	}
	since := now - w.From
	if w.Every > 0 {
		since %= w.Every
	}
	return since < w.To-w.From
}

// next returns the first moment after now at which the window starts or ends;
// Forever if there is none.
func (w Window) next(now time.Duration) time.Duration {
	if now < w.From {
		return w.From
	}
	start := w.From
	if w.Every > 0 {
		start = now - (now-w.From)%w.Every
	}
	if end := start + (w.To - w.From); now < end || w.To == Forever {
		return end
	}
	if w.Every > 0 {
		return start + w.Every
	}
	return Forever
}

// Active reports whether there is demand at this moment.
func (a Activity) Active(now time.Duration) bool {
	for _, w := range a {
		if w.contains(now) {
			return true
		}
	}
	return len(a) == 0
}

// next returns the first moment after now at which Active may change.
func (a Activity) next(now time.Duration) time.Duration {
	first := Forever
	for _, w := range a {
		first = min(first, w.next(now))
	}
	return first
}

// windows reads one window or a list of them.
var windows = document.OneOrMore(document.NewType(
	document.Shape{Kind: "string", Says: `a time like "12h-24h every 24h"`},
	func(r *document.Reader, v document.Value) (Window, bool) {
		text, ok := document.ReadAs(document.Texts, r, v)
		if !ok {
			return Window{}, false
		}
		w, err := ParseWindow(text)
		if err != nil {
			r.Refuse(v.Position(), document.RuleBadFormat, err.Error())
		}
		return w, err == nil
	},
	func(w Window, _ document.Style) document.Value { return document.Null() }, // files are not written
	func(a, b Window) bool { return a == b }))
