package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakenode"
)

// latencies collects the durations of calls.
type latencies struct {
	mutex sync.Mutex
	all   []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mutex.Lock()
	l.all = append(l.all, d)
	l.mutex.Unlock()
}

func (l *latencies) quantile(q float64) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	return l.all[min(len(l.all)-1, int(q*float64(len(l.all))))]
}

// timed is a caller that measures heartbeats.
type timed struct {
	fakenode.Caller
	heartbeats *latencies
}

func (c timed) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	began := time.Now()
	response, err := c.Caller.Heartbeat(ctx, request)
	c.heartbeats.add(time.Since(began))
	return response, err
}

// BenchmarkCluster measures the daemon under load. Fake nodes speak the protocol over HTTP/2 on
// loopback, users start operations of 20 jobs each in 200 pools, and the jobs complete after two
// seconds. Everything runs in this process with an SQLite store on disk. Users start operations
// either as fast as they are answered, which shows the daemon's capacity, or a hundred operations
// (two thousand jobs) per second, which shows its latency below the limit. The figures cover the
// whole run until the last job is acknowledged and the last operation is archived: heartbeats per
// second, the 50th and 99th percentiles of a heartbeat and of an acknowledged start, commits per
// second, and the CPU time of the whole process, nodes included, for each job. With eight slots a
// node, 2,000 nodes cannot complete more than 8,000 jobs of two seconds a second; with fifty, all
// 100,000 jobs run at once.
func BenchmarkCluster(b *testing.B) {
	for _, c := range []struct {
		nodes, operations, rate int
		period                  time.Duration
		slots                   int64
	}{
		{500, 1000, 0, time.Second, 50}, {500, 1000, 100, time.Second, 50}, // for comparisons and profiles: a few seconds
		{2000, 5000, 0, time.Second, 8}, {2000, 5000, 0, time.Second, 50}, {2000, 5000, 100, time.Second, 8},
		{10_000, 5000, 0, 5 * time.Second, 8}, {10_000, 5000, 100, 5 * time.Second, 8},
	} {
		pace := "at-once"
		if c.rate > 0 {
			pace = fmt.Sprintf("%d-a-second", c.rate)
		}
		if c.slots != 8 {
			pace += fmt.Sprintf("/slots=%d", c.slots)
		}
		b.Run(fmt.Sprintf("nodes=%d/period=%v/operations=%d/%s", c.nodes, c.period, c.operations, pace), func(b *testing.B) {
			for range b.N {
				loadCluster(b, c.nodes, c.operations, c.rate, c.period, c.slots, "")
			}
		})
	}
}

// figures are what [loadCluster] measures.
type figures struct {
	cpu, p99 float64 // CPU time of the whole process for a job, and the 99th percentile of heartbeats
	answers  int     // to questions
}

// loadCluster runs a cluster under load and reports its figures. beside is what runs beside it: a "journal",
// "questions", or nothing.
func loadCluster(b *testing.B, nodes, operations, rate int, period time.Duration, slots int64, beside string) (f figures) {
	b.StopTimer()
	TradeMemory() // as the daemon does
	db, err := store.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "weir.db"))
	if err != nil {
		b.Fatal(err)
	}
	settings := DefaultSettings()
	settings.HeartbeatPeriod, settings.HeartbeatSplay = period, period/5
	settings.Core.MaxOperations = operations + 1
	settings.QuestionsPerMinute = 1_000_000
	options := Options{Store: db, Name: "load", Address: "test", Settings: settings, Log: slog.New(slog.DiscardHandler)}
	if beside == "journal" {
		options.Recorder, err = recorder.New(recorder.Options{Directory: b.TempDir(), Build: "load", Keep: time.Hour, Log: options.Log})
		if err != nil {
			b.Fatal(err)
		}
	}
	s := New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var askers sync.WaitGroup
	if beside == "questions" {
		askers.Go(func() { f.answers = askAlways(ctx, b, s) })
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Led()
	setLoadPools(b, s)

	path, handler := nodeproto.NewHandler(s.NodeService(), nodeproto.Insecure{}, nodeproto.Unmetered)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	web := httptest.NewUnstartedServer(mux)
	web.Config.Protocols = nodeproto.Protocols()
	web.Start()
	client, err := nodeproto.NewClient([]string{web.Listener.Addr().String()}, nil, "")
	if err != nil {
		b.Fatal(err)
	}
	heartbeats := &latencies{}
	cluster := fakenode.New(fakenode.Config{
		Count: nodes, Resources: resource.Amounts{resource.UserSlots: slots, resource.CPU: slots * 100, resource.Memory: slots * 4 << 30},
		Caller:  func(int) fakenode.Caller { return timed{client, heartbeats} },
		Script:  fakenode.Steady(2 * time.Second),
		Stagger: period, Calls: 128, Seed: 1,
	})
	if err := cluster.Await(b.Context(), func(t fakenode.Totals) bool { return t.Registered == nodes }); err != nil {
		b.Fatal(err)
	}
	before, totals := s.Counters(), cluster.Totals()
	heartbeats.mutex.Lock()
	heartbeats.all = nil
	heartbeats.mutex.Unlock()
	b.StartTimer()
	began, spent := time.Now(), expected.CPUTime()

	starts := startMany(b, s, operations, rate)
	jobs := operations * jobsOfLoad
	if err := cluster.Await(b.Context(), func(t fakenode.Totals) bool { return t.Acknowledged >= jobs }); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	spent = expected.CPUTime() - spent
	b.StopTimer()
	after, ended := s.Counters(), cluster.Totals()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	seconds := took.Seconds()
	b.ReportMetric(float64(ended.Heartbeats-totals.Heartbeats)/seconds, "heartbeats/s")
	b.ReportMetric(float64(jobs)/seconds, "jobs/s")
	b.ReportMetric(float64(spent.Microseconds())/float64(jobs), "cpu-us/job")
	b.ReportMetric(float64(after.Commits-before.Commits)/seconds, "commits/s")
	b.ReportMetric(milliseconds(heartbeats.quantile(0.5)), "heartbeat-p50-ms")
	b.ReportMetric(milliseconds(heartbeats.quantile(0.99)), "heartbeat-p99-ms")
	b.ReportMetric(milliseconds(starts.quantile(0.5)), "start-p50-ms")
	b.ReportMetric(milliseconds(starts.quantile(0.99)), "start-p99-ms")
	b.ReportMetric(float64(ended.Skipped-totals.Skipped), "skipped")
	b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB")
	if problems := fakenode.Problems(cluster.Ledger()); len(problems) > 0 || ended.Twice > 0 {
		b.Fatal(problems)
	}
	f.cpu, f.p99 = float64(spent.Microseconds())/float64(jobs), milliseconds(heartbeats.quantile(0.99))
	cluster.Close()
	client.Close()
	web.Close()
	cancel()
	askers.Wait()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
	return f
}

const jobsOfLoad = 20

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func setLoadPools(b *testing.B, s *Server) {
	text := "max_running_operation_count: 100000\nmax_operation_count: 100000\npools:\n"
	for i := range 200 {
		text += fmt.Sprintf("  pool-%d: {weight: %d, max_running_operation_count: 1000, max_operation_count: 10000}\n", i, 1+i%5)
	}
	if err := setPools(b.Context(), s, text); err != nil {
		b.Fatal(err)
	}
}

// startMany starts operations as sixteen users who wait for each answer and, if there is a rate,
// for the next tick.
func startMany(b *testing.B, s *Server, count, rate int) *latencies {
	starts := &latencies{}
	var users sync.WaitGroup
	next := make(chan int, count)
	users.Go(func() {
		defer close(next)
		var ticks <-chan time.Time
		if rate > 0 {
			ticker := time.NewTicker(time.Second / time.Duration(rate))
			defer ticker.Stop()
			ticks = ticker.C
		}
		for i := range count {
			if ticks != nil {
				<-ticks
			}
			next <- i
		}
	})
	for range 16 {
		users.Go(func() {
			for i := range next {
				text := fmt.Sprintf("{pool: pool-%d, tasks: {t: {job_count: %d, command: 'true', cpu_limit: 1, memory_limit: 1GiB}}}", i%200, jobsOfLoad)
				v, err := notation.ParseYAML("", []byte(text))
				if err != nil {
					b.Error(err)
					return
				}
				spec, err := operation.Read(v, operation.ReadOptions{})
				if err != nil {
					b.Error(err)
					return
				}
				began := time.Now()
				if _, err := s.StartOperation(b.Context(), tester, Start{Type: "vanilla", User: "anna", Spec: spec}); err != nil {
					b.Error(err)
					return
				}
				starts.add(time.Since(began))
			}
		})
	}
	users.Wait()
	return starts
}
