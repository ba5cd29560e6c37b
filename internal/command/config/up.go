package config

import (
	"slices"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Up is the section of `weir up`: a whole cluster on one machine. Its scheduler and nodes also use
// their own sections().
type Up struct {
	Port      opt[int]
	PortFile  opt[string]
	Nodes     opt[int]
	Resources opt[resource.Partial]
	Tags      opt[[]string]
	DataDir   opt[string]
	Pools     opt[string]
	Demo      opt[bool]
	Agents    opt[[]Agent]
	// Kubernetes runs jobs as pods; Kwok is how many nodes are pretended.
	Kubernetes opt[bool]
	Kwok       opt[int]
}

// Agent is one of several different nodes that `weir up` starts.
type Agent struct {
	Name      opt[string]
	Address   opt[string]
	Resources opt[resource.Partial]
	Tags      opt[[]string]
}

var agentTable = document.NewTable(
	document.Maybe("name", "The node's name.", func(c *Agent) *opt[string] { return &c.Name }, names),
	document.Maybe("address", "The address where it serves /healthz and /readyz. Unset: none.", func(c *Agent) *opt[string] { return &c.Address }, addresses),
	document.Maybe("resources", "What it offers. Unset: the same as the other nodes.", func(c *Agent) *opt[resource.Partial] { return &c.Resources }, resources),
	document.Maybe("tags", "Its tags, in addition to those of all nodes.", func(c *Agent) *opt[[]string] { return &c.Tags }, tags),
)

const (
	mostLocalNodes     = 1000
	mostPretendedNodes = 5000
)

func upGroup() *group[Up] {
	return newGroup([]row[Up]{
		fixed("port", "The port on the loopback address. 0: any free port.",
			func(c *Up) *opt[int] { return &c.Port }, document.Between(document.Ints, 0, 65535).Default(7070)).common(),
		fixed("port_file", "File to which the address, such as 127.0.0.1:7070, is written when the cluster is ready, for scripts.",
			func(c *Up) *opt[string] { return &c.PortFile }, document.Words).common(),
		fixed("nodes", "How many nodes to start; they share the machine. Unset: one, or as many as agents lists.",
			func(c *Up) *opt[int] { return &c.Nodes }, document.Between(document.Ints, 0, mostLocalNodes)).common(),
		fixed("resources", "What each node reports to have. Unset: the machine's resources divided by the number of nodes.",
			func(c *Up) *opt[resource.Partial] { return &c.Resources }, resources).common(),
		fixed("tags", "Tags of every node.",
			func(c *Up) *opt[[]string] { return &c.Tags }, tags).common(),
		fixed("data_dir", "Directory for all state, kept when the cluster stops. Unset: a temporary directory, removed at the end.",
			func(c *Up) *opt[string] { return &c.DataDir }, document.Words).common(),
		fixed("pools", "File with the initial pool trees. Unset: a small example.",
			func(c *Up) *opt[string] { return &c.Pools }, document.Words).common(),
		fixed("demo", "Run a demonstration workload.",
			func(c *Up) *opt[bool] { return &c.Demo }, document.Bools.Default(false)).common(),
		fixed("kubernetes", "Run jobs as pods of the Kubernetes cluster that kubectl uses, instead of on this machine.",
			func(c *Up) *opt[bool] { return &c.Kubernetes }, document.Bools.Default(false)).common(),
		fixed("kwok", "With kubernetes: create this many pretended nodes there. Their pods run and end without a process.",
			func(c *Up) *opt[int] { return &c.Kwok }, document.Between(document.Ints, 0, mostPretendedNodes).Default(0)).common(),
		fixed("agents", "Different nodes, instead of nodes: a list of maps with name, address, resources and tags.",
			func(c *Up) *opt[[]Agent] { return &c.Agents }, document.ListOf(agentTable.Type())).noFlag(),
	})
}

// NodeCount is the number of nodes to start on this machine.
func (u *Up) NodeCount() int {
	if u.Kubernetes.Value() {
		return 0
	}
	if agents := u.Agents.Value(); len(agents) > 0 {
		return len(agents)
	}
	return u.Nodes.Or(1)
}

func sameTexts(a, b []string) bool { return slices.Equal(a, b) }
