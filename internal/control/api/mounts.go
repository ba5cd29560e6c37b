package api

import (
	"log/slog"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/value/document"
)

// treeOptions are what a tree needs beside a server.
type treeOptions struct {
	// Version is what clients are told about this program.
	Version string
	Log     *slog.Logger
	// CheckConfig says what is wrong with a patch of the scheduler's configuration,
	// ApplyConfig puts one into force that was found good and stored. Without them
	// //sys/scheduler/config is a document like others.
	CheckConfig func(patch document.Value) (warnings document.Problems, err error)
	ApplyConfig func(patch document.Value)
	// Live is the part of the tree that shows the scheduler's live state.
	Live Live
}

// Live is the part of the tree that shows the scheduler's live state.
type Live struct {
	Mounts []Mount
	// Scheduler is //sys/scheduler/instances/ADDRESS/orchid, Agent is
	// //sys/controller_agents/instances/ADDRESS/orchid, Node is
	// //sys/cluster_nodes/NAME/orchid.
	Scheduler, Agent func(c *call) object
	Node             func(c *call, node *server.Node) object
}

// Tree is the tree of paths of one server, with what is kept for requests: who
// people are, and transactions.
type Tree struct {
	server  *server.Server
	options treeOptions
	started time.Time
	people  people
	leases  leases
	mounts  map[string]func(c *call) object
}

// newTree returns the tree of a server.
func newTree(s *server.Server, options treeOptions) *Tree {
	t := &Tree{server: s, options: options, started: time.Now(), mounts: map[string]func(c *call) object{}}
	for _, m := range mountsOf(options.Live) {
		t.mounts[m.Path] = m.Make
	}
	return t
}

// Mount is a part of the tree that answers for itself: the object at a path, and all below it. Everything on the way
// to it is there too.
type Mount struct {
	Path string
	Make func(c *call) object
}

// mountsOf lists the parts of the tree beside plain nodes.
func mountsOf(live Live) []Mount {
	return append([]Mount{
		{"//sys/accounts", func(*call) object { return accountsNode{} }},
		{nodesPath, func(*call) object { return nodesNode{orchid: live.Node} }},
		{"//sys/controller_agents/config", func(*call) object { return settingNode{setting: agentsSetting} }},
		{"//sys/controller_agents/instances", func(c *call) object { return instancesNode(c, live.Agent) }},
		{"//sys/exec_nodes", func(*call) object { return fixedLink{to: nodesPath} }},
		{"//sys/groups", func(*call) object { return subjectsNode{groups: true} }},
		{poolTreesPath, func(*call) object { return treesNode{} }},
		{"//sys/pools", func(*call) object { return poolsLink{} }},
		{"//sys/scheduler/config", func(*call) object { return settingNode{setting: configSetting, check: checkConfig, apply: applyConfig} }},
		{"//sys/scheduler/instances", func(c *call) object { return instancesNode(c, live.Scheduler) }},
		{"//sys/scheduler/user_to_default_pool", func(*call) object {
			return settingNode{setting: server.DefaultPoolsSetting, check: checkDefaultPools}
		}},
		{"//sys/transactions", transactionsNode},
		{"//sys/users", func(*call) object { return subjectsNode{} }},
	}, live.Mounts...)
}
