package ledger

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Rule is why a job was preempted. Its numbers are stored.
type Rule uint8

const (
	// Starving: an operation or a pool that starves needs its resources; they are above
	// the fair share of its own operation.
	Starving Rule = iota
	// Aggressive: the same, and its resources were within the fair share of its operation.
	Aggressive
	// ForLimit: limits of its operation or of a pool above were violated.
	ForLimit
	// ForNode: its node has less than the jobs there hold.
	ForNode
	// Graceful: its operation is above its fair share and has chosen graceful preemption.
	Graceful

	// RuleCount is the number of rules.
	RuleCount
)

var ruleNames = [RuleCount]string{"starving", "aggressive", "limit", "node", "graceful"}

// String returns the name of the rule in outputs.
func (r Rule) String() string { return ruleNames[r] }

// RuleOf returns the rule of a preemption.
func RuleOf(reason scheduling.PreemptionReason, class scheduling.Class) Rule {
	switch {
	case reason == scheduling.PreemptedForLimit:
		return ForLimit
	case reason == scheduling.PreemptedForNode:
		return ForNode
	case reason == scheduling.PreemptedGracefully:
		return Graceful
	case class == scheduling.AggressivelyPreemptible:
		return Aggressive
	}
	return Starving
}

// Edge is who loses jobs to whom. Winner is empty if nobody gets the resources.
type Edge struct {
	Tree, Victim, Winner string // the tree, and the pools
	Rule                 Rule
}

// AmountSums are sums by resource.
type AmountSums [resource.KindCount]Sum

// Add adds amounts held for a time.
func (s *AmountSums) Add(amounts *resource.Amounts, time time.Duration) {
	for k, amount := range amounts {
		if amount > 0 && time > 0 {
			s[k].add(amount, time.Microseconds())
		}
	}
}

func (s *AmountSums) plus(other *AmountSums) {
	for k := range s {
		s[k].Add(other[k])
	}
}

// encode appends which resources have sums, a bit for each, and their sums.
func (s *AmountSums) encode(data []byte) []byte {
	at := len(data)
	data = append(data, 0)
	for k := range s {
		if !s[k].IsZero() {
			data[at] |= 1 << k
			data = s[k].encode(data)
		}
	}
	return data
}

func (r *reader) amounts() (s AmountSums) {
	there := r.byte()
	for k := range s {
		if there&(1<<k) != 0 {
			s[k].hi, s[k].lo = r.number(), r.number()
		}
	}
	return s
}

// EdgeSums are the preemptions of an edge over a time.
type EdgeSums struct {
	// Jobs is how many were preempted, and Wasted how many of them for a job that never
	// began.
	Jobs, Wasted int64
	// Lost is the work of those that did not end by themselves after all: what they held,
	// from their start to their end. WastedWork is the part that was lost in vain.
	Lost, WastedWork AmountSums
	// Gained is what the winners' jobs had in the room of the victims while they ran.
	Gained AmountSums
}

var edgeForm = form[Edge, EdgeSums]{
	name: "preemptions",
	compare: func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Victim, b.Victim), cmp.Compare(a.Winner, b.Winner), cmp.Compare(a.Rule, b.Rule))
	},
	add: func(into, from *EdgeSums) {
		into.Jobs += from.Jobs
		into.Wasted += from.Wasted
		into.Lost.plus(&from.Lost)
		into.WastedWork.plus(&from.WastedWork)
		into.Gained.plus(&from.Gained)
	},
	encode: func(data []byte, e *Edge, v *EdgeSums) []byte {
		data = append(appendText(appendText(appendText(data, e.Tree), e.Victim), e.Winner), byte(e.Rule))
		data = binary.AppendUvarint(binary.AppendUvarint(data, uint64(v.Jobs)), uint64(v.Wasted))
		return v.Gained.encode(v.WastedWork.encode(v.Lost.encode(data)))
	},
	decode: func(r *reader) (e Edge, v EdgeSums) {
		e = Edge{Tree: r.text(), Victim: r.text(), Winner: r.text(), Rule: Rule(r.byte())}
		v.Jobs, v.Wasted = int64(r.number()), int64(r.number())
		v.Lost, v.WastedWork, v.Gained = r.amounts(), r.amounts(), r.amounts()
		r.failed = r.failed || e.Rule >= RuleCount
		return e, v
	},
}

// WatchSums say what became of the search for cycles: of the minutes with preemptions for
// starving operations, those in which cycles are proven absent, and the cycles found.
type WatchSums struct{ Minutes, Proven, Cycles int64 }

var watchForm = form[string, WatchSums]{
	name:    "cycles",
	compare: cmp.Compare[string],
	add: func(into, from *WatchSums) {
		into.Minutes += from.Minutes
		into.Proven += from.Proven
		into.Cycles += from.Cycles
	},
	encode: func(data []byte, tree *string, v *WatchSums) []byte {
		data = appendText(data, *tree)
		for _, n := range []int64{v.Minutes, v.Proven, v.Cycles} {
			data = binary.AppendUvarint(data, uint64(n))
		}
		return data
	},
	decode: func(r *reader) (string, WatchSums) {
		return r.text(), WatchSums{Minutes: int64(r.number()), Proven: int64(r.number()), Cycles: int64(r.number())}
	},
}

// Preempted is a job that is preempted.
type Preempted struct {
	Edge
	Job       uint64
	Operation int32
	Started   time.Time
	Held      resource.Amounts
	// ForJob and For are the job and the operation that get its resources; zero if none.
	ForJob  uint64
	For     int32
	Balance scheduling.Balance
}

// End is how a job has ended.
type End struct {
	Job     uint64
	Started time.Time
	Held    resource.Amounts
	// Done reports that its work is not lost: it completed, or was interrupted in time.
	Done bool
	// NotBegun reports that its process never ran.
	NotBegun bool
}

// Preemptions is the ledger of preemptions. Times must not go back.
type Preemptions struct {
	Edges *Tally[Edge, EdgeSums]
	Watch *Tally[string, WatchSums]

	losing  map[uint64]*loss   // preempted jobs that have not ended, by number
	winners map[uint64][]*loss // by the job that got their resources and has not ended
	graphs  map[string]*graph  // by tree
	lost    map[string]*Losses // by tree, since the ledger was made
}

// Losses are lost work by rule.
type Losses [RuleCount]AmountSums

// loss is a preempted job.
type loss struct {
	Edge
	pair
	held   resource.Amounts
	work   AmountSums // lost when it ended
	flows  bool       // the operations are part of the tree's graph
	ended  bool
	wasted bool
}

// NewPreemptions returns an empty ledger.
func NewPreemptions() *Preemptions {
	return &Preemptions{
		Edges: newTally(edgeForm), Watch: newTally(watchForm),
		losing: map[uint64]*loss{}, winners: map[uint64][]*loss{}, graphs: map[string]*graph{}, lost: map[string]*Losses{},
	}
}

// Preempt enters that a job is preempted. It counts until End.
func (p *Preemptions) Preempt(now time.Time, job *Preempted) {
	p.Edges.line(now, job.Tree, job.Edge).Jobs++
	l := &loss{Edge: job.Edge, pair: pair{job.Operation, job.For}, held: job.Held, flows: job.ForJob != 0}
	p.losing[job.Job] = l
	if job.ForJob == 0 {
		return
	}
	p.winners[job.ForJob] = append(p.winners[job.ForJob], l)
	g := p.graphs[job.Tree]
	if g == nil {
		g = &graph{}
		p.graphs[job.Tree] = g
	}
	g.add(now, l.pair, &job.Balance)
}

// End enters the end of any job. Only jobs that are preempted or got the resources of such
// jobs matter.
func (p *Preemptions) End(now time.Time, end *End) {
	if l := p.losing[end.Job]; l != nil {
		delete(p.losing, end.Job)
		l.ended = true
		if !end.Done {
			l.work.Add(&l.held, now.Sub(end.Started))
			line := p.Edges.line(now, l.Tree, l.Edge)
			line.Lost.plus(&l.work)
			if p.lost[l.Tree] == nil {
				p.lost[l.Tree] = &Losses{}
			}
			p.lost[l.Tree][l.Rule].plus(&l.work)
			if l.wasted {
				line.WastedWork.plus(&l.work)
			}
			if g := p.graphs[l.Tree]; g != nil && l.flows {
				g.lose(now, l.pair, &l.work)
			}
		}
	}
	losses := p.winners[end.Job]
	if losses == nil {
		return
	}
	delete(p.winners, end.Job)
	rest := end.Held
	for _, l := range losses {
		line := p.Edges.line(now, l.Tree, l.Edge)
		if end.NotBegun {
			l.wasted = true
			line.Wasted++
			if l.ended {
				line.WastedWork.plus(&l.work)
			}
			continue
		}
		room := l.held.Min(rest)
		rest = rest.Sub(room)
		line.Gained.Add(&room, now.Sub(end.Started))
	}
}

// Flush returns the rows that have changed since the last flush.
func (p *Preemptions) Flush(now time.Time) []TallyRow {
	return append(p.Edges.Flush(now), p.Watch.Flush(now)...)
}

// Unflushed returns the hours that stored rows may not have yet.
func (p *Preemptions) Unflushed() []TallyRow {
	return append(p.Edges.Unflushed(), p.Watch.Unflushed()...)
}

// Restore continues with stored rows. Which running jobs were preempted, and for whom, is not
// known any more.
func (p *Preemptions) Restore(rows []TallyRow, flushed time.Time) error {
	if err := p.Edges.Restore(rows, flushed); err != nil {
		return err
	}
	return p.Watch.Restore(rows, flushed)
}

// Lost returns the work that preempted jobs of a tree have lost since the ledger was made.
func (p *Preemptions) Lost(tree string) (sum Losses) {
	if lost := p.lost[tree]; lost != nil {
		sum = *lost
	}
	return sum
}
