package resource_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/resource"
)

func drawSigned(t *rapid.T, name string) int64 {
	return rapid.OneOf(
		rapid.Int64Range(-1000, 1000),
		rapid.Int64Range(-resource.Unlimited, resource.Unlimited),
		rapid.SampledFrom([]int64{-resource.Unlimited, 0, resource.Unlimited, resource.Unlimited - 1}),
	).Draw(t, name)
}

func drawAmounts(t *rapid.T, name string) (a resource.Amounts) {
	for k := range a {
		a[k] = drawSigned(t, name)
	}
	return a
}

func TestKindNames(t *testing.T) {
	for _, k := range resource.Kinds {
		if back, ok := resource.ParseKind(k.String()); !ok || back != k {
			t.Errorf("%v reads back as %v, %v", k, back, ok)
		}
	}
	if k, ok := resource.ParseKind("user_memory"); !ok || k != resource.Memory {
		t.Error("user_memory is not memory")
	}
	if _, ok := resource.ParseKind("disk"); ok {
		t.Error("disk is a resource")
	}
	if s := resource.Kind(9).String(); s != "Kind(9)" {
		t.Errorf("Kind(9) prints as %q", s)
	}
}

func TestAddAndSubSaturate(t *testing.T) {
	const u = resource.Unlimited
	cases := []struct{ a, b, sum, difference int64 }{
		{1, 2, 3, -1},
		{u, u, u, u},
		{u, 1, u, u},
		{1, u, u, 1 - u},
		{u - 1, 2, u, u - 3},
		{-u, u, 0, -u},
		{-u, 1, 1 - u, -u},
		{-u, -u, -u, 0},
	}
	for _, c := range cases {
		a, b := resource.Amounts{c.a}, resource.Amounts{c.b}
		if got := a.Add(b)[0]; got != c.sum {
			t.Errorf("%d + %d = %d; want %d", c.a, c.b, got, c.sum)
		}
		if got := a.Sub(b)[0]; got != c.difference {
			t.Errorf("%d - %d = %d; want %d", c.a, c.b, got, c.difference)
		}
	}
}

func TestArithmeticStaysWithinUnlimitedAndIsExactInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAmounts(t, "a"), drawAmounts(t, "b")
		sum, difference := a.Add(b), a.Sub(b)
		if sum != b.Add(a) {
			t.Fatal("Add does not commute")
		}
		for k := range a {
			for _, v := range []int64{sum[k], difference[k]} {
				if v > resource.Unlimited || v < -resource.Unlimited {
					t.Fatalf("%d, %d gave %d", a[k], b[k], v)
				}
			}
			small := func(v int64) bool { return v > -resource.Unlimited/2 && v < resource.Unlimited/2 }
			if small(a[k]) && small(b[k]) && (sum[k] != a[k]+b[k] || difference[k] != a[k]-b[k]) {
				t.Fatalf("%d and %d: sum %d, difference %d", a[k], b[k], sum[k], difference[k])
			}
			if a[k] == resource.Unlimited && (difference[k] != resource.Unlimited || b[k] >= 0 && sum[k] != resource.Unlimited) {
				t.Fatalf("unlimited became %d and %d", difference[k], sum[k])
			}
		}
	})
}

func TestMinMaxAndDominance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAmounts(t, "a"), drawAmounts(t, "b")
		low, high := a.Min(b), a.Max(b)
		for _, v := range []resource.Amounts{a, b} {
			if !v.Dominates(low) || !high.Dominates(v) {
				t.Fatalf("%v is not between %v and %v", v, low, high)
			}
		}
		if a.Dominates(b) != (high == a) || a.Dominates(b) != (low == b) {
			t.Fatal("Dominates disagrees with Min and Max")
		}
	})
	if !(resource.Amounts{}).IsZero() || (resource.Amounts{1}).IsZero() {
		t.Error("IsZero")
	}
	if !(resource.Amounts{0, 1}).IsNonNegative() || (resource.Amounts{0, -1}).IsNonNegative() {
		t.Error("IsNonNegative")
	}
}

func TestTimesRoundsHalfAwayFromZero(t *testing.T) {
	const u = resource.Unlimited
	cases := []struct {
		amount int64
		factor float64
		want   int64
	}{
		{1, 0.5, 1},
		{-1, 0.5, -1},
		{3, 0.5, 2},
		{5, 0.1, 1},
		{4, 0.1, 0},
		{100, 1.005, 100}, // 1.005 is a little below in binary
		{u, 0, u},
		{u, 0.5, u},
		{u - 1, 3, u},
		{-u, 3, -u},
		{1, math.Inf(1), u},
		{0, math.Inf(1), 0}, // 0 × ∞ is NaN
		{1, math.NaN(), 0},
	}
	for _, c := range cases {
		if got := (resource.Amounts{c.amount}).Times(c.factor)[0]; got != c.want {
			t.Errorf("%d × %g = %d; want %d", c.amount, c.factor, got, c.want)
		}
	}
}

func TestFloatsAreInUnitsPeopleWrite(t *testing.T) {
	a := resource.Amounts{7, 150, 2, 1024, 9}
	if got, want := a.Floats(), [resource.KindCount]float64{7, 1.5, 2, 1024, 9}; got != want {
		t.Errorf("got %v; want %v", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(resource.Kinds[:]).Draw(t, "kind")
		v := rapid.Int64Range(-1<<50, 1<<50).Draw(t, "amount")
		var a resource.Amounts
		a[k] = v
		if back := resource.FromFloat(k, a.Float(k)); back != v {
			t.Fatalf("%d comes back as %d", v, back)
		}
	})
	if resource.FromFloat(resource.CPU, math.Inf(1)) != resource.Unlimited || resource.FromFloat(resource.CPU, -1e300) != -resource.Unlimited {
		t.Error("FromFloat does not saturate")
	}
}

func TestShareOfAResourceTheTreeLacksIsZero(t *testing.T) {
	total := resource.Amounts{100, 1000, 0, 1 << 30, 0}
	a := resource.Amounts{50, 100, 8, 1 << 29, 0}
	if got, want := a.Share(total), (resource.Shares{0.5, 0.1, 0, 0.5, 0}); got != want {
		t.Errorf("got %v; want %v", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		var total resource.Amounts
		for k := range total {
			total[k] = rapid.Int64Range(0, 1<<40).Draw(t, "total")
		}
		for k, s := range total.Share(total) {
			if want := min(float64(total[k]), 1); s != want {
				t.Fatalf("total %d has the share %g of itself", total[k], s)
			}
		}
		if back := total.Share(total).Of(total); back != total {
			t.Fatalf("%v comes back as %v", total, back)
		}
	})
}

func TestPartialTellsAbsentFromZero(t *testing.T) {
	p := resource.Partial{}.With(resource.CPU, 0).With(resource.Memory, 5)
	if v, ok := p.Get(resource.CPU); v != 0 || !ok || !p.Has(resource.CPU) {
		t.Error("a zero that was set is absent")
	}
	if v, ok := p.Get(resource.GPU); v != 0 || ok {
		t.Error("a component that was not set is present")
	}
	if got, want := p.OrZero(), (resource.Amounts{0, 0, 0, 5, 0}); got != want {
		t.Errorf("OrZero: %v", got)
	}
	const u = resource.Unlimited
	if got, want := p.OrUnlimited(), (resource.Amounts{u, 0, u, 5, u}); got != want {
		t.Errorf("OrUnlimited: %v", got)
	}
	if p.IsTrivial() || !(resource.Partial{}).IsTrivial() {
		t.Error("IsTrivial")
	}
	a := resource.Amounts{1, 2, 3, 4, 5}
	if resource.PartialOf(a).Or(resource.UnlimitedAmounts()) != a {
		t.Error("PartialOf loses components")
	}
}

func TestSharesArithmetic(t *testing.T) {
	s, u := resource.Shares{0.1, 0.2, 0.3, 0.4, 0.5}, resource.Uniform(0.25)
	if got := s.Min(u); got != (resource.Shares{0.1, 0.2, 0.25, 0.25, 0.25}) {
		t.Errorf("Min: %v", got)
	}
	if got := s.Max(u); got != (resource.Shares{0.25, 0.25, 0.3, 0.4, 0.5}) {
		t.Errorf("Max: %v", got)
	}
	if s.Largest() != 0.5 || s.Smallest() != 0.1 {
		t.Errorf("Largest %g, Smallest %g", s.Largest(), s.Smallest())
	}
	if !s.Add(u).Sub(u).Near(s, 1e-15) || !s.Times(2).Near(s.Add(s), 0) {
		t.Error("Add, Sub and Times disagree")
	}
	if !resource.Ones().Dominates(s) || s.Dominates(u) || s.IsZero() || !(resource.Shares{}).IsZero() {
		t.Error("Dominates or IsZero")
	}
	if resource.Uniform(math.NaN()).Near(resource.Uniform(math.NaN()), 1) {
		t.Error("NaN is near something")
	}
	if got := resource.Uniform(0.005).Of(resource.Amounts{100, 100}); got != (resource.Amounts{1, 1}) {
		t.Errorf("Of does not round half away from zero: %v", got)
	}
}

func TestVolumeRatioIsTheScarcestResource(t *testing.T) {
	total := resource.Amounts{100, 1000 * 100, 0, 1 << 40, 0}
	// The documents' example: 60 fair_share·s on 1000 cores are 60 000 core·s.
	v := resource.VolumeOf(total, 1, 60)
	if v[resource.CPU] != 60_000 || math.Abs(v.Ratio(total)-60) > 1e-9 {
		t.Errorf("volume %v, ratio %g", v, v.Ratio(total))
	}
	v[resource.Memory] /= 2
	if got := v.Ratio(total); math.Abs(got-30) > 1e-9 {
		t.Errorf("ratio %g; want 30", got)
	}
	v[resource.GPU] = -5 // the tree has no GPUs
	if got := v.Ratio(total); math.Abs(got-30) > 1e-9 {
		t.Errorf("ratio %g; want 30", got)
	}
	if got := v.Ratio(resource.Amounts{}); got != 0 {
		t.Errorf("ratio %g of an empty tree", got)
	}
	if v.Sub(v) != (resource.Volume{}) || v.Add(resource.Volume{}) != v {
		t.Error("Add and Sub")
	}
	if zero := (resource.Volume{}); v.Max(zero)[resource.GPU] != 0 || v.Min(zero)[resource.GPU] != -5 {
		t.Error("Min and Max")
	}
}
