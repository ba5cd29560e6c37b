package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// settle runs a core with constant demand: jobs never end by themselves, heartbeats
// come every five seconds and updates every second. It returns the number of
// preemptions in each hour.
func (w *world) settle(hours int) (preemptions []int) {
	for range hours {
		count := 0
		for second := range 3600 {
			if second%60 != 0 && second%5 != 0 {
				continue
			}
			w.now = midnight.Add(time.Duration(len(preemptions))*time.Hour + time.Duration(second)*time.Second)
			if second%5 == 0 {
				_ = w.do(&UpdateInput{}) // never refused
			}
			for id := range NodeID(len(w.nodes)) {
				_ = w.do(&HeartbeatInput{Node: id}) // never refused
				var stopped []Finished
				for _, s := range w.out.Stopped {
					stopped = append(stopped, Finished{Job: s.Job, State: JobAborted})
				}
				count += len(stopped)
				w.out.Reset()
				_ = w.do(&ReportInput{stopped}) // never refused
				w.out.Reset()
			}
		}
		preemptions = append(preemptions, count)
	}
	return preemptions
}

// TestUsageConvergesToFairShareAndPreemptionEnds checks liveness: with constant
// demand, starvation ends, usage gets close to fair share, and no job is preempted
// and restarted forever.
func TestUsageConvergesToFairShareAndPreemptionEnds(t *testing.T) {
	for seed := range uint64(expected.Fewer(10)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 17))
			pools := fmt.Sprintf("enable_aggressive_starvation: %v\npools:\n", seed%2 == 0)
			for p := range 4 {
				mode := "fair_share"
				if rng.IntN(4) == 0 {
					mode = "fifo"
				}
				pools += fmt.Sprintf("  p%d: {weight: %d, mode: %s, min_share_resources: {cpu: %d}}\n", p, 1+rng.IntN(5), mode, rng.IntN(8))
			}
			w := newWorld(t, pools)
			w.Together(nil) // this many concurrent updates would take the race detector minutes
			for id := range NodeID(4 + rng.IntN(4)) {
				w.addNode(id, 4+rng.Int64N(9))
			}
			for range 8 {
				spec := fmt.Sprintf("{pool: p%d, weight: %d, tasks: {t: {job_count: %d, cpu_limit: %d, memory_limit: 512MiB}}}",
					rng.IntN(4), 1+rng.IntN(3), 1+rng.IntN(60), 1+rng.IntN(2))
				if _, err := w.start("anna", spec); err != nil {
					t.Fatal(err)
				}
			}
			preemptions := w.settle(24)
			for hour, count := range preemptions[1:] {
				if count > 0 {
					t.Errorf("%d preemptions in hour %d; all: %v", count, hour+1, preemptions)
					break
				}
			}
			last := w.Picture(w.now)
			total := last.Trees[0].Total.Float(resource.CPU)
			for o := range last.Operations() {
				v := last.Seat(o, 0)
				// Jobs need up to two cores, so the missing rest may be a fraction
				// of a job, or spread over several nodes.
				fair, used := v.Share.Total[resource.CPU]*total, v.Usage.Float(resource.CPU)
				if used < 0.8*fair-2 {
					t.Errorf("operation %d is entitled to %.2f cpu, uses %.2f and is %s", v.Operation, fair, used, v.Starvation)
				}
			}
		})
	}
}
