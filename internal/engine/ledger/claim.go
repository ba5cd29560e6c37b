package ledger

import (
	"math/bits"

	"github.com/weirhq/weir/internal/engine/scheduling"
)

// Cause is why a pool got less than was due. Their order is that in which they are
// charged: where two causes overlap, the first one counts.
type Cause uint8

const (
	// SchedulerAway: no scheduler led, or it gave jobs to no node: it was reviving,
	// overloaded, or its store did not answer.
	SchedulerAway Cause = iota
	// CountLimit: only operations that a limit on running operations keeps waiting ask
	// for it.
	CountLimit
	// OwnLimit: limits of the pool, or of pools and operations below it.
	OwnLimit
	// ParentLimit: the limits of the pools above it leave no more.
	ParentLimit
	// VolumeEmpty: the volume does not pay for the burst guarantee.
	VolumeEmpty
	// NodeLoss: nodes of the last 30 days that would cover the guarantee are offline,
	// banned, or get no jobs.
	NodeLoss
	// Oversold: the tree, or a pool above, never had what it promised.
	Oversold
	// ShareWithheld: the fair share is less than what is promised: steps of gangs,
	// truncation in FIFO pools, promises inside promises.
	ShareWithheld
	// FilterOrFragmentation: free on nodes where no waiting job fits.
	FilterOrFragmentation
	// PreemptionDelay: operations of others still hold more than their shares.
	PreemptionDelay
	// Placing: free where jobs fit, and not handed out yet.
	Placing
	// Unexplained must be zero; anything else is a defect.
	Unexplained

	// CauseCount is the number of causes.
	CauseCount
)

var causeNames = [CauseCount]string{
	"scheduler_away", "count_limit", "own_limit", "parent_limit", "volume_empty", "node_loss", "oversold", "share_withheld",
	"filter_or_fragmentation", "preemption_delay", "placing", "unexplained",
}

// String returns the name of the cause in outputs.
func (c Cause) String() string { return causeNames[c] }

// IsOwn reports whether the cause is in the pool's own settings or spending. Other
// causes break the promise.
func (c Cause) IsOwn() bool { return c >= CountLimit && c <= VolumeEmpty }

// Claim is what a pool may claim as of an update, and what keeps it from getting it.
type Claim struct {
	scheduling.Promise
	// Lost is what nodes of the last 30 days had that the tree does not have now.
	Lost int64
	// Free is what nodes have free. It matters only if the pool lacks a part of its
	// fair share; see Open.
	Free scheduling.Room
}

// Promised returns the configured guarantees.
func (c *Claim) Promised() int64 { return c.Strong + c.Burst }

// Due returns what the pool must get: what it was promised, as far as it asks for it.
func (c *Claim) Due() int64 { return min(c.Promised(), c.Asked) }

// Open returns what the pool lacks of what it can have by limits, guarantees and
// shares: nodes and other operations hold it up.
func (c *Claim) Open() int64 {
	_, open := c.descend(c.Got)
	return open
}

// Parts is an amount by cause.
type Parts [CauseCount]int64

// Split divides what is due and not got by cause. The parts sum to it exactly. While
// the scheduler is away, that is the only cause. Room that the pool's own jobs have
// freed since the update counts as free where jobs fit.
func (c *Claim) Split(got int64, away bool) (parts Parts) {
	if away {
		parts[SchedulerAway] = max(c.Due()-got, 0)
		return parts
	}
	parts, rest := c.descend(got)
	for _, room := range [...]struct {
		cause Cause
		most  int64
	}{
		{NodeLoss, c.Free.Closed}, {FilterOrFragmentation, c.Free.Blocked}, {PreemptionDelay, c.Above},
		{Placing, c.Free.Fitting + max(c.Got-got, 0)},
		{ShareWithheld, 1 + c.Total>>30}, // the fair share was rounded up
		{Unexplained, rest},
	} {
		part := min(rest, max(room.most, 0))
		parts[room.cause] += part
		rest -= part
	}
	return parts
}

// descend lowers what is due, bound by bound, to what the pool can have. Each bound is
// charged with what it lowers, as far as that is more than the pool got. It returns
// what is left.
func (c *Claim) descend(got int64) (parts Parts, rest int64) {
	level := c.Due()
	if level <= got {
		return parts, 0
	}
	lower := func(cause Cause, to int64) int64 {
		gap := level - min(level, max(to, got))
		parts[cause] += gap
		level -= gap
		return gap
	}
	lower(CountLimit, c.Asked-c.Held)
	lower(OwnLimit, c.Reach)
	lower(ParentLimit, c.Room)
	lower(VolumeEmpty, c.Strong+c.Paid)
	unfit := lower(Oversold, c.Effective)
	lost := portion(unfit, min(c.Lost, c.Oversold), c.Oversold)
	parts[NodeLoss] += lost
	parts[Oversold] -= lost
	lower(ShareWithheld, c.Share)
	return parts, level - got
}

// portion returns amount × part / whole, rounded down; zero if whole is. part must not
// exceed whole.
func portion(amount, part, whole int64) int64 {
	if amount <= 0 || part <= 0 || whole <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), uint64(part))
	quotient, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(quotient)
}
