package cli

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// redraw holds the flags of commands that can show their answer repeatedly.
type redraw struct {
	watch    bool
	interval time.Duration
}

func (d *redraw) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&d.watch, "watch", "w", false, "keep redrawing until Ctrl-C")
	cmd.Flags().DurationVar(&d.interval, "interval", 2*time.Second, "refresh interval with --watch")
}

// show shows an answer once or, with --watch, until the command is interrupted. On a terminal it
// shows errors in place of the answer and continues; elsewhere it stops at the first error.
func (d *redraw) show(s *session, once func(w io.Writer) error) error {
	if !d.watch {
		return once(s.out)
	}
	if d.interval < 100*time.Millisecond {
		return usageErrorf("--interval must be at least 100ms, not %v", d.interval)
	}
	onScreen := widthOf(s.out) > 0
	ticker := time.NewTicker(d.interval)
	defer ticker.Stop()
	for {
		// A single write avoids flicker.
		var page bytes.Buffer
		err := once(&screen{Buffer: &page, behind: s.out})
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err != nil && !onScreen:
			return err
		case err != nil:
			page.Reset()
			fmt.Fprintf(&page, "%v\n", err)
		}
		if onScreen {
			fmt.Fprint(s.out, "\x1b[H\x1b[2J", time.Now().Format("15:04:05"), "  every ", d.interval, ", Ctrl-C to stop\n\n")
		}
		if _, err := s.out.Write(page.Bytes()); err != nil {
			return err
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-ticker.C:
			if !onScreen {
				fmt.Fprintln(s.out)
			}
		}
	}
}

// screen buffers output and has the properties of the underlying writer.
type screen struct {
	*bytes.Buffer
	behind io.Writer
}

// behindOf returns the writer that the output finally reaches.
func behindOf(w io.Writer) io.Writer {
	if collected, ok := w.(*screen); ok {
		return collected.behind
	}
	return w
}
