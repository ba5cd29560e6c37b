package resource

import "math"

// Unlimited means "no limit". It is far from the ends of int64, so that sums of
// a few unlimited amounts do not wrap; Add and Sub saturate at it.
const Unlimited int64 = math.MaxInt64 / 4

// Amounts is a quantity of every resource in storage units (see [Kind.Scale]).
// It is a value: methods return new vectors.
type Amounts [KindCount]int64

// UnlimitedAmounts has every component unlimited.
func UnlimitedAmounts() Amounts {
	return Amounts{Unlimited, Unlimited, Unlimited, Unlimited, Unlimited}
}

// Add returns a+b. A component that reaches Unlimited stays there.
func (a Amounts) Add(b Amounts) Amounts {
	for k := range a {
		a[k] = saturate(a[k] + b[k])
	}
	return a
}

// Sub returns a-b. An unlimited component of a stays unlimited whatever is
// subtracted from it; an unlimited component of b subtracted from a finite one
// saturates at -Unlimited.
func (a Amounts) Sub(b Amounts) Amounts {
	for k := range a {
		if a[k] < Unlimited {
			a[k] = saturate(a[k] - b[k])
		}
	}
	return a
}

func saturate(v int64) int64 {
	return max(min(v, Unlimited), -Unlimited)
}

// Min returns the componentwise minimum.
func (a Amounts) Min(b Amounts) Amounts {
	for k := range a {
		a[k] = min(a[k], b[k])
	}
	return a
}

// Max returns the componentwise maximum.
func (a Amounts) Max(b Amounts) Amounts {
	for k := range a {
		a[k] = max(a[k], b[k])
	}
	return a
}

// Dominates reports whether a >= b in every component.
func (a Amounts) Dominates(b Amounts) bool {
	for k := range a {
		if a[k] < b[k] {
			return false
		}
	}
	return true
}

// IsZero reports whether every component is zero.
func (a Amounts) IsZero() bool { return a == Amounts{} }

// IsNonNegative reports whether no component is below zero.
func (a Amounts) IsNonNegative() bool { return a.Dominates(Amounts{}) }

// Times returns a multiplied by factor, each component rounded half away from
// zero to its storage unit. Unlimited components stay unlimited.
func (a Amounts) Times(factor float64) Amounts {
	for k := range a {
		if a[k] >= Unlimited {
			continue
		}
		a[k] = roundToInt(float64(a[k]) * factor)
	}
	return a
}

func roundToInt(v float64) int64 {
	v = math.Round(v)
	switch {
	case math.IsNaN(v):
		return 0
	case v >= float64(Unlimited):
		return Unlimited
	case v <= -float64(Unlimited):
		return -Unlimited
	}
	return int64(v)
}

// Float returns component k in the unit that people write: cores, bytes, slots.
func (a Amounts) Float(k Kind) float64 {
	return float64(a[k]) / float64(k.Scale())
}

// Floats returns all components in the units that people write.
func (a Amounts) Floats() (v [KindCount]float64) {
	for k := range a {
		v[k] = a.Float(Kind(k))
	}
	return v
}

// FromFloat converts a quantity in the unit that people write into storage
// units of kind k, rounding half away from zero and saturating at Unlimited.
func FromFloat(k Kind, v float64) int64 {
	return roundToInt(v * float64(k.Scale()))
}

// Share returns a as fractions of total. If the total of a resource is zero,
// its share is zero, whatever the amount: a resource that a tree does not have
// cannot limit anybody in it.
func (a Amounts) Share(total Amounts) (s Shares) {
	for k := range a {
		if total[k] != 0 {
			s[k] = float64(a[k]) / float64(total[k])
		}
	}
	return s
}

// Partial is a vector whose components may be absent. For guarantees and limits
// "absent" and "zero" mean different things.
type Partial struct {
	amounts Amounts
	set     uint8
}

// PartialOf returns a vector with every component present.
func PartialOf(a Amounts) Partial {
	return Partial{amounts: a, set: 1<<KindCount - 1}
}

// With returns p with component k present and equal to v.
func (p Partial) With(k Kind, v int64) Partial {
	p.amounts[k] = v
	p.set |= 1 << k
	return p
}

// Get returns component k and whether it is present.
func (p Partial) Get(k Kind) (int64, bool) {
	return p.amounts[k], p.set&(1<<k) != 0
}

// Has reports whether component k is present.
func (p Partial) Has(k Kind) bool { return p.set&(1<<k) != 0 }

// IsTrivial reports whether no component is present.
func (p Partial) IsTrivial() bool { return p.set == 0 }

// Or returns the vector with absent components taken from fallback.
func (p Partial) Or(fallback Amounts) Amounts {
	for k := range fallback {
		if p.Has(Kind(k)) {
			fallback[k] = p.amounts[k]
		}
	}
	return fallback
}

// OrZero returns the vector with absent components zero.
func (p Partial) OrZero() Amounts { return p.Or(Amounts{}) }

// OrUnlimited returns the vector with absent components unlimited.
func (p Partial) OrUnlimited() Amounts { return p.Or(UnlimitedAmounts()) }
