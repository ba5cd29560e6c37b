package scheduling

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// Promise is what a pool with a guarantee was promised and what limits it, as of
// the last update. All amounts are of Resource, the dominant resource of what the
// pool asks for, or the tree's main resource if it asks for nothing.
type Promise struct {
	Slot     int32
	Resource resource.Kind
	// Total is what the tree has, Oversold by how much the guarantees of all pools
	// directly below the root exceed it.
	Total, Oversold int64
	// Strong and Burst are the configured guarantees. Paid is the part of Burst that
	// the volume pays for, or the flow if that is more. Effective is what is left of
	// Strong and Paid after they were fitted to the tree and to the pools above.
	Strong, Burst, Paid, Effective int64
	// Asked is the demand with that of operations that a count limit keeps waiting;
	// Held is their part.
	Asked, Held int64
	// Reach is the part of Asked that the limits of the pool, and of the pools and
	// operations below it, allow. Room is what the limits of the pools above it leave,
	// next to what others use there. Limits that follow from filters of nodes count for
	// neither: what they take is not in the pools' own settings, but on the nodes.
	Reach, Room int64
	// Share is the fair share and Got what jobs hold; see Held. Above is what operations
	// outside the pool use above their fair shares.
	Share, Got, Above int64
	// Relaxed is the flow of a relaxed pool; without one it is zero.
	Relaxed Relaxed
}

// Relaxed is what a relaxed pool was promised over time, in millionths of the tree.
type Relaxed struct {
	// Flow is its flow, Asked what it asks for above its strong guarantee, as far as
	// limits and the speed at which relaxed pools may spend allow it, and Share the part
	// of its fair share that its volume pays for.
	Flow, Asked, Share int64
	// Strong is the effective strong guarantee, as an amount: usage above it is what
	// the pool got by its flow or above its guarantees.
	Strong int64
	// Volume is what it has saved and Capacity the most that it can save, in millionths
	// of the tree × microseconds.
	Volume, Capacity int64
}

// promiseScratch is memory that Promises reuses; it is indexed by slot.
type promiseScratch struct {
	asked, held, reach, above []resource.Amounts
	pools                     []int32
	promised                  resource.Amounts // by the pools directly below the root
}

// Promises appends the promises of all pools that have a strong or an integral
// guarantee, in the order of their slots. held returns what the waiting jobs of an
// operation need that a count limit keeps waiting.
func (t *Tree) Promises(into []Promise, held func(slot int32) resource.Amounts) []Promise {
	return t.promisesIn(&t.promises, into, held)
}

// LookAtPromises returns what Promises does. It reuses no memory of the tree, so it may be called
// concurrently.
func (t *Tree) LookAtPromises(held func(slot int32) resource.Amounts) []Promise {
	return t.promisesIn(&promiseScratch{}, nil, held)
}

func (t *Tree) promisesIn(s *promiseScratch, into []Promise, held func(slot int32) resource.Amounts) []Promise {
	s.pools = s.pools[:0]
	promising := false
	for slot := range t.elements {
		if e := &t.elements[slot]; e.pool != nil {
			s.pools = append(s.pools, int32(slot))
			promising = promising || slot != 0 && t.promisesAnything(int32(slot))
		}
	}
	if !promising {
		return into
	}
	t.gather(s, held)
	slices.Sort(s.pools)
	for _, slot := range s.pools {
		if slot != 0 && t.promisesAnything(slot) {
			into = append(into, t.promise(s, slot))
		}
	}
	return into
}

// promisesAnything reports whether a pool has a strong or an integral guarantee.
func (t *Tree) promisesAnything(slot int32) bool {
	r := t.result.Pool(slot)
	if r == nil || !t.elements[slot].known {
		return false
	}
	return r.Inferred != resource.Amounts{} || t.burstRatio(slot, r) > 0 || t.isRelaxed(slot) && r.FlowRatio > 0
}

func (t *Tree) isRelaxed(slot int32) bool {
	p := t.shares.Elements[slot].Pool
	return p != nil && p.Integral.Type == fairshare.Relaxed
}

// burstRatio returns the configured burst guarantee of a burst pool.
func (t *Tree) burstRatio(slot int32, r *fairshare.PoolResult) float64 {
	if p := t.shares.Elements[slot].Pool; p != nil && p.Integral.Type == fairshare.Burst {
		return r.SpecifiedBurstRatio
	}
	return 0
}

// gather sums up what operations ask for and use above their shares, for every pool.
func (t *Tree) gather(s *promiseScratch, held func(int32) resource.Amounts) {
	for _, list := range []*[]resource.Amounts{&s.asked, &s.held, &s.reach, &s.above} {
		*list = slices.Grow((*list)[:0], len(t.elements))[:len(t.elements)]
		clear(*list)
	}
	for slot := range t.elements {
		e := &t.elements[slot]
		if e.operation == nil {
			continue
		}
		asked := t.shares.Elements[slot].Demand
		if !e.operation.running && !e.operation.suspended {
			s.held[slot] = held(int32(slot))
			asked = asked.Add(s.held[slot])
		}
		s.asked[slot], s.reach[slot] = asked, asked.Min(t.configuredLimits(int32(slot)))
		for k := range e.usage {
			s.above[slot][k] = max(e.usage[k]-t.entitled(e, resource.Kind(k)), 0)
		}
		s.lift(e.parent, int32(slot))
	}
	slices.SortFunc(s.pools, func(a, b int32) int { // children before their parents
		return cmp.Or(cmp.Compare(t.depth(b), t.depth(a)), cmp.Compare(a, b))
	})
	s.promised = resource.Amounts{}
	for _, slot := range s.pools {
		s.reach[slot] = s.reach[slot].Min(t.configuredLimits(slot))
		if slot == 0 {
			continue
		}
		s.lift(t.elements[slot].parent, slot)
		if r := t.result.Pool(slot); r != nil && t.elements[slot].parent == 0 {
			s.promised = s.promised.Add(r.Inferred).Add(t.total.Times(r.TotalBurstRatio))
		}
	}
}

// lift adds the sums of an element to those of the pool that it is in.
func (s *promiseScratch) lift(parent, slot int32) {
	s.asked[parent], s.held[parent] = s.asked[parent].Add(s.asked[slot]), s.held[parent].Add(s.held[slot])
	s.reach[parent], s.above[parent] = s.reach[parent].Add(s.reach[slot]), s.above[parent].Add(s.above[slot])
}

// configuredLimits returns the limits of an element without those that only follow
// from its filter of nodes.
func (t *Tree) configuredLimits(slot int32) resource.Amounts {
	e := &t.elements[slot]
	limits := e.limits
	for k := range limits {
		if limits[k] != resource.Unlimited && t.limitOption(slot, resource.Kind(k)) == ByTagFilter {
			limits[k] = e.rest().specified.OrUnlimited()[k]
		}
	}
	return limits
}

// entitled returns the fair share as an amount, rounded down, so that the amounts
// of all operations together are no more than there is. Rounding errors of the
// share itself do not count.
func (t *Tree) entitled(e *element, k resource.Kind) int64 {
	return int64(math.Floor(e.share[k]*float64(t.total[k]) + 1e-6))
}

func (t *Tree) promise(s *promiseScratch, slot int32) Promise {
	e, r := &t.elements[slot], t.result.Pool(slot)
	k := t.shares.Options.MainResource
	if asked := s.asked[slot].Share(t.total); asked != (resource.Shares{}) {
		k = resource.CPU
		for kind, share := range asked {
			if share > asked[k] {
				k = resource.Kind(kind)
			}
		}
	}
	of := func(ratio float64) int64 { return int64(math.Round(ratio * float64(t.total[k]))) }
	burst := t.burstRatio(slot, r)
	paid := min(burst, max(t.State(slot).Volume.Ratio(t.total)/t.shares.Options.SmoothPeriod.Seconds(), r.FlowRatio))
	p := Promise{
		Slot: slot, Resource: k, Total: t.total[k], Strong: r.Inferred[k], Burst: of(burst), Paid: of(paid),
		Effective: of(r.StrongGuarantee[k]) + of(min(paid, r.BurstRatio)), Asked: s.asked[slot][k], Held: s.held[slot][k],
		Reach: s.reach[slot][k], Room: resource.Unlimited, Share: t.entitled(e, k), Got: t.Held(slot)[k],
		Above: s.above[0][k] - s.above[slot][k], Oversold: max(s.promised[k]-t.total[k], 0),
	}
	for at := e.parent; ; at = t.elements[at].parent {
		above := &t.elements[at]
		if limit := t.configuredLimits(at)[k]; limit != resource.Unlimited {
			p.Room = min(p.Room, limit-(above.usage[k]-e.usage[k]))
		}
		if at == 0 {
			break
		}
	}
	if t.isRelaxed(slot) {
		p.Relaxed = t.relaxed(slot, r, &p)
	}
	return p
}

// relaxed returns what a relaxed pool was promised over time.
func (t *Tree) relaxed(slot int32, r *fairshare.PoolResult, p *Promise) Relaxed {
	millionths := func(ratio float64) int64 { return int64(math.Round(ratio * 1e6)) }
	speed := t.shares.Elements[slot].Pool.Integral.RelaxedMultiplier
	if speed == 0 {
		speed = t.shares.Options.RelaxedShareMultiplierLimit
	}
	strong := int64(math.Round(r.StrongGuarantee[p.Resource] * float64(p.Total)))
	asked := 0.0
	if p.Total > 0 {
		asked = float64(max(min(p.Asked, p.Reach, p.Room)-strong, 0)) / float64(p.Total)
	}
	seconds := func(v resource.Volume) int64 { return int64(math.Round(v.Ratio(t.total) * 1e12)) }
	return Relaxed{
		Flow: millionths(r.FlowRatio), Asked: millionths(min(asked, speed*r.FlowRatio)), Share: millionths(r.Integral[p.Resource]), Strong: strong,
		Volume: seconds(t.State(slot).Volume), Capacity: seconds(t.shares.Options.Capacity(t.total, r.FlowRatio)),
	}
}

// Room is what the nodes of a tree have free of a resource.
type Room struct {
	// Fitting is on nodes where a waiting job of the pool fits, or is kept for a gang of
	// the pool; Blocked is on other nodes, Closed on nodes that get no jobs for reasons
	// outside the tree.
	Fitting, Blocked, Closed int64
}

// RoomFor divides what nodes have free of a resource by whether waiting jobs below a
// pool fit there. closed reports nodes that get no jobs for reasons outside the
// tree; nil means none.
func (t *Tree) RoomFor(pool int32, k resource.Kind, closed func(Node) bool) (room Room) {
	if t.assemblesBelow(pool) {
		room.Fitting = t.keptRoom()[k]
	}
	var waiting []int32
	t.listBelow(pool, func(slot int32) { waiting = append(waiting, slot) })
	least := t.elements[pool].pool.least
	for at := range t.nodes {
		n := &t.nodes[at]
		free := n.free()
		if !n.alive || free[k] <= 0 {
			continue
		}
		switch {
		case closed != nil && closed(n.id):
			room.Closed += free[k]
		case free.Dominates(least) && free.Dominates(t.settings.MinSpare) && t.fitsAny(waiting, n, &free):
			room.Fitting += free[k]
		default:
			room.Blocked += free[k]
		}
	}
	return room
}

// fitsAny reports whether a waiting job of one of the operations fits on a node.
func (t *Tree) fitsAny(waiting []int32, n *node, free *resource.Amounts) bool {
	for _, slot := range waiting {
		op := t.elements[slot].operation
		if op.mayFit(free) && !op.avoids(n.id) && t.excluder(slot, n) == none {
			return true
		}
	}
	return false
}

// Held returns what the jobs of an operation or pool hold. Unlike usage it leaves out the room
// that is kept for a gang that assembles: no job has it, and others may still run there.
func (t *Tree) Held(slot int32) resource.Amounts {
	held := t.elements[slot].usage
	if t.assemblesBelow(slot) {
		held = held.Sub(t.keptRoom())
	}
	return held
}

// assemblesBelow reports whether an element is the gang that assembles or a pool above it.
func (t *Tree) assemblesBelow(slot int32) bool {
	at := t.assembly.slot
	if at == none || len(t.assembly.members) == 0 {
		return false
	}
	for at != slot && at != 0 {
		at = t.elements[at].parent
	}
	return at == slot
}

// keptRoom returns the room that is kept for the members of the gang that assembles.
func (t *Tree) keptRoom() (sum resource.Amounts) {
	for i := range t.assembly.members {
		sum = sum.Add(t.assembly.members[i].resources)
	}
	return sum
}

// noteUsage notes that the usage of an element may have changed, or its place.
func (t *Tree) noteUsage(slot int32) {
	spent := &t.elements[slot].spent
	if !*spent {
		*spent = true
		t.spent = append(t.spent, slot)
	}
}

// TakeUsage calls visit with what jobs hold for every pool and operation for which that may have
// changed since the last call, in the order of the first changes. Operations that were removed
// since are left out.
func (t *Tree) TakeUsage(visit func(slot int32, isPool bool, held resource.Amounts)) {
	for _, slot := range t.spent {
		e := &t.elements[slot]
		e.spent = false
		if e.pool != nil || e.operation != nil {
			visit(slot, e.pool != nil, t.Held(slot))
		}
	}
	t.spent = t.spent[:0]
}
