package orchid

import (
	"runtime"
	"sync"
	"weak"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// State is the state of a server after an update, with indices for readers. They share it until the
// next update. Rarely used indices are built on first use.
type State struct {
	View  *server.View
	Trees []*Tree

	once  sync.Once
	nodes map[string]*core.Node
}

// Tree is a tree of a state.
type Tree struct {
	State *State
	Info  *core.Tree

	indexing sync.Once
	// members and children are the direct members of each pool, by the pool's number.
	members  [][]*core.Seat
	children [][]*core.Pool

	once     sync.Once
	defaults pooltree.TreeConfig

	limiting sync.Once
	limited  []resource.Shares // the limited demand of pools, by number

	texts writtenMaps
}

// settings are the tree's options with defaults.
func (t *Tree) settings() *pooltree.TreeConfig {
	t.once.Do(func() { t.defaults = t.Info.Config.Settings() })
	return &t.defaults
}

func newState(view *server.View) *State {
	s := &State{View: view}
	for _, info := range view.Trees {
		s.Trees = append(s.Trees, &Tree{State: s, Info: info})
	}
	return s
}

// Tree returns a tree by its name.
func (s *State) Tree(name string) (*Tree, bool) {
	for _, t := range s.Trees {
		if t.Info.Name == name {
			return t, true
		}
	}
	return nil, false
}

// Node returns a node by name; a node that the core does not know is empty.
func (s *State) Node(name string) *core.Node {
	s.once.Do(func() {
		s.nodes = make(map[string]*core.Node, s.View.Picture.NodeCount())
		for n := range s.View.Picture.Nodes() {
			s.nodes[n.Name] = n
		}
	})
	if n, there := s.nodes[name]; there {
		return n
	}
	return &core.Node{}
}

// index finds the direct members of each pool.
func (t *Tree) index() {
	t.indexing.Do(func() {
		t.members, t.children = make([][]*core.Seat, t.Info.Slots()), make([][]*core.Pool, t.Info.Slots())
		for p := range t.Info.Pools() {
			if p.Parent >= 0 {
				t.children[p.Parent] = append(t.children[p.Parent], p)
			}
		}
		for _, seat := range t.seats() {
			t.members[seat.Parent] = append(t.members[seat.Parent], seat)
		}
	})
}

// membersOf are the operations directly in a pool, by number.
func (t *Tree) membersOf(p *core.Pool) []*core.Seat {
	t.index()
	return t.members[p.Slot]
}

// childrenOf are the pools directly in a pool.
func (t *Tree) childrenOf(p *core.Pool) []*core.Pool {
	t.index()
	return t.children[p.Slot]
}

// seats are the operations of the tree, by number.
func (t *Tree) seats() (list []*core.Seat) {
	picture := t.State.View.Picture
	for o := range picture.Operations() {
		if seat := picture.Seat(o, t.Info.ID); seat != nil {
			list = append(list, seat)
		}
	}
	return list
}

// seatOf returns an operation's seat in the tree, nil if it is not in the tree.
func (t *Tree) seatOf(id core.OperationID) *core.Seat {
	if o, there := t.State.View.Picture.Operation(id); there {
		return t.State.View.Picture.Seat(o, t.Info.ID)
	}
	return nil
}

// pool returns a pool as an element.
func (t *Tree) pool(p *core.Pool) *element {
	return &element{tree: t, details: &p.Details, jobs: &p.JobCounts, guarantees: &p.PoolDetails, pool: p}
}

// operation returns an operation as an element.
func (t *Tree) operation(s *server.Server, seat *core.Seat) *element {
	record, _ := s.OperationByNumber(seat.Operation)
	o, _ := t.State.View.Picture.Operation(seat.Operation)
	return &element{
		tree: t, details: &seat.Details, jobs: &seat.JobCounts, guarantees: &scheduling.PoolDetails{}, operation: o, seat: seat, record: record,
	}
}

// orchidCache is the state that readers of one server share.
type orchidCache struct {
	mutex sync.Mutex
	state *State
}

// orchidCaches has a cache for every server in this process, as long as the server exists.
var orchidCaches sync.Map // of weak.Pointer[server.Server] to *orchidCache

func cacheOf(s *server.Server) *orchidCache {
	key := weak.Make(s)
	if cache, there := orchidCaches.Load(key); there {
		return cache.(*orchidCache)
	}
	cache, there := orchidCaches.LoadOrStore(key, &orchidCache{})
	if !there {
		runtime.AddCleanup(s, func(key weak.Pointer[server.Server]) { orchidCaches.Delete(key) }, key)
	}
	return cache.(*orchidCache)
}

// Forget makes the next reader build a new state, like the first reader after an update.
func Forget(s *server.Server) {
	cache := cacheOf(s)
	cache.mutex.Lock()
	defer cache.mutex.Unlock()
	cache.state = nil
}

// Current returns the state as of the last update.
func Current(c *pathtree.Request) (*State, error) { return stateOf(c.Server) }

func stateOf(s *server.Server) (*State, error) {
	if !s.Leading() {
		return nil, server.ErrNotLeading
	}
	cache := cacheOf(s)
	cache.mutex.Lock()
	defer cache.mutex.Unlock()
	if view := s.View(); cache.state == nil || cache.state.View != view {
		cache.state = newState(view)
	}
	return cache.state, nil
}
