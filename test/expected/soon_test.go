package expected

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSoonWaitsForWhatHappensAndNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Soon(func() bool { return time.Since(began) >= time.Minute }) {
			t.Error("what happens within a minute was not waited for")
		}
		began = time.Now()
		if Soon(func() bool { return false }) || time.Since(began) != Patience {
			t.Errorf("what never happens was waited for %v", time.Since(began))
		}
	})
}
