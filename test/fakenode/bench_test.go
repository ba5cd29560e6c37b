package fakenode_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/test/fakenode"
	"github.com/weirhq/weir/test/fakescheduler"
)

// BenchmarkTenThousandNodes measures a heartbeat of one of 10,000 nodes with four running jobs each,
// over HTTP/2 on loopback, with nodes and scheduler on one core, as fast as they can. 10,000 nodes that
// report every 5 s need 2,000 heartbeats a second.
func BenchmarkTenThousandNodes(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const nodes = 10_000
	store := &fakescheduler.Store{}
	settings := nodeproto.DefaultSettings()
	settings.HeartbeatPeriod, settings.HeartbeatSplay = time.Second/10, time.Second/10
	scheduler := fakescheduler.New(store, settings)
	store.Submit(4 * nodes)
	client, err := nodeproto.NewClient([]string{serve(b, scheduler)}, nil, "")
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	cluster := fakenode.New(fakenode.Config{Count: nodes, Resources: slots(4), Script: fakenode.Steady(time.Hour),
		Caller: func(int) fakenode.Caller { return client }, Stagger: time.Second})
	defer cluster.Close()
	if err := cluster.Await(b.Context(), func(n fakenode.Totals) bool { return n.Running == 4*nodes }); err != nil {
		b.Fatal(err)
	}
	before := cluster.Totals().Heartbeats
	spent := processorTime(b)
	b.ResetTimer()
	if err := cluster.Await(b.Context(), func(n fakenode.Totals) bool { return n.Heartbeats >= before+b.N }); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	each := (processorTime(b) - spent) / time.Duration(b.N)
	b.ReportMetric(float64(each.Nanoseconds()), "cpu-ns/heartbeat")
	b.ReportMetric(100*2000*each.Seconds(), "%core-at-5s")
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapAlloc)/nodes, "B/node")
	if totals := cluster.Totals(); totals.Failures > 0 {
		b.Errorf("%d calls failed", totals.Failures)
	}
}

// processorTime returns the processor time of the process. Unlike elapsed time, it does not depend on
// other processes.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
