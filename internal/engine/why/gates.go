package why

import (
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/resource"
)

// Gates are reasons outside the core for which nodes get no jobs.
type Gates struct {
	// Cluster has the gates that keep all nodes from getting jobs.
	Cluster []Gate
	// Nodes has the gates of single nodes, in the order of their numbers.
	Nodes []NodeGate
}

// Gate keeps all nodes from getting jobs.
type Gate struct {
	Code Code
	// Since is when it closed and Until when it opens at the latest; zero if
	// unknown.
	Since, Until time.Time
	// Nodes are the nodes that a new leader waits for; Waiting is the number of
	// requests in the leader's queue.
	Nodes   []string
	Waiting int
	Detail  string
}

// NodeGateCode is why a node gets no jobs.
type NodeGateCode uint8

const (
	NodeBanned NodeGateCode = iota
	NodeDraining
	NodeJobsDisabled
	NodeWithoutTree
	// NodeAwaited: the node has not reported to this leader yet.
	NodeAwaited
)

// String returns the name of the code in outputs.
func (c NodeGateCode) String() string {
	return [...]string{"banned", "draining", "jobs_disabled", "no_tree", "awaited"}[c]
}

// NodeGateCodes returns all codes.
func NodeGateCodes() []NodeGateCode {
	return []NodeGateCode{NodeBanned, NodeDraining, NodeJobsDisabled, NodeWithoutTree, NodeAwaited}
}

// NodeGate keeps one node from getting jobs.
type NodeGate struct {
	Node core.NodeID
	Name string
	Code NodeGateCode
	// Resources and Tags are the node's without the gate: the core may know it with
	// no resources, or not at all.
	Resources resource.Amounts
	Tags      []string
}

// closed returns whether a node gets no jobs.
func (g *Gates) closed() func(core.NodeID) bool {
	if len(g.Nodes) == 0 {
		return nil
	}
	shut := make(map[core.NodeID]bool, len(g.Nodes))
	for i := range g.Nodes {
		shut[g.Nodes[i].Node] = true
	}
	return func(id core.NodeID) bool { return shut[id] }
}
