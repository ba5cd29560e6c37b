package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/resource"
)

// HeldNode is a node of the last leader that has not reported to this one, with what is held back
// for it.
type HeldNode struct {
	Name string
	Tree string
	// Jobs is the number of jobs that it may still run, and Usage what they hold. Their cookies
	// are not started elsewhere.
	Jobs       int
	Operations []core.OperationID
	Usage      resource.Amounts
	// Until is when the leader gives it up; zero means never.
	Until time.Time
	// Everything reports whether it is unknown what the node may run, because an earlier version
	// led. In that case nothing is scheduled anywhere before the node has reported.
	Everything bool
}

// HeldBack returns the nodes that the leader waits for after a takeover, sorted by name. It is
// empty while this server does not lead.
func (s *Server) HeldBack() []HeldNode {
	if list := s.held.Load(); list != nil && s.Leading() {
		return *list
	}
	return nil
}

// HeldBackText describes what is held back and until when; it is empty if nothing is.
func (s *Server) HeldBackText() string { return heldText(s.HeldBack()) }

// HeldBackIn is HeldBackText restricted to some trees.
func (s *Server) HeldBackIn(trees ...string) string {
	return heldText(slices.DeleteFunc(slices.Clone(s.HeldBack()), func(n HeldNode) bool {
		return !n.Everything && !slices.Contains(trees, n.Tree)
	}))
}

// showHeld publishes the nodes that the leader waits for.
func (t *term) showHeld() {
	var list []HeldNode
	for _, a := range t.core.Awaited() {
		list = append(list, HeldNode{
			Name: t.nodeList[a.Node].record.Name, Tree: t.slots.names[a.Tree], Jobs: a.Jobs, Operations: a.Operations, Usage: a.Usage, Until: a.Until,
		})
	}
	for name := range t.awaited {
		list = append(list, HeldNode{Name: name, Until: t.deadline, Everything: true})
	}
	slices.SortFunc(list, func(a, b HeldNode) int { return strings.Compare(a.Name, b.Name) })
	t.server.held.Store(&list)
	t.server.alerts.set(AlertHeldBack, heldText(list))
}

// mostNamed is the maximum number of nodes that a text names.
const mostNamed = 5

func heldText(list []HeldNode) string {
	if len(list) == 0 {
		return ""
	}
	var names []string
	var until time.Time
	jobs, everything, ever := 0, false, false
	for i := range list {
		n := &list[i]
		jobs, everything, ever = jobs+n.Jobs, everything || n.Everything, ever || n.Until.IsZero()
		if n.Until.After(until) {
			until = n.Until
		}
		if i < mostNamed {
			names = append(names, n.Name)
		}
	}
	if len(list) > mostNamed {
		names = append(names, "…")
	}
	what := fmt.Sprintf("%d jobs that they may still run, and their resources, are held back", jobs)
	if everything {
		what = "nothing is scheduled"
	}
	end := "until they report"
	if !ever {
		end += ", at the latest until " + until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%d nodes of the last leader have not reported yet (%s): %s %s", len(list), strings.Join(names, ", "), what, end)
}
