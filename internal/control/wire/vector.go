package wire

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// Vectors builds maps by resource. A view of ten thousand pools has hundreds of thousands of them,
// so their entries are allocated in blocks, and zeros are shared.
type Vectors struct{ block, last []yson.Entry }

// vectorBlock is the number of entries in a block.
const vectorBlock = 64 * int(resource.KindCount)

// kindNames are the names of resources, by kind.
var kindNames = func() (names [resource.KindCount]string) {
	for _, k := range resource.Kinds {
		names[k] = k.String()
	}
	return names
}()

var (
	zeroShares  = new(Vectors).makeShares(resource.Shares{})
	zeroAmounts = new(Vectors).makeAmounts(resource.Amounts{})
	oneShares   = new(Vectors).makeShares(resource.Ones())
)

// entries allocates space for one vector.
func (v *Vectors) entries() []yson.Entry {
	const size = int(resource.KindCount)
	if len(v.block) < size {
		v.last = make([]yson.Entry, vectorBlock)
		v.block = v.last
	}
	cut := v.block[:size:size]
	v.block = v.block[size:]
	return cut
}

// Reuse makes the last block available again: the vectors in it are no longer needed.
func (v *Vectors) Reuse() { v.block = v.last }

// Shares writes fractions of a tree's resources.
func (v *Vectors) Shares(s resource.Shares) yson.Node {
	switch s {
	case resource.Shares{}:
		return zeroShares
	case resource.Ones():
		return oneShares
	}
	return v.makeShares(s)
}

func (v *Vectors) makeShares(s resource.Shares) yson.Node {
	entries := v.entries()
	for k, share := range s {
		entries[k] = yson.Entry{Key: kindNames[k], Value: yson.Double(share)}
	}
	return yson.Map(entries...)
}

// Amounts writes amounts in the units that people write: cores as a double, everything else as
// whole numbers.
func (v *Vectors) Amounts(a resource.Amounts) yson.Node {
	if a.IsZero() {
		return zeroAmounts
	}
	return v.makeAmounts(a)
}

func (v *Vectors) makeAmounts(a resource.Amounts) yson.Node {
	entries := v.entries()
	for k := range a {
		entries[k] = yson.Entry{Key: kindNames[k], Value: AmountNode(resource.Kind(k), a[k])}
	}
	return yson.Map(entries...)
}

// AmountNode writes one amount in the unit of its resource; clients never see CPU as a whole
// number.
func AmountNode(k resource.Kind, amount int64) yson.Node {
	if k == resource.CPU {
		return yson.Double(float64(amount) / float64(k.Scale()))
	}
	return yson.Int64(amount)
}

// Volume writes amounts multiplied by seconds.
func (v *Vectors) Volume(volume resource.Volume) yson.Node { return v.Shares(resource.Shares(volume)) }

// Split writes a share by its causes.
func (v *Vectors) Split(s *fairshare.Split) yson.Node {
	return yson.Map(
		yson.Pair("strong_guarantee", v.Shares(s.Strong)),
		yson.Pair("integral_guarantee", v.Shares(s.Integral)),
		yson.Pair("weight_proportional", v.Shares(s.WeightProportional)),
		yson.Pair("total", v.Shares(s.Total)))
}

// DominantSplit writes the largest components of a share by its causes.
func DominantSplit(s *fairshare.Split) yson.Node {
	return yson.Map(
		yson.Pair("strong_guarantee", yson.Double(s.Strong.Largest())),
		yson.Pair("integral_guarantee", yson.Double(s.Integral.Largest())),
		yson.Pair("weight_proportional", yson.Double(s.WeightProportional.Largest())),
		yson.Pair("total", yson.Double(s.Total.Largest())))
}

// AmountsNode writes amounts.
func AmountsNode(a resource.Amounts) yson.Node { return new(Vectors).Amounts(a) }

// SharesNode writes fractions of a tree's resources.
func SharesNode(s resource.Shares) yson.Node { return new(Vectors).Shares(s) }

// PartialNode writes the components of a vector that were set.
func PartialNode(p resource.Partial) yson.Node {
	var entries []yson.Entry
	for _, k := range resource.Kinds {
		if amount, there := p.Get(k); there {
			entries = append(entries, yson.Pair(kindNames[k], AmountNode(k, amount)))
		}
	}
	return yson.Map(entries...)
}

// Milliseconds writes a duration.
func Milliseconds(d time.Duration) yson.Node { return yson.Int64(d.Milliseconds()) }

// Seconds writes a duration that need not be finite.
func Seconds(s float64) yson.Node {
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return yson.Entity()
	}
	return yson.Double(s)
}

// OrEntity writes text; empty text is the entity.
func OrEntity(text string) yson.Node {
	if text == "" {
		return yson.Entity()
	}
	return yson.String(text)
}

// Amounts writes a vector of resources in the form that clients expect.
func Amounts(a resource.Amounts) yson.Node { return Partial(resource.PartialOf(a)) }

// Partial writes the amounts that are set.
func Partial(p resource.Partial) yson.Node {
	var entries []yson.Entry
	for _, k := range resource.Kinds {
		v, has := p.Get(k)
		if !has {
			continue
		}
		entries = append(entries, yson.Pair(k.String(), AmountNode(k, v)))
	}
	return yson.Map(entries...)
}
