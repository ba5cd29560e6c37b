package core

import (
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/scheduling"
)

// setDefaultPools replaces the map from users to the pools below which their
// ephemeral pools are created, in trees with
// use_user_default_parent_pool_map. Pools that were already created this way
// move.
func (c *Core) setDefaultPools(now time.Time, pools map[string]string, out *Decisions) {
	c.userPools = maps.Clone(pools)
	for _, t := range c.trees {
		t.settleEphemeral()
		c.admitWaiting(now, t, out)
	}
}

// admitWaiting admits the operations of a tree that no longer have to wait.
func (c *Core) admitWaiting(now time.Time, t *tree, out *Decisions) {
	for _, slot := range t.state.AdmitAll() {
		c.admitted(now, t, slot, out)
	}
}

// defaultParent returns the pool below which a user's ephemeral pool is
// created: the one from the map of users, the tree's default, or the root. It
// skips pools that are not configured and FIFO pools.
func (t *tree) defaultParent(user string) *pool {
	settings := t.config.Settings()
	var names []string
	if settings.UseUserDefaultParentPoolMap.Value() {
		names = append(names, t.core.userPools[user])
	}
	for _, name := range append(names, settings.DefaultParentPool.Value()) {
		if _, configured := t.config.Pool(name); configured && !t.isFIFO(t.pools[name]) {
			return t.pools[name]
		}
	}
	return t.pools[RootName]
}

// makesSubpools reports whether a pool has an ephemeral subpool for each
// user.
func (t *tree) makesSubpools(p *pool) bool {
	configured, ok := t.config.Pool(p.name)
	return ok && configured.Config().CreateEphemeralSubpools.Value()
}

// settleEphemeral moves pools that are not configured to where they belong:
// subpools of a pool stay in it, others are below the default parent pool of
// the user who created them.
func (t *tree) settleEphemeral() {
	for _, p := range slices.Clone(t.order) {
		if _, configured := t.config.Pool(p.name); p.parent == nil || configured || t.pools[p.name] != p {
			continue
		}
		p.ephemeral = true
		if !p.hub {
			t.movePool(p, t.defaultParent(p.user))
		}
		t.state.SetPool(p.slot, t.ephemeralParameters(p.name, p.parent))
		t.drop(p)
	}
}

// movePool moves a pool below another one.
func (t *tree) movePool(p, parent *pool) {
	if p.parent == parent {
		return
	}
	old := p.parent
	t.state.MovePool(p.slot, parent.slot)
	old.members--
	parent.members++
	p.parent = parent
	t.relist()
	t.drop(old)
}

// dissolve moves operations out of the subpools of pools that no longer
// create subpools, into these pools. Operations that ran come first; if a
// pool cannot run more, they wait. Pools that become empty are removed. It
// returns operations that run now and did not before.
func (t *tree) dissolve(out *Decisions) (admitted []int32) {
	var list []scheduling.Move
	var left []*pool
	for _, ran := range []bool{true, false} {
		for _, id := range t.core.live {
			at := t.core.operations[id].placeIn(t.id)
			if at == nil || !t.isHomeless(at) {
				continue
			}
			if runs, _ := t.state.IsRunning(at.slot); runs != ran {
				continue
			}
			from := t.pools[at.pool]
			list, left = append(list, scheduling.Move{Operation: at.slot, Pool: from.parent.slot}), append(left, from)
			t.leavePool(from, at)
			t.enterPool(from.parent, at)
			out.Moved = append(out.Moved, Moved{Operation: id, Tree: t.id, Pool: at.pool})
		}
	}
	admitted = t.state.TransferAll(list)
	for _, p := range left {
		if t.pools[p.name] == p {
			t.drop(p)
		}
	}
	return admitted
}

// isHomeless reports whether an operation is in a subpool that is no longer
// created.
func (t *tree) isHomeless(at *place) bool {
	p := t.pools[at.pool]
	return p.hub && !t.makesSubpools(p.parent)
}

// enterPool counts an operation in a pool.
func (t *tree) enterPool(p *pool, at *place) {
	at.pool = p.name
	p.members++
	t.enumerate(at)
}

// leavePool undoes enterPool.
func (t *tree) leavePool(p *pool, at *place) {
	p.members--
	p.numbers[at.number-1] = false
	at.number = 0
}

// enumerate assigns the smallest number that is free in its pool to an
// operation, if it has none there.
func (t *tree) enumerate(at *place) {
	if at.number > 0 {
		return
	}
	p := t.pools[at.pool]
	free := slices.Index(p.numbers, false)
	if free < 0 {
		free = len(p.numbers)
		p.numbers = append(p.numbers, false)
	}
	p.numbers[free] = true
	at.number = free + 1
}
