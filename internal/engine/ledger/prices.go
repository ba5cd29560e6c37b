package ledger

import (
	"cmp"
	"math/big"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// PriceList is what usage costs.
type PriceList struct {
	Currency document.Optional[string]
	Periods  document.Optional[[]PricePeriod]
}

// PricePeriod is the prices of a tree, or of all trees, from a day on.
type PricePeriod struct {
	From, Tree                         document.Optional[string]
	Reserved, Guarantee, Surplus, Lost document.Optional[Prices]
}

// Prices are the prices of an hour of a unit.
type Prices struct{ CPU, GPU, MemoryGiB document.Optional[float64] }

var (
	pricesTable = document.NewTable(
		document.Maybe("cpu", "An hour of a core.", func(p *Prices) *document.Optional[float64] { return &p.CPU }, document.Numbers),
		document.Maybe("gpu", "An hour of a GPU.", func(p *Prices) *document.Optional[float64] { return &p.GPU }, document.Numbers),
		document.Maybe("memory_gib", "An hour of a GiB of memory.", func(p *Prices) *document.Optional[float64] { return &p.MemoryGiB }, document.Numbers),
	)
	pricePeriodTable = document.NewTable(
		document.Maybe("from", "The first day of these prices, in UTC. Unset: always.", func(p *PricePeriod) *document.Optional[string] { return &p.From },
			document.Texts.That("a day such as 2026-10-31", document.RuleBadFormat, isDay)),
		document.Maybe("tree", "Only this pool tree.", func(p *PricePeriod) *document.Optional[string] { return &p.Tree }, document.Words),
		document.Maybe("reserved", "What guarantees promise, used or not.", func(p *PricePeriod) *document.Optional[Prices] { return &p.Reserved }, pricesTable.Type()),
		document.Maybe("guarantee", "Usage that guarantees cover.", func(p *PricePeriod) *document.Optional[Prices] { return &p.Guarantee }, pricesTable.Type()),
		document.Maybe("surplus", "Other usage.", func(p *PricePeriod) *document.Optional[Prices] { return &p.Surplus }, pricesTable.Type()),
		document.Maybe("lost", "Work lost to preemption; usually negative, to give it back.", func(p *PricePeriod) *document.Optional[Prices] { return &p.Lost }, pricesTable.Type()),
	)
	// PriceListTable reads price lists.
	PriceListTable = document.NewTable(
		document.Maybe("currency", "The name of the currency.", func(l *PriceList) *document.Optional[string] { return &l.Currency }, document.Words),
		document.Maybe("prices", "Prices with the days from which they hold.", func(l *PriceList) *document.Optional[[]PricePeriod] { return &l.Periods }, document.ListOf(pricePeriodTable.Type())),
	)
)

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// from returns the first day of a period's prices.
func (p *PricePeriod) from() time.Time {
	at, _ := time.Parse(time.DateOnly, p.From.Value()) // zero if it is not set
	return at
}

// At returns the prices of a tree at a time: those of the tree before those of all trees, the latest first. It returns nil if
// there are none.
func (l *PriceList) At(tree string, now time.Time) (best *PricePeriod) {
	for i := range l.Periods.Value() {
		p := &l.Periods.Value()[i]
		if p.Tree.IsSet() && p.Tree.Value() != tree || now.Before(p.from()) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(flag(p.Tree.IsSet()), flag(best.Tree.IsSet())), p.from().Compare(best.from())) >= 0 {
			best = p
		}
	}
	return best
}

func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}

// hours returns a sum in units × hours, exactly. The unit of memory is a GiB.
func (s Sum) hours(k resource.Kind) *big.Rat {
	exact := new(big.Int).SetUint64(s.hi)
	exact.Lsh(exact, 64).Add(exact, new(big.Int).SetUint64(s.lo))
	unit := k.Scale()
	if k == resource.Memory {
		unit = 1 << 30
	}
	return new(big.Rat).SetFrac(exact, new(big.Int).Mul(big.NewInt(unit), big.NewInt(time.Hour.Microseconds())))
}

// price returns the price of an hour of a resource as it is written, not its binary approximation.
func (p *Prices) price(k resource.Kind) *big.Rat {
	var price document.Optional[float64]
	switch k {
	case resource.CPU:
		price = p.CPU
	case resource.GPU:
		price = p.GPU
	case resource.Memory:
		price = p.MemoryGiB
	}
	exact, _ := new(big.Rat).SetString(strconv.FormatFloat(price.Value(), 'f', -1, 64))
	return exact
}

// cost returns what a sum costs.
func (p *Prices) cost(k resource.Kind, sum Sum) *big.Rat {
	return new(big.Rat).Mul(p.price(k), sum.hours(k))
}

func (p *Prices) costs(sums *AmountSums) *big.Rat {
	total := new(big.Rat)
	for k := range sums {
		total.Add(total, p.cost(resource.Kind(k), sums[k]))
	}
	return total
}

// Usage returns what the usage of accounts costs, exactly.
func (p *PricePeriod) Usage(s *UsageSums) *big.Rat {
	surplus := s.Surplus()
	guarantee, other, lost := p.Guarantee.Value(), p.Surplus.Value(), p.Lost.Value()
	total := guarantee.costs(&s.Guaranteed)
	total.Add(total, other.costs(&surplus))
	return total.Add(total, lost.costs(&s.Ended[Preemption]))
}

// Reserve returns what the promises to a pool cost, used or not.
func (p *PricePeriod) Reserve(by *ByResource) *big.Rat {
	prices, total := p.Reserved.Value(), new(big.Rat)
	for k := range by {
		total.Add(total, prices.cost(resource.Kind(k), by[k].Promised))
	}
	return total
}

// Micros returns a sum of money in millionths of the currency, rounded half to even.
func Micros(money *big.Rat) int64 {
	millionths := new(big.Rat).Mul(money, big.NewRat(1_000_000, 1))
	whole, rest := new(big.Int).DivMod(millionths.Num(), millionths.Denom(), new(big.Int))
	switch twice := rest.Lsh(rest, 1).Cmp(millionths.Denom()); {
	case twice > 0, twice == 0 && whole.Bit(0) == 1:
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64()
}
