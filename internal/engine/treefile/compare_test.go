package treefile

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// compareElements compares whole elements, including pool settings.
func compareElements(t *testing.T, got, want []fairshare.Element) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(resource.Partial{})); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
}

func asBadInput(err error, into **BadInput) bool { return errors.As(err, into) }
