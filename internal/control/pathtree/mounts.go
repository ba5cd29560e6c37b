package pathtree

import (
	"log/slog"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/value/document"
)

// Options configure the tree of a server.
type Options struct {
	// Version is this program's version, as clients read it.
	Version string
	Log     *slog.Logger
	// CheckConfig validates a patch of the scheduler's configuration. ApplyConfig applies a patch that was validated
	// and stored. Without them //sys/scheduler/config is a document like others.
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
	Scheduler, Agent func(c *Request) Object
	Node             func(c *Request, node *server.Node) Object
}

// Tree is the tree of paths of one server, with what it caches for requests: users, groups and tokens, and
// transactions.
type Tree struct {
	server  *server.Server
	Options Options
	Started time.Time
	People  people
	Leases  leases
	mounts  map[string]func(c *Request) Object
}

// New returns the tree of a server.
func New(s *server.Server, options Options) *Tree {
	t := &Tree{server: s, Options: options, Started: time.Now(), mounts: map[string]func(c *Request) Object{}}
	for _, m := range mountsOf(options.Live) {
		t.mounts[m.Path] = m.Make
	}
	return t
}

// Mount is a part of the tree with its own object: the object at a path, and all below it. All directories above it
// exist too.
type Mount struct {
	Path string
	Make func(c *Request) Object
}

// mountsOf lists all parts of the tree except plain nodes.
func mountsOf(live Live) []Mount {
	return append([]Mount{
		{"//sys/accounts", func(*Request) Object { return accountsNode{} }},
		{NodesPath, func(*Request) Object { return nodesNode{orchid: live.Node} }},
		{"//sys/controller_agents/config", func(*Request) Object { return settingNode{setting: agentsSetting} }},
		{"//sys/controller_agents/instances", func(c *Request) Object { return instancesNode(c, live.Agent) }},
		{"//sys/exec_nodes", func(*Request) Object { return fixedLink{to: NodesPath} }},
		{"//sys/groups", func(*Request) Object { return subjectsNode{groups: true} }},
		{PoolTreesPath, func(*Request) Object { return treesNode{} }},
		{"//sys/pools", func(*Request) Object { return poolsLink{} }},
		{"//sys/scheduler/config", func(*Request) Object {
			return settingNode{setting: configSetting, check: checkConfig, apply: applyConfig}
		}},
		{"//sys/scheduler/instances", func(c *Request) Object { return instancesNode(c, live.Scheduler) }},
		{"//sys/scheduler/user_to_default_pool", func(*Request) Object {
			return settingNode{setting: server.DefaultPoolsSetting, check: checkDefaultPools}
		}},
		{"//sys/transactions", transactionsNode},
		{"//sys/users", func(*Request) Object { return subjectsNode{} }},
	}, live.Mounts...)
}
