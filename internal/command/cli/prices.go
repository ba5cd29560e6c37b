package cli

import (
	"cmp"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// priceList is what usage costs.
type priceList struct {
	Currency document.Optional[string]
	Prices   document.Optional[[]pricePeriod]
}

// pricePeriod is the prices of a tree, or of all, from a day on.
type pricePeriod struct {
	From, Tree                         document.Optional[string]
	Reserved, Guarantee, Surplus, Lost document.Optional[resourcePrices]
}

// resourcePrices are prices of an hour of a unit.
type resourcePrices struct{ CPU, GPU, MemoryGiB document.Optional[float64] }

var (
	resourcePriceTable = document.NewTable(
		document.Maybe("cpu", "An hour of a core.", func(p *resourcePrices) *document.Optional[float64] { return &p.CPU }, document.Numbers),
		document.Maybe("gpu", "An hour of a GPU.", func(p *resourcePrices) *document.Optional[float64] { return &p.GPU }, document.Numbers),
		document.Maybe("memory_gib", "An hour of a GiB of memory.", func(p *resourcePrices) *document.Optional[float64] { return &p.MemoryGiB }, document.Numbers),
	)
	pricePeriodTable = document.NewTable(
		document.Maybe("from", "The first day of these prices, in UTC. Unset: always.", func(p *pricePeriod) *document.Optional[string] { return &p.From },
			document.Texts.That("a day such as 2026-10-31", document.RuleBadFormat, isDay)),
		document.Maybe("tree", "Only this pool tree.", func(p *pricePeriod) *document.Optional[string] { return &p.Tree }, document.Words),
		document.Maybe("reserved", "What guarantees promise, used or not.", func(p *pricePeriod) *document.Optional[resourcePrices] { return &p.Reserved }, resourcePriceTable.Type()),
		document.Maybe("guarantee", "Usage that guarantees cover.", func(p *pricePeriod) *document.Optional[resourcePrices] { return &p.Guarantee }, resourcePriceTable.Type()),
		document.Maybe("surplus", "Other usage.", func(p *pricePeriod) *document.Optional[resourcePrices] { return &p.Surplus }, resourcePriceTable.Type()),
		document.Maybe("lost", "Work lost to preemption; usually negative, to give it back.", func(p *pricePeriod) *document.Optional[resourcePrices] { return &p.Lost }, resourcePriceTable.Type()),
	)
	priceListTable = document.NewTable(
		document.Maybe("currency", "The name of the currency.", func(p *priceList) *document.Optional[string] { return &p.Currency }, document.Words),
		document.Maybe("prices", "Prices with the days from which they hold.", func(p *priceList) *document.Optional[[]pricePeriod] { return &p.Prices }, document.ListOf(pricePeriodTable.Type())),
	)
)

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// readPrices reads a price list.
func readPrices(name string) (*priceList, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	value, err := notation.Parse(name, data)
	if err != nil {
		return nil, shortenProblems(err)
	}
	r, list := document.NewReader(name), &priceList{}
	priceListTable.Read(r, value, list)
	if r.HasProblems() {
		return nil, shortenProblems(r.Problems())
	}
	return list, nil
}

// from returns the first day of a period's prices.
func (p *pricePeriod) from() time.Time {
	at, _ := time.Parse(time.DateOnly, p.From.Value()) // zero if it is not set
	return at
}

// at returns the prices of a tree at a time: those of the tree before those of all trees, the latest first; nil if
// there are none.
func (l *priceList) at(tree string, now time.Time) (best *pricePeriod) {
	for i := range l.Prices.Value() {
		p := &l.Prices.Value()[i]
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

// changes returns the times within a period at which prices may change, with its start and its end.
func (l *priceList) changes(from, to time.Time) []time.Time {
	times := []time.Time{from, to}
	for i := range l.Prices.Value() {
		if at := l.Prices.Value()[i].from(); at.After(from) && at.Before(to) {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

// cost returns what amounts in units × seconds cost, exactly, in millionths of the currency.
func (p *resourcePrices) cost(cpu, gpu, memoryGiB float64) *big.Rat {
	sum := new(big.Rat)
	for _, part := range []struct {
		seconds float64
		price   document.Optional[float64]
	}{{cpu, p.CPU}, {gpu, p.GPU}, {memoryGiB, p.MemoryGiB}} {
		seconds, price := new(big.Rat), new(big.Rat)
		if seconds.SetFloat64(part.seconds) == nil {
			continue
		}
		// The price as it is written, not its binary approximation.
		price.SetString(strconv.FormatFloat(part.price.Value(), 'f', -1, 64))
		sum.Add(sum, seconds.Mul(seconds, price))
	}
	return sum.Mul(sum, big.NewRat(1_000_000, 3600))
}

// costOf returns what a line of a usage report costs.
func (p *pricePeriod) costOf(line client.Value) *big.Rat {
	sum := new(big.Rat)
	for _, class := range []struct {
		prices document.Optional[resourcePrices]
		prefix string
	}{{p.Guarantee, "guarantee"}, {p.Surplus, "surplus"}, {p.Lost, "lost"}} {
		amount := func(suffix string) float64 {
			v, _ := line.Get(class.prefix + suffix).Float()
			return v
		}
		prices := class.prices.Value()
		sum.Add(sum, prices.cost(amount("_cpu_core_s"), amount("_gpu_s"), amount("_memory_gib_s")))
	}
	return sum
}

// micros rounds to whole millionths, half to even.
func micros(cost *big.Rat) int64 {
	whole, rest := new(big.Int).DivMod(cost.Num(), cost.Denom(), new(big.Int))
	switch twice := rest.Lsh(rest, 1).Cmp(cost.Denom()); {
	case twice > 0, twice == 0 && whole.Bit(0) == 1:
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64()
}

// moneyText is a sum of money with six decimals.
func moneyText(micros int64) string {
	text := strconv.FormatInt(micros, 10)
	sign := ""
	if micros < 0 {
		sign, text = "-", text[1:]
	}
	text = strings.Repeat("0", max(7-len(text), 0)) + text
	return sign + text[:len(text)-6] + "." + text[len(text)-6:]
}
