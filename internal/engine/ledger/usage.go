package ledger

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Account is whose usage is summed up.
type Account struct {
	Tree, Pool, User string
	// Labels are annotations, as LabelsOf returns them.
	Labels string
}

// Limits on labels.
const (
	MostLabelKeys  = 8
	longestLabel   = 64     // characters of a value; the rest is cut off
	mostLabels     = 10_000 // combinations of values in a month
	labelSeparator = "\x1f"
)

// OtherLabels stands for the labels of operations that came when there were too many
// combinations already.
const OtherLabels = "<others>"

// LabelsOf returns labels in one text. keys must be in order.
func LabelsOf(keys []string, value func(key string) (string, bool)) string {
	var parts []string
	for _, key := range keys {
		text, there := value(key)
		if !there {
			continue
		}
		if runes := []rune(text); len(runes) > longestLabel {
			text = string(runes[:longestLabel])
		}
		parts = append(parts, key+"="+strings.ReplaceAll(text, labelSeparator, " "))
	}
	return strings.Join(parts, labelSeparator)
}

// Label returns the value of a label, empty if there is none.
func (a *Account) Label(key string) string {
	if a.Labels == OtherLabels {
		return OtherLabels
	}
	for part := range strings.SplitSeq(a.Labels, labelSeparator) {
		if name, value, _ := cutLabel(part); name == key {
			return value
		}
	}
	return ""
}

// cutLabel divides a label into its name and its value.
func cutLabel(text string) (name, value string, found bool) { return strings.Cut(text, "=") }

// Outcome is what became of a job. Its numbers are stored.
type Outcome uint8

const (
	Completed Outcome = iota // with interrupted ones
	Preemption
	Failed
	Aborted

	// OutcomeCount is the number of outcomes.
	OutcomeCount
)

var outcomeNames = [OutcomeCount]string{"completed", "lost", "failed", "aborted"}

// String returns the name of the outcome in outputs.
func (o Outcome) String() string { return outcomeNames[o] }

// UsageSums are the usage of an account over a time.
type UsageSums struct {
	// Held is what its jobs held, and Guaranteed the part that guarantees of the pool covered.
	Held, Guaranteed AmountSums
	// Jobs that ended in this time, by outcome, with what they held from start to end.
	Jobs    [OutcomeCount]int64
	Ended   [OutcomeCount]AmountSums
	Sizing  Sizing
	Waited  int64 // microseconds from the start of an operation to that of its first job
	Started int64 // operations that started their first job
}

// Sizing compares what jobs that ended in this time were given with what they used.
type Sizing struct {
	// Given is what they asked for, Used what was measured. Limit is the limit on memory of
	// which Given is the reserve, and Peak the most memory that they used, each for as long as
	// they ran.
	Given, Used AmountSums
	Limit, Peak Sum
	// Overdrafts is how many were aborted because they used more memory than their reserve, and
	// OverdraftLost their work.
	Overdrafts    int64
	OverdraftLost AmountSums
	// Measured is how many jobs had measurements, of all that ended.
	Measured int64
}

func (s *UsageSums) amounts() []*AmountSums {
	list := []*AmountSums{&s.Held, &s.Guaranteed, &s.Sizing.Given, &s.Sizing.Used, &s.Sizing.OverdraftLost}
	for i := range s.Ended {
		list = append(list, &s.Ended[i])
	}
	return list
}

func (s *UsageSums) counts() []*int64 {
	list := []*int64{&s.Sizing.Overdrafts, &s.Sizing.Measured, &s.Waited, &s.Started}
	for i := range s.Jobs {
		list = append(list, &s.Jobs[i])
	}
	return list
}

// Surplus is what its jobs held beyond what guarantees of the pool covered.
func (s *UsageSums) Surplus() AmountSums {
	surplus := s.Held
	for k := range surplus {
		surplus[k].Subtract(s.Guaranteed[k])
	}
	return surplus
}

// Add adds the sums of another time or account.
func (s *UsageSums) Add(other *UsageSums) {
	mine, theirs := s.amounts(), other.amounts()
	for i := range mine {
		mine[i].plus(theirs[i])
	}
	counts, more := s.counts(), other.counts()
	for i := range counts {
		*counts[i] += *more[i]
	}
	s.Sizing.Limit.Add(other.Sizing.Limit)
	s.Sizing.Peak.Add(other.Sizing.Peak)
}

var usageForm = form[Account, UsageSums]{
	name: "usage",
	compare: func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.User, b.User), cmp.Compare(a.Labels, b.Labels))
	},
	add: (*UsageSums).Add,
	encode: func(data []byte, a *Account, s *UsageSums) []byte {
		data = appendText(appendText(appendText(appendText(data, a.Tree), a.Pool), a.User), a.Labels)
		for _, amounts := range s.amounts() {
			data = amounts.encode(data)
		}
		for _, count := range s.counts() {
			data = binary.AppendUvarint(data, uint64(*count))
		}
		return s.Sizing.Peak.encode(s.Sizing.Limit.encode(data))
	},
	decode: func(r *reader) (a Account, s UsageSums) {
		a = Account{Tree: r.text(), Pool: r.text(), User: r.text(), Labels: r.text()}
		for _, amounts := range s.amounts() {
			*amounts = r.amounts()
		}
		for _, count := range s.counts() {
			*count = int64(r.number())
		}
		s.Sizing.Limit.hi, s.Sizing.Limit.lo = r.number(), r.number()
		s.Sizing.Peak.hi, s.Sizing.Peak.lo = r.number(), r.number()
		return a, s
	},
}

// ShadowSums say what learning would have done with the memory of jobs whose tasks do not learn. They count jobs that
// completed in this time.
type ShadowSums struct {
	Jobs  int64
	Saved Sum // memory
	// Overdrafts is how many jobs would have used more than they were given, and Lost their work.
	Overdrafts int64
	Lost       AmountSums
}

// Add adds the sums of another time or account.
func (s *ShadowSums) Add(other *ShadowSums) {
	s.Jobs += other.Jobs
	s.Saved.Add(other.Saved)
	s.Overdrafts += other.Overdrafts
	s.Lost.plus(&other.Lost)
}

var shadowForm = form[Account, ShadowSums]{
	name: "shadow", compare: usageForm.compare, add: (*ShadowSums).Add,
	encode: func(data []byte, a *Account, s *ShadowSums) []byte {
		data = appendText(appendText(appendText(appendText(data, a.Tree), a.Pool), a.User), a.Labels)
		data = binary.AppendUvarint(binary.AppendUvarint(data, uint64(s.Jobs)), uint64(s.Overdrafts))
		return s.Lost.encode(s.Saved.encode(data))
	},
	decode: func(r *reader) (a Account, s ShadowSums) {
		a = Account{Tree: r.text(), Pool: r.text(), User: r.text(), Labels: r.text()}
		s.Jobs, s.Overdrafts = int64(r.number()), int64(r.number())
		s.Saved.hi, s.Saved.lo = r.number(), r.number()
		s.Lost = r.amounts()
		return a, s
	},
}

// Seat is an operation in a tree.
type Seat struct {
	Operation int32
	Tree      string
}

// Usage is the ledger of usage. Times must not go back.
type Usage struct {
	Accounts *Tally[Account, UsageSums]
	Shadows  *Tally[Account, ShadowSums]
	open     map[Account]*holding
	seats    map[Seat]*seat
	labels   map[string]bool // those of the month
	month    int64
	saved    map[string]*AmountSums // by tree, since the ledger was made
}

// holding is what an account holds now.
type holding struct {
	Account
	held       resource.Amounts
	guaranteed resource.Amounts
	since      int64
	seats      int
	restored   bool // held is that of the last flush
}

type seat struct {
	*holding
	usage resource.Amounts
}

// NewUsage returns an empty ledger.
func NewUsage() *Usage {
	return &Usage{Accounts: newTally(usageForm), Shadows: newTally(shadowForm), open: map[Account]*holding{}, seats: map[Seat]*seat{}, labels: map[string]bool{}, saved: map[string]*AmountSums{}}
}

// Admit returns the account of an operation: its labels are replaced if there are too many
// combinations in the month.
func (u *Usage) Admit(now time.Time, a Account) Account {
	if month := Month.startOf(now.UnixMicro()); month != u.month {
		u.month = month
		clear(u.labels)
	}
	if a.Labels == "" || u.labels[a.Labels] {
		return a
	}
	if len(u.labels) >= mostLabels {
		a.Labels = OtherLabels
		return a
	}
	u.labels[a.Labels] = true
	return a
}

// Spend enters what an operation uses in a tree, and whose usage that is.
func (u *Usage) Spend(now time.Time, of Seat, a Account, usage resource.Amounts) {
	s := u.seats[of]
	if s != nil && s.Account != a {
		u.change(now, s, resource.Amounts{})
		u.leave(of, s)
		s = nil
	}
	if s == nil {
		if usage.IsZero() {
			return
		}
		h := u.open[a]
		if h == nil {
			h = &holding{Account: a, since: now.UnixMicro()}
			u.open[a] = h
		}
		if h.restored { // what its operations use now replaces what was known of it
			u.advance(h, now.UnixMicro())
			h.held, h.restored = resource.Amounts{}, false
		}
		h.seats++
		s = &seat{holding: h}
		u.seats[of] = s
	}
	u.change(now, s, usage)
	if usage.IsZero() {
		u.leave(of, s)
	}
}

func (u *Usage) change(now time.Time, s *seat, usage resource.Amounts) {
	u.advance(s.holding, now.UnixMicro())
	s.held = s.held.Sub(s.usage).Add(usage)
	s.usage = usage
}

func (u *Usage) leave(of Seat, s *seat) {
	delete(u.seats, of)
	s.holding.seats--
	if s.holding.seats == 0 {
		delete(u.open, s.Account)
	}
}

// Settle enters that all operations that use anything were entered since the ledger was
// restored: what else was known holds no more.
func (u *Usage) Settle(now time.Time) {
	for a, h := range u.open {
		if h.restored {
			u.advance(h, now.UnixMicro())
			delete(u.open, a)
		}
	}
}

// Cover enters which part of the usage of pools their guarantees cover: it calls covered for the pool
// of each account, which returns what the guarantees of the pool cover and what the pool uses.
func (u *Usage) Cover(now time.Time, covered func(tree, pool string) (guaranteed, usage resource.Amounts)) {
	for _, h := range u.open {
		guaranteed, usage := covered(h.Tree, h.Pool)
		var part resource.Amounts
		for k := range part {
			part[k] = h.held[k]
			if guaranteed[k] < usage[k] {
				part[k] = portion(h.held[k], max(guaranteed[k], 0), usage[k])
			}
		}
		if part != h.guaranteed {
			u.advance(h, now.UnixMicro())
			h.guaranteed = part
		}
	}
}

// advance enters the time since the last change.
func (u *Usage) advance(h *holding, now int64) {
	for h.since < now {
		until := min(now, Hour.startOf(h.since)+int64(time.Hour/time.Microsecond))
		elapsed := time.Duration(until-h.since) * time.Microsecond
		if !h.held.IsZero() {
			line := u.Accounts.line(micros(h.since), h.Tree, h.Account)
			line.Held.Add(&h.held, elapsed)
			guaranteed := h.guaranteed.Min(h.held)
			line.Guaranteed.Add(&guaranteed, elapsed)
		}
		h.since = until
	}
}

// Job enters the end of a job of an account: what it held and for how long, and what became of it.
func (u *Usage) Job(now time.Time, a Account, outcome Outcome, held *resource.Amounts, ran time.Duration, sizing *Sizing) {
	line := u.Accounts.line(now, a.Tree, a)
	line.Jobs[outcome]++
	line.Ended[outcome].Add(held, ran)
	line.Add(&UsageSums{Sizing: *sizing})
	saved := u.saved[a.Tree]
	if saved == nil {
		saved = &AmountSums{}
		u.saved[a.Tree] = saved
	}
	var used AmountSums
	used.Add(held, ran)
	saved[resource.Memory].Add(sizing.Limit.beyond(sizing.Given[resource.Memory]))
	saved[resource.CPU].Add(sizing.Given[resource.CPU].beyond(used[resource.CPU]))
}

// Saved returns what jobs of a tree that have ended since the ledger was made did not hold of what they asked for: memory of
// their limits that was not reserved, and CPU that was reclaimed.
func (u *Usage) Saved(tree string) (sum AmountSums) {
	if saved := u.saved[tree]; saved != nil {
		sum = *saved
	}
	return sum
}

// Shadow enters what learning would have done with a job of an account that completed: how much memory it would have
// saved, or that the job would have used more than it was given.
func (u *Usage) Shadow(now time.Time, a Account, held *resource.Amounts, ran time.Duration, saved int64, overdraft bool) {
	line := u.Shadows.line(now, a.Tree, a)
	line.Jobs++
	if overdraft {
		line.Overdrafts++
		line.Lost.Add(held, ran)
	} else {
		line.Saved.AddAmount(saved, ran)
	}
}

// Wait enters that an operation has started its first job.
func (u *Usage) Wait(now time.Time, a Account, waited time.Duration) {
	line := u.Accounts.line(now, a.Tree, a)
	line.Started++
	line.Waited += max(waited.Microseconds(), 0)
}

// Advance enters that nothing has changed until now.
func (u *Usage) Advance(now time.Time) {
	for _, h := range u.sorted() { // hours end for all accounts of a tree together
		u.advance(h, now.UnixMicro())
	}
}

func (u *Usage) sorted() []*holding {
	return slices.SortedFunc(maps.Values(u.open), func(a, b *holding) int { return usageForm.compare(a.Account, b.Account) })
}

// UsageStanding is the kind of rows with what accounts held at the last flush. Their level is
// Standing, and they have no tree.
const UsageStanding = "usage_standing"

// Flush returns the rows that have changed since the last flush, with one that has what all accounts hold.
func (u *Usage) Flush(now time.Time) []TallyRow {
	u.Advance(now)
	rows := append(u.Accounts.Flush(now), u.Shadows.Flush(now)...)
	if len(rows) == 0 {
		return nil
	}
	holdings := u.sorted()
	data := binary.AppendUvarint(nil, uint64(len(holdings)))
	for _, h := range holdings {
		data = appendText(appendText(appendText(appendText(data, h.Tree), h.Pool), h.User), h.Labels)
		for k := range h.held {
			data = binary.AppendUvarint(binary.AppendUvarint(data, uint64(h.held[k])), uint64(h.guaranteed[k]))
		}
	}
	return append(rows, TallyRow{Kind: UsageStanding, Level: Standing, Start: micros(0), Data: data})
}

// Restore continues with stored rows: what accounts held at the last flush holds until their operations
// are entered, or Settle.
func (u *Usage) Restore(rows []TallyRow, flushed, now time.Time) error {
	if err := u.Accounts.Restore(rows, flushed); err != nil {
		return err
	}
	if err := u.Shadows.Restore(rows, flushed); err != nil {
		return err
	}
	since := flushed
	if oldest := now.Add(-longestAbsence); since.Before(oldest) {
		since = now // nobody knows what ran
	}
	for i := range rows {
		if rows[i].Kind != UsageStanding {
			continue
		}
		r := reader{data: rows[i].Data}
		for range r.number() {
			h := &holding{Account: Account{Tree: r.text(), Pool: r.text(), User: r.text(), Labels: r.text()}, since: since.UnixMicro(), restored: true}
			for k := range h.held {
				h.held[k], h.guaranteed[k] = int64(r.number()), int64(r.number())
			}
			if r.failed {
				return errCorrupt
			}
			u.open[h.Account] = h
		}
	}
	for _, of := range u.Accounts.trees {
		for a := range of.month.lines {
			u.Admit(flushed, a)
		}
	}
	return nil
}
