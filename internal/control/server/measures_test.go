package server

import (
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// A distribution counts every time once in each bucket whose bound is not below it.
func TestADistributionIsThatOfItsTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOf(rapid.Int64Range(-int64(time.Second), int64(2*time.Minute))).Draw(t, "times")
		var h histogram
		for _, d := range times {
			h.observe(time.Duration(d))
		}
		got := h.read()
		var sum time.Duration
		for _, d := range times {
			sum += max(time.Duration(d), 0)
		}
		if got.Count != uint64(len(times)) || got.Sum != sum {
			t.Fatalf("%d times of %v, want %d of %v", got.Count, got.Sum, len(times), sum)
		}
		for i, bound := range got.Bounds {
			want := uint64(0)
			for _, d := range times {
				if time.Duration(d) <= bound {
					want++
				}
			}
			if got.Counts[i] != want {
				t.Fatalf("%d times up to %v, want %d", got.Counts[i], bound, want)
			}
		}
	})
}

func TestPlacesThatAreNotKnownAreNotCounted(t *testing.T) {
	var counts [2]atomic.Uint64
	for _, place := range []int{-1, 0, 1, 1, 2, 200} {
		count(counts[:], place)
	}
	if counts[0].Load() != 1 || counts[1].Load() != 2 {
		t.Errorf("counted %d and %d", counts[0].Load(), counts[1].Load())
	}
}

func TestMeasuresHaveNames(t *testing.T) {
	m := New(Options{}).Measures()
	for _, list := range [][]Tally{m.JobsStarted, m.JobsAborted, m.Preemptions, m.HeartbeatsSkipped, m.OperationsEnded, m.UpdateStages} {
		seen := map[string]bool{}
		for _, tally := range list {
			if tally.Name == "" || tally.Name == "none" || seen[tally.Name] {
				t.Errorf("%q among %v", tally.Name, list)
			}
			seen[tally.Name] = true
		}
	}
}

// Numbers of removed pools are dropped, and those of existing pools are kept.
func TestNumbersOfPoolsThatAreGoneAreForgotten(t *testing.T) {
	s := New(Options{})
	m := &s.counters.measures
	for i := range forgottenPools + 1 {
		m.preemption(scheduling.PreemptedForStarving, "default", "gone", "stays")
		m.pool("default", string(rune('a'+i%26))+time.Duration(i).String())
	}
	config, _, err := pooltree.FromValue(expected.Document(t, "{pools: {stays: {}}}"), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	engine := core.New(core.DefaultSettings())
	trees := []document.Named[*pooltree.Tree]{{Name: "default", Value: config}}
	if err := engine.Apply(time.Now(), &core.TreesInput{Trees: trees}, &core.Decisions{}); err != nil {
		t.Fatal(err)
	}
	s.view.Store(&View{Picture: engine.Picture(time.Now())})
	(&term{server: s}).forgetPools()
	if _, caused := s.PoolPreemptions("default", "stays"); caused != forgottenPools+1 {
		t.Errorf("%d were caused", caused)
	}
	if suffered, _ := s.PoolPreemptions("default", "gone"); suffered != 0 || m.poolCount.Load() != 1 {
		t.Errorf("%d were suffered by a pool that is gone; %d pools are kept", suffered, m.poolCount.Load())
	}
}
