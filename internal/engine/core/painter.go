package core

import (
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/scheduling"
)

// painter makes successive pictures. It re-reads what scheduling marks as
// changed and copies what differs; the rest of a picture is shared with the
// previous picture. It is not part of the state: pictures follow from the
// state alone. The zero value has made no picture.
type painter struct {
	trees []*treePainter

	// touched are operations that may differ from the last picture.
	touched []OperationID
	// renumbered reports whether operations were added or removed since then.
	renumbered bool
	operations draft[Operation]
	live       []liveRow
	rows       int32 // the number of rows, free ones included
	freeRows   []int32

	nodes draft[Node]
	hosts []*node // by number: as of the last picture

	copied copies
}

// copies counts the entries that the last picture does not share with the
// previous one.
type copies struct{ pools, seats, operations, nodes int }

// Picture returns what the core knows now. Its cost is proportional to what
// has changed since the last picture, plus a cheap check of every element and
// node. It does not contain running jobs: see JobsOf and JobsOn.
func (c *Core) Picture(now time.Time) *Picture {
	picture := c.picture(now, true)
	c.painter.paintOperations(c, picture)
	c.painter.paintNodes(c, picture)
	return picture
}

// PictureOfShares is a Picture for who looks at shares often. It knows of no nodes,
// because between two updates most nodes of a busy cluster change. Attributes of
// operations that follow from their number of neighbours, Seat.Shares, may be those
// of an earlier picture.
func (c *Core) PictureOfShares(now time.Time) *Picture {
	picture := c.picture(now, false)
	for i, t := range c.trees {
		c.painter.trees[i].paintSeats(c, t, picture.Trees[i], &c.painter.copied)
	}
	c.painter.paintOperations(c, picture)
	return picture
}

// PictureOfPools is a Picture for who looks at pools more often than at operations. It
// knows of no operations and no nodes.
func (c *Core) PictureOfPools(now time.Time) *Picture { return c.picture(now, false) }

// picture returns a picture without nodes and operations. It has seats if seats is
// set, with all of their attributes up to date.
func (c *Core) picture(now time.Time, seats bool) *Picture {
	p := &c.painter
	p.copied = copies{}
	picture := &Picture{Time: now, Default: c.defaultTree, Trees: make([]*Tree, len(c.trees))}
	for i, t := range c.trees {
		if i >= len(p.trees) {
			p.trees = append(p.trees, &treePainter{})
		}
		picture.Trees[i] = p.trees[i].paint(t, &p.copied, seats)
		if seats {
			p.trees[i].paintSeats(c, t, picture.Trees[i], &p.copied)
		}
	}
	return picture
}

// touch notes that an operation may differ from the last picture.
func (c *Core) touch(op *running) {
	if !op.touched {
		op.touched = true
		c.painter.touched = append(c.painter.touched, op.id)
	}
}

func (p *painter) paintOperations(c *Core, picture *Picture) {
	if p.renumbered {
		p.renumbered = false
		p.renumber(c)
	}
	picture.live = p.live
	for _, id := range p.touched {
		op := c.operationAt(id)
		if op == nil {
			continue // it has ended
		}
		op.touched = false
		row, _ := picture.rowOf(id)
		fresh, old := c.operation(op), p.operations.at(row)
		if old != nil && op.sits(old.seats) {
			fresh.seats = old.seats
		} else {
			fresh.seats = op.seats()
		}
		if old == nil || !old.equals(&fresh) {
			p.operations.set(row, &fresh)
		}
	}
	p.touched = p.touched[:0]
	picture.operations, p.copied.operations = p.operations.finish()
}

// renumber assigns rows to new operations and frees the rows of removed ones.
func (p *painter) renumber(c *Core) {
	ids := slices.Clone(c.live)
	slices.Sort(ids)
	live := make([]liveRow, len(ids))
	old := p.live
	for i, id := range ids {
		for len(old) > 0 && old[0].id < id {
			p.freeRow(old[0].row)
			old = old[1:]
		}
		if len(old) > 0 && old[0].id == id {
			live[i], old = old[0], old[1:]
		} else {
			live[i] = liveRow{id, p.newRow()}
		}
	}
	for _, gone := range old {
		p.freeRow(gone.row)
	}
	p.live = live
}

func (p *painter) freeRow(row int32) {
	p.operations.set(row, nil)
	p.freeRows = append(p.freeRows, row)
}

func (p *painter) newRow() (row int32) {
	if last := len(p.freeRows) - 1; last >= 0 {
		row, p.freeRows = p.freeRows[last], p.freeRows[:last]
		return row
	}
	p.rows++
	return p.rows - 1
}

// operation returns an operation as it is now, without its seats.
func (c *Core) operation(op *running) Operation {
	return Operation{
		ID: op.id, User: op.user, State: op.controller.State(), Suspended: op.controller.Life().Suspended,
		Started: op.controller.StartTime(), Spec: op.controller.Spec(), Statistics: op.controller.Statistics(),
	}
}

// sits reports whether these are the seats of an operation.
func (op *running) sits(seats []seatAt) bool {
	return slices.EqualFunc(op.places, seats, func(at place, seat seatAt) bool { return at.tree == seat.tree && at.slot == seat.slot })
}

func (op *running) seats() []seatAt {
	seats := make([]seatAt, len(op.places))
	for i := range op.places {
		seats[i] = seatAt{op.places[i].tree, op.places[i].slot}
	}
	return seats
}

func (o *Operation) equals(other *Operation) bool {
	return o.ID == other.ID && o.User == other.User && o.State == other.State && o.Suspended == other.Suspended &&
		o.Started.Equal(other.Started) && o.Spec == other.Spec && o.Statistics == other.Statistics && slices.Equal(o.seats, other.seats)
}

func (p *painter) paintNodes(c *Core, picture *Picture) {
	p.hosts = append(p.hosts, make([]*node, max(0, len(c.nodes)-len(p.hosts)))...)
	for i, n := range c.nodes {
		id := NodeID(i)
		old := p.nodes.at(int32(i))
		if n == nil {
			if old != nil {
				p.nodes.set(int32(i), nil)
			}
			p.hosts[i] = nil
			continue
		}
		picture.nodeCount++
		changed := p.hosts[i] != n || old.Tree != n.tree || old.Online == n.silent
		if n.tree != none {
			picture.Trees[n.tree].NodeCount++
			changed = c.trees[n.tree].state.TakeNodeChange(n.at) || changed
		}
		if !changed {
			continue
		}
		p.hosts[i] = n
		if fresh := c.node(id, n); old == nil || !old.equals(&fresh) {
			p.nodes.set(int32(i), &fresh)
		}
	}
	picture.nodes, p.copied.nodes = p.nodes.finish()
}

// node returns a node as it is now.
func (c *Core) node(id NodeID, n *node) Node {
	seen := Node{ID: id, Name: n.name, Tags: n.tags, Tree: n.tree, Online: !n.silent, Resources: n.resources}
	if n.tree != none {
		seen.NodeDetails = c.trees[n.tree].state.NodeDetails(n.at)
	}
	return seen
}

func (n *Node) equals(other *Node) bool {
	return n.ID == other.ID && n.Name == other.Name && slices.Equal(n.Tags, other.Tags) && n.Tree == other.Tree &&
		n.Online == other.Online && n.Resources == other.Resources && n.NodeDetails == other.NodeDetails
}

// treePainter makes the pictures of one tree.
type treePainter struct {
	pools draft[Pool]
	seats draft[Seat]
	// edition is the edition of the pool list from which order and byName were
	// made.
	edition       uint64
	order, byName []int32
	alerts        []fairshare.Alert

	slots     []painted // by slot
	changed   []int32   // slots that may differ from the last picture
	unpainted []int32   // slots that may differ from the last picture with seats
}

// painted is what a treePainter keeps for a slot.
type painted struct {
	marked    bool // it may differ from the last picture
	unpainted bool // it is in treePainter.unpainted

	// For operations: the pool that it was in, none if there was no operation,
	// and what it added to the counts of that pool.
	pool int32
	adds tally

	// For pools.
	name   string
	kept   bool       // it existed before
	direct tally      // what operations directly in it add
	sum    poolCounts // what operations below it add
	shown  poolCounts // the same in the last picture
}

// tally is what operations add to the counts of the pools above them.
type tally struct {
	operations, schedulable int32
	scheduling.JobCounts
}

// poolCounts are a pool's counts that follow from its contents.
type poolCounts struct {
	tally
	directOperations, childPools int32
}

func (t *tally) add(other *tally, sign int32) {
	t.operations += sign * other.operations
	t.schedulable += sign * other.schedulable
	t.RunningJobs += sign * other.RunningJobs
	t.WaitingJobs += sign * other.WaitingJobs
	for class, count := range other.Classes {
		t.Classes[class] += sign * count
	}
}

// paint makes the next picture of a tree, without seats.
func (p *treePainter) paint(t *tree, copied *copies, attributes bool) *Tree {
	p.changed = t.state.TakeChanges(p.changed[:0], attributes)
	if last := len(p.changed) - 1; last >= 0 { // they are in order
		for len(p.slots) <= int(p.changed[last]) {
			p.slots = append(p.slots, painted{pool: none})
		}
	}
	for _, slot := range p.changed {
		p.slots[slot].marked = true
		p.count(t, slot)
	}
	p.paintPools(t)
	for _, slot := range p.changed {
		p.slots[slot].marked = false
	}
	if alerts := t.state.Alerts(); !slices.EqualFunc(p.alerts, alerts, sameAlert) {
		p.alerts = alerts
	}
	picture := &Tree{
		ID: t.id, Name: t.name, Config: t.config, Total: t.state.Total(), Updated: t.state.Updated(), Alerts: p.alerts,
		order: p.order, byName: p.byName,
	}
	var pools int
	picture.pools, pools = p.pools.finish()
	copied.pools += pools
	return picture
}

// count counts the operation that is in a slot now, in place of the one that was, and
// notes that its seat must be painted.
func (p *treePainter) count(t *tree, slot int32) {
	at := &p.slots[slot]
	if !at.unpainted {
		at.unpainted = true
		p.unpainted = append(p.unpainted, slot)
	}
	if at.pool != none {
		p.slots[at.pool].direct.add(&at.adds, -1)
		at.pool = none
	}
	if !t.state.IsOperation(slot) {
		return
	}
	at.pool, at.adds = t.state.PoolOf(slot), tally{operations: 1, JobCounts: t.state.Jobs(slot)}
	if t.state.IsSchedulable(slot) {
		at.adds.schedulable = 1
	}
	p.slots[at.pool].direct.add(&at.adds, 1)
}

// paintSeats adds the seats to a picture of the tree as it is now.
func (p *treePainter) paintSeats(c *Core, t *tree, picture *Tree, copied *copies) {
	for _, slot := range p.unpainted {
		p.slots[slot].unpainted = false
		p.paintSeat(c, t, slot)
	}
	p.unpainted = p.unpainted[:0]
	var seats int
	picture.seats, seats = p.seats.finish()
	copied.seats += seats
}

func sameAlert(a, b fairshare.Alert) bool {
	return a.Code == b.Code && a.Message == b.Message && slices.Equal(a.Slots, b.Slots)
}

// paintSeat repaints a slot in which an operation is or was.
func (p *treePainter) paintSeat(c *Core, t *tree, slot int32) {
	old := p.seats.at(slot)
	if !t.state.IsOperation(slot) {
		if old != nil {
			p.seats.set(slot, nil)
		}
		return
	}
	op := c.operations[t.owners[slot]]
	c.touch(op)
	fresh := t.seat(op, slot)
	if groups := t.state.Groups(slot); old != nil && slices.Equal(old.Groups, groups) {
		fresh.Groups = old.Groups
		if old.equals(&fresh) {
			return
		}
	} else {
		fresh.Groups = slices.Clone(groups)
	}
	p.seats.set(slot, &fresh)
}

// seat returns an operation in the tree as it is now, without its groups.
func (t *tree) seat(op *running, slot int32) Seat {
	at := op.placeIn(t.id)
	s := Seat{
		Operation: op.id, Tree: t.id, Pool: at.pool, Parent: t.state.PoolOf(slot), Index: at.number - 1, Options: at.options,
		WaitTimeout: at.waitTimeout, OperationDetails: t.state.Operation(slot),
	}
	s.WaitsFor = t.poolAt(s.WaitsAt, none)
	return s
}

// equals compares all fields except groups.
func (s *Seat) equals(other *Seat) bool {
	return s.Operation == other.Operation && s.Tree == other.Tree && s.Pool == other.Pool && s.Parent == other.Parent &&
		s.Index == other.Index && s.Options == other.Options && s.WaitsFor == other.WaitsFor && s.WaitTimeout == other.WaitTimeout &&
		s.OperationDetails == other.OperationDetails
}

// paintPools repaints pools that have changed.
func (p *treePainter) paintPools(t *tree) {
	list := t.parentsFirst()
	if p.edition != t.edition {
		p.edition = t.edition
		p.index(list)
	}
	for _, slot := range p.changed {
		if !t.state.IsPool(slot) && p.pools.at(slot) != nil {
			p.pools.set(slot, nil)
		}
	}
	for _, q := range list {
		at := &p.slots[q.slot]
		at.sum = poolCounts{tally: at.direct, directOperations: at.direct.operations}
	}
	for _, q := range slices.Backward(list) {
		if q.parent != nil {
			above := &p.slots[q.parent.slot].sum
			above.add(&p.slots[q.slot].sum.tally, 1)
			above.childPools++
		}
	}
	for _, q := range list {
		at := &p.slots[q.slot]
		if !at.marked && at.sum == at.shown {
			continue
		}
		at.shown = at.sum
		old := p.pools.at(q.slot)
		if fresh := t.poolNow(q, &at.sum); old == nil || *old != fresh {
			p.pools.set(q.slot, &fresh)
		}
	}
}

// poolNow returns a pool as it is now.
func (t *tree) poolNow(q *pool, n *poolCounts) Pool {
	seen := Pool{
		Name: q.name, Slot: q.slot, Parent: none, Ephemeral: q.ephemeral, User: q.user, Named: q.ephemeral && !q.hub,
		DirectOperations: n.directOperations, ChildPools: n.childPools, SchedulableOperations: n.schedulable,
		PoolDetails: t.state.Pool(q.slot), JobCounts: n.JobCounts,
	}
	if q.parent != nil {
		seen.Parent = q.parent.slot
	}
	return seen
}

// index rebuilds the order and the names of pools after some were added,
// removed or moved. It sorts only the names of added pools and merges them
// in.
func (p *treePainter) index(list []*pool) {
	order, come := make([]int32, len(list)), []int32(nil)
	for i, q := range list {
		order[i] = q.slot
		at := &p.slots[q.slot]
		if at.kept = at.name == q.name; !at.kept {
			come = append(come, q.slot)
		}
	}
	kept := make([]int32, 0, len(list))
	for _, slot := range p.byName {
		if at := &p.slots[slot]; at.kept {
			kept = append(kept, slot)
		} else {
			at.name = ""
		}
	}
	for _, q := range list {
		at := &p.slots[q.slot]
		at.name, at.kept = q.name, false
	}
	byName := func(a, b int32) int { return strings.Compare(p.slots[a].name, p.slots[b].name) }
	slices.SortFunc(come, byName)
	merged := make([]int32, 0, len(list))
	for _, slot := range come {
		at, _ := slices.BinarySearchFunc(kept, slot, byName)
		merged, kept = append(append(merged, kept[:at]...), slot), kept[at:]
	}
	p.order, p.byName = order, append(merged, kept...)
}
