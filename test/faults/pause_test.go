//go:build linux

package faults

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// TestALeaderThatWasStoppedWritesNothingWhenItWakesUp stops a leader for longer than its lease, lets
// the standby take over, and resumes the old leader while requests wait for it.
func TestALeaderThatWasStoppedWritesNothingWhenItWakesUp(t *testing.T) {
	c := onPostgres(t, 20)
	l := c.underLoad()
	stored := archive{}
	c.must(createPool("watched", "", yson.Pair("weight", yson.Int64(1))))
	weight := set("//sys/pool_trees/default/watched/@weight", yson.Double(2))
	for range max(2, kills()/20) {
		old := c.leader()
		next := c.other(old)
		await(t, "there is a standby", next.standsBy)
		stopped := time.Now()
		old.signal(syscall.SIGSTOP)
		first := c.gateway.watch()
		select {
		case at := <-first:
			t.Logf("the standby acknowledged a write %v after the leader was stopped", at.Sub(stopped))
		case <-time.After(patience):
			t.Fatal("nobody has taken over")
		}
		await(t, "the standby leads", next.leads)

		// The old leader knows an outdated weight. It must not answer as if that were current.
		c.must(set("//sys/pool_trees/default/watched/@weight", yson.Double(3)))
		answered := c.askSleeper(old, set("//sys/pool_trees/default/watched/@weight", yson.Double(1)), weight)
		if full() {
			pause(t.Context(), 30*time.Second)
		}
		before := len(old.lines("no longer leading"))
		old.signal(syscall.SIGCONT)
		last := 3.0
		for _, a := range <-answered {
			if a.err == nil {
				last = a.weight // the request was forwarded to the leader
			}
		}
		await(t, "the old leader stands by", old.standsBy)
		if got, _ := c.ask(get("//sys/pool_trees/default/watched/@weight")).Double(); got != last {
			t.Errorf("the last acknowledged weight is %v, the pool has %v", last, got)
		}
		await(t, "the old leader says that it has stepped down", func() bool { return len(old.lines("no longer leading")) > before })
		if !next.leads() {
			t.Error("the new leader does not lead any more")
		}
		c.must(set("//sys/pool_trees/default/watched/@weight", yson.Double(1)))
		c.checkOperations(l, stored)
	}
	c.finish(l, stored)
}

// wokenAnswer is a resumed leader's answer to a request.
type wokenAnswer struct {
	weight float64
	err    error
}

// askSleeper sends requests to a stopped scheduler, one after the other, and waits for the answers
// until it is resumed.
func (c *cluster) askSleeper(s *scheduler, requests ...command) <-chan []wokenAnswer {
	answered := make(chan []wokenAnswer, 1)
	at := 0
	for i := range c.schedulers {
		if c.schedulers[i] == s {
			at = i
		}
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var list []wokenAnswer
		for _, r := range requests {
			_, err := c.gateway.once(ctx, at, r)
			weight, _ := r.value.Double()
			list = append(list, wokenAnswer{weight, err})
		}
		answered <- list
	}()
	return answered
}
