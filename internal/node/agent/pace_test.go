package agent

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
)

func TestANodeReportsItsOwnWayWhereItHasOne(t *testing.T) {
	asked := nodeproto.DefaultSettings()
	for _, test := range []struct {
		name string
		own  Pace
		want func(*nodeproto.Settings)
	}{
		{"nothing of its own", Pace{}, func(*nodeproto.Settings) {}},
		{"a period takes its splay with it", Pace{Period: time.Second, Splay: 200 * time.Millisecond}, func(s *nodeproto.Settings) {
			s.HeartbeatPeriod, s.HeartbeatSplay = time.Second, 200*time.Millisecond
		}},
		{"a splay alone fits no period", Pace{Splay: time.Minute}, func(*nodeproto.Settings) {}},
		{"backing off", Pace{BackoffMin: time.Second, BackoffMax: 3 * time.Second, BackoffFactor: 1.5}, func(s *nodeproto.Settings) {
			s.BackoffMin, s.BackoffMax, s.BackoffFactor = time.Second, 3*time.Second, 1.5
		}},
		{"the longest pause is never the shorter one", Pace{BackoffMin: time.Hour}, func(s *nodeproto.Settings) {
			s.BackoffMin, s.BackoffMax = time.Hour, time.Hour
		}},
		{"patience", Pace{CallTimeout: 7 * time.Second}, func(s *nodeproto.Settings) { s.CallTimeout = 7 * time.Second }},
	} {
		want := asked
		test.want(&want)
		if got := test.own.over(asked); got != want {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
	}
}
