package scheduling

import (
	"testing"

	"github.com/weirhq/weir/internal/value/resource"
)

func TestSatisfactionIsUsageDividedByFairShare(t *testing.T) {
	cpu := func(v float64) resource.Shares { return resource.Shares{resource.CPU: v} }
	both := func(cpu, memory float64) resource.Shares {
		return resource.Shares{resource.CPU: cpu, resource.Memory: memory}
	}
	for _, c := range []struct {
		name                 string
		share, demand, usage resource.Shares
		want                 float64
	}{
		{"no fair share", cpu(0), cpu(1), cpu(0), InfiniteSatisfaction},
		{"half of it", cpu(.5), cpu(1), cpu(.25), .5},
		{"all of it", cpu(.5), cpu(1), cpu(.5), 1},
		{"above it", cpu(.5), cpu(1), cpu(.75), 1.5},
		{"above it in a resource without share", both(.5, 0), both(1, 1), both(.1, .1), InfiniteSatisfaction},
		{"gets all it demands: the least resource counts", both(.5, .2), both(.5, .2), both(.5, .1), .5},
		{"only resources it lacks count", both(.5, .2), both(.5, .4), both(.4, .05), .25},
		{"above it in one resource, the largest ratio counts", both(.5, .2), both(.5, .4), both(.1, .3), 1.5},
	} {
		e := entitlement{share: c.share, demand: c.demand}
		if got := e.satisfaction(&c.usage); got < c.want-1e-12 || got > c.want+1e-12 {
			t.Errorf("%s: got %g, want %g", c.name, got, c.want)
		}
	}
}

func TestExceedsLooksAtResourcesThatAreNotGrantedInFull(t *testing.T) {
	e := entitlement{share: resource.Shares{.5, .5, 0, .2, 0}, demand: resource.Shares{.5, 1, 0, .4, 0}}
	// user_slots are granted in full; cpu and memory are not.
	if !e.exceeds(&resource.Shares{0, .3, 0, .2, 0}, &resource.Shares{.9, .2, 0, .1, 0}) {
		t.Error("larger in all resources it lacks")
	}
	if e.exceeds(&resource.Shares{1, .3, 0, .1, 0}, &resource.Shares{0, .2, 0, .1, 0}) {
		t.Error("equal in a resource it lacks")
	}
	full := entitlement{share: resource.Shares{.5, .5, 0, 0, 0}, demand: resource.Shares{.5, .5, 0, 0, 0}}
	if !full.exceeds(&resource.Shares{.4, .2, 0, 0, 0}, &resource.Shares{.3, .5, 0, 0, 0}) {
		t.Error("granted in full: any resource will do")
	}
}
