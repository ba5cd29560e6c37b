package fairshare

import (
	"testing"

	"github.com/weirhq/weir/internal/value/resource"
)

func TestDominantTakesTheFirstOfATie(t *testing.T) {
	for _, c := range []struct {
		name          string
		usage, demand resource.Shares
		want          resource.Kind
	}{
		{"nothing at all is cpu", resource.Shares{}, resource.Shares{}, resource.CPU},
		{"a tie goes to the lower kind", resource.Shares{0.5, 0.5, 0, 0.5, 0.5}, resource.Shares{}, resource.UserSlots},
		{"a tie among later kinds", resource.Shares{0, 0.1, 0, 0.9, 0.9}, resource.Shares{}, resource.Memory},
		{"the larger share wins", resource.Shares{0.1, 0.2, 0, 0.3, 0.4}, resource.Shares{}, resource.Network},
		{"usage comes before demand", resource.Shares{0, 0.1}, resource.Shares{0, 0, 1}, resource.CPU},
		{"demand counts if nothing is used", resource.Shares{}, resource.Shares{0, 0, 1}, resource.GPU},
	} {
		if got := dominant(&c.usage, &c.demand); got != c.want {
			t.Errorf("%s: got %v; want %v", c.name, got, c.want)
		}
	}
}
