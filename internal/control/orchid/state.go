package orchid

import (
	"context"
	"runtime"
	"sync"
	"weak"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
)

// State is a snapshot of the core with indices, shared by all readers until
// the next update. It is immutable.
type State struct {
	View     *server.View // the one it was made under
	Snapshot *core.Snapshot
	Trees    []*Tree
	// operations are by number.
	operations map[core.OperationID]*core.OperationInfo
	Nodes      map[string]int // in snapshot.Nodes
}

// Tree is a tree of a snapshot.
type Tree struct {
	State *State
	Info  *core.TreeInfo
	pools map[string]int32
	// schedulable counts, for each pool, the operations below it that may get jobs.
	schedulable []int
	places      []placed
	byOperation map[core.OperationID]int
	// byPool and children are those directly in a pool, in their order.
	byPool   [][]int
	children [][]int32

	once     sync.Once
	defaults pooltree.TreeConfig

	texts writtenMaps
}

// placed is an operation in a tree.
type placed struct {
	operation *core.OperationInfo
	place     *core.PlaceInfo
}

// settings are the options of the tree with defaults.
func (t *Tree) settings() *pooltree.TreeConfig {
	t.once.Do(func() { t.defaults = t.Info.Config.Settings() })
	return &t.defaults
}

// newState indexes a snapshot. Places of trees that were removed stay in the core
// and are left out.
func newState(view *server.View, snapshot *core.Snapshot, exists func(tree string) bool) *State {
	s := &State{
		View: view, Snapshot: snapshot, operations: make(map[core.OperationID]*core.OperationInfo, len(snapshot.Operations)),
		Nodes: make(map[string]int, len(snapshot.Nodes)),
	}
	byID := make(map[core.TreeID]*Tree, len(snapshot.Trees))
	for i := range snapshot.Trees {
		info := &snapshot.Trees[i]
		if !exists(info.Name) {
			continue
		}
		t := &Tree{
			State: s, Info: info, pools: make(map[string]int32, len(info.Pools)), schedulable: make([]int, len(info.Pools)),
			byOperation: map[core.OperationID]int{}, byPool: make([][]int, len(info.Pools)), children: make([][]int32, len(info.Pools)),
		}
		for at := range info.Pools {
			p := &info.Pools[at]
			t.pools[p.Name] = int32(at)
			if p.Parent >= 0 {
				t.children[p.Parent] = append(t.children[p.Parent], int32(at))
			}
		}
		s.Trees, byID[info.ID] = append(s.Trees, t), t
	}
	for i := range snapshot.Operations {
		o := &snapshot.Operations[i]
		s.operations[o.Operation] = o
		for j := range o.Places {
			if t := byID[o.Places[j].Tree]; t != nil {
				t.seat(o, &o.Places[j])
			}
		}
	}
	for i := range snapshot.Nodes {
		s.Nodes[snapshot.Nodes[i].Name] = i
	}
	return s
}

func (t *Tree) seat(o *core.OperationInfo, place *core.PlaceInfo) {
	t.byOperation[o.Operation] = len(t.places)
	at, there := t.pools[place.Pool]
	if there {
		t.byPool[at] = append(t.byPool[at], len(t.places))
		for above := at; place.Schedulable && above >= 0; above = t.Info.Pools[above].Parent {
			t.schedulable[above]++
		}
	}
	t.places = append(t.places, placed{o, place})
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

// pool returns a pool as an element.
func (t *Tree) pool(at int32) *element {
	p := &t.Info.Pools[at]
	return &element{tree: t, details: &p.Details, pool: p, at: at}
}

// operation returns an operation as an element.
func (t *Tree) operation(s *server.Server, at int) *element {
	p := t.places[at]
	record, _ := s.OperationByNumber(p.operation.Operation)
	return &element{tree: t, details: &p.place.Details, operation: p.operation, place: p.place, record: record}
}

// orchidCache is the state that readers of one server share.
type orchidCache struct {
	mutex sync.Mutex
	state *State
}

// orchidCaches has a cache for every server in this process, for as long as the
// server is there.
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

// Forget makes the next reader of a server's state ask for it, as the first one after an update does.
func Forget(s *server.Server) {
	cache := cacheOf(s)
	cache.mutex.Lock()
	defer cache.mutex.Unlock()
	cache.state = nil
}

// Current returns the state as of the last update or later. The first reader after
// an update asks for it, the others wait for that one.
func Current(c *pathtree.Request) (*State, error) { return orchidOf(c.Context, c.Server) }

func orchidOf(ctx context.Context, s *server.Server) (*State, error) {
	cache := cacheOf(s)
	cache.mutex.Lock()
	defer cache.mutex.Unlock()
	if !s.Leading() {
		return nil, server.ErrNotLeading
	}
	view := s.View()
	if cache.state != nil && cache.state.View == view {
		return cache.state, nil
	}
	snapshot, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	trees := s.Trees()
	cache.state = newState(view, snapshot, func(name string) bool {
		_, there := trees.Find(name)
		return there
	})
	return cache.state, nil
}
