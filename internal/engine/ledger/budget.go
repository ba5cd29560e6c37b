package ledger

import (
	"math/big"
	"slices"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Budget is how much some accounts may use in a month. It limits nothing: people are told.
type Budget struct {
	Name                    document.Optional[string]
	Tree, Pool, User, Label document.Optional[string]
	// One of these is set: money, or hours of a resource.
	Cost, CPU, GPU, MemoryGiB document.Optional[float64]
	// Warn is the part of it after which people are told first.
	Warn document.Optional[float64]
}

// BudgetTable reads budgets.
var BudgetTable = document.NewTable(
	document.Maybe("name", "The name of the budget.", func(b *Budget) *document.Optional[string] { return &b.Name }, document.Words),
	document.Maybe("tree", "Only this pool tree.", func(b *Budget) *document.Optional[string] { return &b.Tree }, document.Words),
	document.Maybe("pool", "Only this pool and those below it.", func(b *Budget) *document.Optional[string] { return &b.Pool }, document.Words),
	document.Maybe("user", "Only operations of this user.", func(b *Budget) *document.Optional[string] { return &b.User }, document.Words),
	document.Maybe("label", "Only operations with this label, such as team=vision; see labels.", func(b *Budget) *document.Optional[string] { return &b.Label },
		document.Texts.That("a label and its value, such as team=vision", document.RuleBadFormat, isLabel)),
	document.Maybe("cost", "How much the usage of a month may cost, by prices.", func(b *Budget) *document.Optional[float64] { return &b.Cost }, document.Above(document.Numbers, 0)),
	document.Maybe("cpu", "Core·hours in a month.", func(b *Budget) *document.Optional[float64] { return &b.CPU }, document.Above(document.Numbers, 0)),
	document.Maybe("gpu", "GPU·hours in a month.", func(b *Budget) *document.Optional[float64] { return &b.GPU }, document.Above(document.Numbers, 0)),
	document.Maybe("memory_gib", "GiB·hours of memory in a month.", func(b *Budget) *document.Optional[float64] { return &b.MemoryGiB }, document.Above(document.Numbers, 0)),
	document.Maybe("warn", "The part of it after which an event says so before all of it is spent.", func(b *Budget) *document.Optional[float64] { return &b.Warn },
		document.Between(document.Numbers, 0, 1).Default(0.8)),
)

func isLabel(text string) bool {
	key, _, found := cutLabel(text)
	return found && key != ""
}

// Limit returns how much may be used, and in which unit: a resource, or money if it is KindCount. It returns false unless
// exactly one limit is set.
func (b *Budget) Limit() (limit float64, of resource.Kind, ok bool) {
	count := 0
	for _, l := range []struct {
		value document.Optional[float64]
		of    resource.Kind
	}{{b.Cost, resource.KindCount}, {b.CPU, resource.CPU}, {b.GPU, resource.GPU}, {b.MemoryGiB, resource.Memory}} {
		if l.value.IsSet() {
			limit, of = l.value.Value(), l.of
			count++
		}
	}
	return limit, of, count == 1
}

// Covers reports whether the usage of an account counts. below reports whether a pool is another one or below it.
func (b *Budget) Covers(a *Account, below func(tree, pool, above string) bool) bool {
	if b.Tree.IsSet() && a.Tree != b.Tree.Value() || b.User.IsSet() && a.User != b.User.Value() {
		return false
	}
	if key, value, found := cutLabel(b.Label.Value()); found && a.Label(key) != value {
		return false
	}
	return !b.Pool.IsSet() || below(a.Tree, a.Pool, b.Pool.Value())
}

// Spent returns what usage takes of the budget, in its unit. prices may be nil.
func (b *Budget) Spent(s *UsageSums, prices *PricePeriod) *big.Rat {
	switch _, of, _ := b.Limit(); {
	case of != resource.KindCount:
		return s.Held[of].hours(of)
	case prices != nil:
		return prices.Usage(s)
	}
	return new(big.Rat)
}

// BudgetLevel is how much of a budget is spent. Its numbers are stored.
type BudgetLevel uint8

const (
	BudgetWithin BudgetLevel = iota
	BudgetLow                // more than the part after which people are told
	BudgetSpent              // all of it
)

// String returns the name in outputs.
func (l BudgetLevel) String() string { return [...]string{"within", "low", "spent"}[l] }

// Level returns the level of a part of the budget.
func (b *Budget) Level(part float64) BudgetLevel {
	switch {
	case part >= 1:
		return BudgetSpent
	case part >= b.Warn.Or(0.8):
		return BudgetLow
	}
	return BudgetWithin
}

// BudgetNames returns the names of budgets that are used twice, in order.
func BudgetNames(list []Budget) (twice []string) {
	seen := map[string]int{}
	for i := range list {
		name := list[i].Name.Value()
		if seen[name]++; seen[name] == 2 {
			twice = append(twice, name)
		}
	}
	slices.Sort(twice)
	return twice
}
