package recorder

import (
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/engine/why"
)

// ToJournal returns gates as journals have them.
func ToJournal(gates why.Gates) *journal.Gates {
	g := &journal.Gates{}
	for _, c := range gates.Cluster {
		g.Cluster = append(g.Cluster, journal.Gate{Code: c.Code.String(), Since: journal.Moment(c.Since), Until: journal.Moment(c.Until), Nodes: c.Nodes})
	}
	for _, n := range gates.Nodes {
		g.Nodes = append(g.Nodes, journal.NodeGate{Node: n.Node, Name: n.Name, Code: n.Code.String(), Resources: n.Resources, Tags: n.Tags})
	}
	return g
}

// GatesOf returns the gates at the moment of a player. Of journals without gates, those that follow
// from the core are known: the nodes that a new leader awaits.
func GatesOf(p *journal.Player) (gates why.Gates) {
	if p.Gates == nil {
		for _, a := range p.Core.Awaited() {
			gates.Nodes = append(gates.Nodes, why.NodeGate{
				Node: a.Node, Name: p.Core.NodeName(a.Node), Code: why.NodeAwaited, Resources: p.Core.NodeResources(a.Node), Tags: p.Core.NodeTags(a.Node),
			})
		}
		return gates
	}
	for _, g := range p.Gates.Cluster {
		for _, code := range why.Codes() {
			if code.String() == g.Code && code.Class() == why.ClassGate {
				gates.Cluster = append(gates.Cluster, why.Gate{Code: code, Since: g.Since, Until: g.Until, Nodes: g.Nodes})
			}
		}
	}
	for _, n := range p.Gates.Nodes {
		for _, code := range why.NodeGateCodes() {
			if code.String() == n.Code {
				gates.Nodes = append(gates.Nodes, why.NodeGate{Node: n.Node, Name: n.Name, Code: code, Resources: n.Resources, Tags: n.Tags})
			}
		}
	}
	return gates
}
