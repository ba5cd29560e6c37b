package treefile

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
)

// operationCounts are a pool's limits on operation counts, and the counts
// themselves.
type operationCounts struct {
	maxRunning, maxTotal int
	running, total       int
}

// Settle decides which operations take part at a moment of the file's own time:
// the active ones, as long as their pools and all pools above admit more. It
// considers operations in the order of the file and frees the slots of the
// others. It reports whether anything changed.
func (f *File) Settle(now time.Duration) (changed bool) {
	for i := range f.counts {
		f.counts[i].running, f.counts[i].total = 0, 0
	}
	for i := range f.operations {
		o := &f.operations[i]
		o.Waits = ""
		if !o.Activity.Active(now) {
			o.Waits = "is not active now"
		} else {
			o.Waits = f.admit(o.Element.Parent)
		}
		element := &f.Tree.Elements[o.Slot]
		takesPart := o.Waits == ""
		if takesPart == (element.Kind == fairshare.KindNone) {
			changed = true
		}
		*element = fairshare.Element{Parent: o.Element.Parent}
		if takesPart {
			*element = o.Element
		}
	}
	return changed
}

// admit counts an operation in a pool and above, or returns which limit keeps
// it out.
func (f *File) admit(pool int32) (waits string) {
	for slot := pool; ; slot = f.Tree.Elements[slot].Parent {
		if c := &f.counts[slot]; c.total >= c.maxTotal {
			return fmt.Sprintf("is refused: %s takes %s (max_operation_count)", f.Names[slot], atMost(c.maxTotal))
		}
		if slot == 0 {
			break
		}
	}
	for slot := pool; ; slot = f.Tree.Elements[slot].Parent {
		if c := &f.counts[slot]; c.running >= c.maxRunning && waits == "" {
			waits = fmt.Sprintf("is pending: %s runs %s (max_running_operation_count)", f.Names[slot], atMost(c.maxRunning))
		}
		if slot == 0 {
			break
		}
	}
	for slot := pool; ; slot = f.Tree.Elements[slot].Parent {
		f.counts[slot].total++
		if waits == "" {
			f.counts[slot].running++
		}
		if slot == 0 {
			return waits
		}
	}
}

func atMost(n int) string {
	if n == 1 {
		return "at most 1 operation"
	}
	return fmt.Sprintf("at most %d operations", n)
}

// nextChange returns the first moment after now at which an operation becomes
// active or inactive.
func (f *File) nextChange(now time.Duration) time.Duration {
	first := Forever
	for i := range f.operations {
		first = min(first, f.operations[i].Activity.next(now))
	}
	return first
}
