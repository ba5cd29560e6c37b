package server

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/internal/engine/pooltree"
)

// Managed are the pools, and trees by an empty name of a pool, that are described elsewhere, with the name of what
// describes them, such as "weirpool/research". Only the user that manages them may change them.
type Managed struct {
	// By is the user that may change them.
	By string
	// Pools has the names by tree and pool.
	Pools map[string]map[string]string
}

// ManagedError is the error of a change to a pool that is described elsewhere.
type ManagedError struct{ Tree, Pool, Object string }

func (e *ManagedError) Error() string {
	if e.Pool == "" {
		return fmt.Sprintf("the options of pool tree %q are those of %s: change them there", e.Tree, e.Object)
	}
	return fmt.Sprintf("pool %q of tree %q is described by %s: change it there", e.Pool, e.Tree, e.Object)
}

// SetManaged says which pools are described elsewhere from now on; nil are none.
func (s *Server) SetManaged(m *Managed) { s.managed.Store(m) }

// checkManaged refuses a change of pools that are described elsewhere.
func (s *Server) checkManaged(who Caller, before, after *Trees) error {
	m := s.managed.Load()
	if m == nil || who.User == m.By || who == (Caller{}) { // the last one is the server itself
		return nil
	}
	for i := range before.List {
		old := &before.List[i]
		pools := m.Pools[old.Name]
		if len(pools) == 0 {
			continue
		}
		next, there := after.Find(old.Name)
		if !there {
			names := slices.Sorted(maps.Keys(pools))
			return &ManagedError{Tree: old.Name, Pool: names[0], Object: pools[names[0]]}
		}
		if next.Tree == old.Tree {
			continue
		}
		changes := pooltree.Diff(old.Tree, next.Tree)
		var changed []string
		if len(changes.Tree) > 0 {
			changed = append(changed, "")
		}
		for _, p := range changes.Removed {
			changed = append(changed, p.Pool)
		}
		for _, p := range changes.Moved {
			changed = append(changed, p.Pool)
		}
		for _, p := range changes.Changed {
			changed = append(changed, p.Pool)
		}
		for _, pool := range changed {
			if object := pools[pool]; object != "" {
				return &ManagedError{Tree: old.Name, Pool: pool, Object: object}
			}
		}
	}
	return nil
}
