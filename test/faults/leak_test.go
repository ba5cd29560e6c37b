//go:build linux

package faults

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/weirhq/weir/test/fakenode"
)

var goroutineTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)

// held returns the numbers of things that a scheduler is likely to leak.
func (s *scheduler) held() (goroutines, files int) {
	s.t.Helper()
	page, err := s.fetch("/debug/pprof/goroutine?debug=1", patience)
	if err != nil {
		s.t.Fatal(err)
	}
	found := goroutineTotal.FindStringSubmatch(page)
	if found == nil {
		s.t.Fatalf("%.200s", page)
	}
	goroutines, _ = strconv.Atoi(found[1])
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	return goroutines, len(open)
}

// TestNothingIsLeftBehindByWhatHasEnded makes operations, jobs, pools, nodes and leaders come and go,
// and compares what a scheduler holds before and after.
func TestNothingIsLeftBehindByWhatHasEnded(t *testing.T) {
	c := onPostgres(t, 20)
	names := c.nodes.Names()
	stored := archive{}
	// A restarted agent may have missed an order.
	c.tolerated = append(c.tolerated, "disappeared_from_node")
	l := c.underLoad()
	// The first round fills connection pools.
	var goroutines, files [2]int
	rounds := max(4, kills()/10)
	for round := range rounds {
		if round > 0 {
			l.begin()
		}
		for range 3 {
			finished := c.nodes.Totals().Acknowledged
			c.awaitNodes(func(t fakenode.Totals) bool { return t.Acknowledged > finished+40 })
			for i := range 5 {
				if err := c.nodes.Restart(names[(7*round+i)%len(names)], true); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.finish(l, stored)
		c.awaitNodes(func(t fakenode.Totals) bool { return t.Registered == len(names) })
		for i, s := range c.schedulers {
			g, f := s.held()
			t.Logf("after round %d scheduler %d has %d goroutines and %d files", round+1, i, g, f)
			if round == 0 {
				goroutines[i], files[i] = g, f
			}
		}
	}
	for i, s := range c.schedulers {
		// Connections of nodes and users come and go; some have two goroutines.
		await(t, "what is no longer needed is given back", func() bool {
			g, f := s.held()
			return g <= goroutines[i]+slack && f <= files[i]+slack
		})
	}
	if alerts := c.alerts(); len(alerts) > 0 {
		t.Error(alerts)
	}
}

// slack is the normal difference between two moments of the same process.
const slack = 30
