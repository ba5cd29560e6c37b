package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// checkNames applies the rules that concern several sections.
func (b *builder) checkNames(v document.Value) {
	total := 0
	for _, g := range b.out.Nodes {
		total += g.Count
	}
	nothing := b.in.operations.IsNull() && b.in.traces.IsNull()
	switch {
	case total == 0 && !b.traceIsWrong:
		b.r.Refuse(v.Position(), document.RuleMissing, "needs nodes")
	case total > mostNodes && b.in.nodes.IsNull():
		b.r.Refuse(v.Position(), document.RuleOutOfRange, fmt.Sprintf("the trace ran on more than %d nodes; give nodes", mostNodes))
	}
	if nothing {
		b.r.Refuse(v.Position(), document.RuleMissing, "needs operations or traces")
	}
	if !b.in.duration.IsSet() {
		for _, t := range b.out.Operations {
			if t.endless() {
				b.r.Refuse(v.Position(), document.RuleMissing, fmt.Sprintf("needs a duration, because operations of %q arrive forever", t.Name))
			}
		}
		for i, e := range b.out.Events {
			if e.Every > 0 {
				b.refuseAt(b.eventAt[i], document.RuleMissing, "an event that repeats needs a scenario with a duration")
			}
		}
	}
	b.checkOperationNames()
	b.checkPoolNames()
	b.checkNodeNames()
	b.checkTreeNames()
	b.checkTimes()
}

// checkNodeNames checks the nodes that expectations name.
func (b *builder) checkNodeNames() {
	for i, e := range b.out.Expectations {
		if e.Node == "" || b.traceIsWrong || slices.ContainsFunc(b.out.Nodes, func(g NodeGroup) bool { return g.has(e.Node) }) {
			continue
		}
		b.refuseAt(b.expectAt[i], document.RuleUnknownValue, fmt.Sprintf("there is no node %q; there are %s", e.Node, b.nodeNames()))
	}
}

// nodeNames names the nodes of the first few groups.
func (b *builder) nodeNames() string {
	const most = 5
	var names []string
	for i := range b.out.Nodes[:min(len(b.out.Nodes), most)] {
		g := &b.out.Nodes[i]
		name := g.nameOf(1)
		if g.Count > 1 {
			name += " to " + g.nameOf(g.Count)
		}
		names = append(names, name)
	}
	if len(b.out.Nodes) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// nameOf returns the name of the n-th node of a group, from 1.
func (g *NodeGroup) nameOf(n int) string {
	if g.Single {
		return g.Name
	}
	return fmt.Sprintf("%s-%d", g.Name, n)
}

// has reports whether the group has a node with this name.
func (g *NodeGroup) has(name string) bool {
	number, cut := strings.CutPrefix(name, g.Name+"-")
	n, err := strconv.Atoi(number)
	return g.Single && name == g.Name || cut && err == nil && 1 <= n && n <= g.Count && g.nameOf(n) == name
}

// checkTreeNames warns about operations in trees that do not exist, which are
// rejected.
func (b *builder) checkTreeNames() {
	trees := b.treeNames()
	for _, t := range b.out.Operations {
		for _, name := range t.Options.PoolTrees.Value() {
			if !slices.Contains(trees, name) {
				b.r.AddWarning(document.Problem{
					File: b.r.File(), Path: "operations/" + t.Name + "/pool_trees", Rule: document.RuleUnknownValue,
					Message: fmt.Sprintf("there is no pool tree %q", name) + didYouMean(name, trees),
				})
			}
		}
	}
}

// checkTimes finds what would never happen because the run ends before.
func (b *builder) checkTimes() {
	end, ok := b.in.duration.Get()
	if !ok {
		return
	}
	late := func(at place, what string) {
		b.r.AddWarning(document.Problem{
			File: b.r.File(), Position: at.at, Path: at.path, Rule: document.RuleOutOfRange,
			Message: what + " after the end of the run, which is at " + document.FormatDuration(end),
		})
	}
	for i, e := range b.out.Events {
		if e.At > end {
			late(b.eventAt[i], "happens")
		}
	}
	for _, t := range b.out.Operations {
		a := &t.Arrival
		if len(t.Demand) == 0 && a.Every == 0 && len(a.Times) > 0 && slices.Min(a.Times) >= end {
			late(place{path: "operations/" + t.Name + "/arrival"}, "comes")
		}
	}
	for i, e := range b.out.Expectations {
		if e.At != Forever && e.At > end {
			b.refuseAt(b.expectAt[i], document.RuleOutOfRange, fmt.Sprintf("is at %s, after the end of the run, which is at %s",
				document.FormatDuration(e.At), document.FormatDuration(end)))
		}
	}
}

// endless reports whether operations of the template arrive without end.
func (t *Template) endless() bool {
	for _, w := range t.Demand {
		if w.Every > 0 || w.To == Forever {
			return true
		}
	}
	a := &t.Arrival
	if len(t.Demand) > 0 || a.Count > 0 {
		return false
	}
	return a.Repeat > 0 || a.Every > 0 && !a.ends()
}

// ends reports whether the windows of an arrival end at some time.
func (a *Arrival) ends() bool {
	for _, w := range a.Active {
		if w.Every > 0 || w.To == Forever {
			return false
		}
	}
	return len(a.Active) > 0
}

// Alone reports whether the template describes one operation, which has its
// name.
func (t *Template) Alone() bool {
	if len(t.Demand) > 0 {
		return len(t.Demand) == 1 && t.Demand[0].Every == 0
	}
	return len(t.Arrival.Times) == 1 && t.Arrival.Repeat == 0
}

// checkOperationNames checks the operations that events and expectations name.
func (b *builder) checkOperationNames() {
	var names []string
	for _, t := range b.out.Operations {
		names = append(names, t.Name)
	}
	check := func(at place, name string) {
		if name != "" && !b.operationKnown(name) {
			b.refuseAt(at, document.RuleUnknownValue, fmt.Sprintf("there is no operation %q", name)+didYouMean(name, names))
		}
	}
	for i, e := range b.out.Events {
		switch a := e.Action.(type) {
		case ControlOperation:
			check(b.eventAt[i], a.Operation)
		case ChangeOperation:
			check(b.eventAt[i], a.Operation)
		}
	}
	for i, e := range b.out.Expectations {
		check(b.expectAt[i], e.Operation)
		for _, c := range e.Checks {
			switch c.Figure {
			case StartedBefore:
				check(b.expectAt[i], c.Word)
			case PreemptedFor:
				check(b.expectAt[i], c.Key)
			}
		}
	}
}

// operationKnown reports whether operations with this name may arrive: those of
// a template, or a single one of several. Traces name their own operations.
func (b *builder) operationKnown(name string) bool {
	if len(b.out.Traces) > 0 {
		return true
	}
	for _, t := range b.out.Operations {
		number, cut := strings.CutPrefix(name, t.Name+"-")
		if _, err := strconv.Atoi(number); name == t.Name || cut && err == nil && !t.Alone() {
			return true
		}
	}
	return false
}

// checkPoolNames warns about pools that are not configured, and rejects
// expectations about pools that can never exist.
func (b *builder) checkPoolNames() {
	ephemeral := map[string]bool{}
	for _, t := range b.out.Operations {
		name, given := t.Options.Pool.Get()
		ephemeral[cmp.Or(name, t.User)] = true
		if given && !b.poolKnown[name] && name != pooltree.RootName {
			b.r.AddWarning(document.Problem{File: b.r.File(), Path: "operations/" + t.Name + "/pool", Rule: document.RuleUnknownValue,
				Message: fmt.Sprintf("there is no pool %q, so that an ephemeral one is made", name) + didYouMean(name, b.poolNames)})
		}
	}
	for i, e := range b.out.Expectations {
		if e.Pool == "" || b.poolKnown[e.Pool] || ephemeral[e.Pool] || strings.Contains(e.Pool, "$") || e.Pool == pooltree.RootName || len(b.out.Traces) > 0 {
			continue
		}
		b.refuseAt(b.expectAt[i], document.RuleUnknownValue, fmt.Sprintf("there is no pool %q", e.Pool)+didYouMean(e.Pool, b.poolNames))
	}
}
