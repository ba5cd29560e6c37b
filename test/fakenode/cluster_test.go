package fakenode_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/fakenode"
	"github.com/weirhq/weir/test/fakescheduler"
)

// slots returns the resources of a node with n slots.
func slots(n int64) resource.Amounts {
	return resource.Amounts{resource.UserSlots: n, resource.CPU: 100 * n, resource.Memory: n << 30}
}

// seat forwards calls to the current leader. Calls fail while there is none.
type seat struct {
	fakenode.Caller // of calls that no test makes
	leader          atomic.Pointer[fakescheduler.Scheduler]
}

func (s *seat) Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	if l := s.leader.Load(); l != nil {
		return fakenode.Direct(l).Register(ctx, request)
	}
	return nil, context.DeadlineExceeded
}

func (s *seat) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	if l := s.leader.Load(); l != nil {
		return fakenode.Direct(l).Heartbeat(ctx, request)
	}
	return nil, context.DeadlineExceeded
}

func (s *seat) Upload(ctx context.Context, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	if l := s.leader.Load(); l != nil {
		return fakenode.Direct(l).Upload(ctx, request)
	}
	return nil, context.DeadlineExceeded
}

// place starts a leader on a store, and a cluster that calls it without a network.
func place(t *testing.T, store *fakescheduler.Store, config fakenode.Config) (*seat, *fakescheduler.Scheduler, *fakenode.Cluster) {
	t.Helper()
	s := &seat{}
	leader := fakescheduler.New(store, nodeproto.DefaultSettings())
	s.leader.Store(leader)
	config.Caller = func(int) fakenode.Caller { return s }
	cluster := fakenode.New(config)
	t.Cleanup(cluster.Close)
	return s, leader, cluster
}

// checkLedger compares the nodes' ledger with the store.
func checkLedger(t *testing.T, store *fakescheduler.Store, cluster *fakenode.Cluster, jobs int) {
	t.Helper()
	entries := cluster.Ledger()
	for _, problem := range fakenode.Problems(entries) {
		t.Error(problem)
	}
	for _, entry := range entries {
		if entry.Wiped {
			continue
		}
		result := store.Result(entry.Job)
		if !entry.FinishedAt.IsZero() && (result == nil || result.GetState() != entry.State) {
			t.Errorf("job %d ended on %s as %v, the store has %v", entry.Job, entry.Node, entry.State, result)
		}
		if entry.AcknowledgedAt.IsZero() && !entry.FinishedAt.IsZero() {
			t.Errorf("the result of job %d is not acknowledged", entry.Job)
		}
	}
	if p := store.Progress(); p.Done != jobs || p.Twice != 0 || p.Pending != 0 || p.Running != 0 {
		t.Errorf("the store has %+v, want %d done once", p, jobs)
	}
}

func TestAClusterDoesAllItsJobsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakescheduler.Store{}
		store.Submit(2000)
		_, _, cluster := place(t, store, fakenode.Config{Count: 50, Resources: slots(4), Script: fakenode.Steady(20 * time.Second)})
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Acknowledged == 2000 }); err != nil {
			t.Fatal(err)
		}
		checkLedger(t, store, cluster, 2000)
		totals := cluster.Totals()
		if totals.Registered != 50 || totals.Started != 2000 || totals.Failures != 0 {
			t.Errorf("totals %+v", totals)
		}
	})
}

func TestNothingIsLostWhenEverythingFails(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		})
	}
}

// chaos simulates a bad day: a network that loses a tenth of everything, agents that restart, stop and
// are cut off, and leaders that crash while they hold results.
func chaos(t *testing.T, seed uint64) {
	const jobs = 1500
	store := &fakescheduler.Store{}
	store.Submit(jobs)
	seat, leader, cluster := place(t, store, fakenode.Config{
		Count: 30, Resources: slots(3), Seed: seed,
		Script: func(_ string, start nodeproto.Start) fakenode.Behaviour {
			b := fakenode.Behaviour{Prepare: time.Second, Duration: time.Duration(start.Identity.GetNumber()%40) * time.Second}
			if start.Identity.GetNumber()%17 == 0 {
				b.State, b.ExitCode = nodev1.JobState_JOB_STATE_FAILED, 1
			}
			return b
		},
		Chaos: fakenode.Chaos{LoseRequest: 0.1, LoseResponse: 0.1, Double: 0.1},
	})
	random := rand.New(rand.NewPCG(seed, 7))
	names := cluster.Names()
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for range 120 {
		<-tick.C
		name := names[random.IntN(len(names))]
		var err error
		switch random.IntN(12) {
		case 0:
			err = cluster.Restart(name, true)
		case 1:
			err = cluster.Restart(name, false)
		case 2:
			err = cluster.Pause(name)
		case 3, 4:
			for _, name := range names {
				err = cluster.Resume(name)
			}
		case 5:
			err = cluster.Cut(name)
		case 6:
			err = cluster.Mute(name)
		case 7:
			err = cluster.Heal(name)
		case 8:
			leader.Hold(true)
		case 9:
			leader.Hold(false)
		case 10:
			leader.Forget(name)
		case 11:
			seat.leader.Store(nil)
			<-tick.C
			leader = fakescheduler.New(store, nodeproto.DefaultSettings())
			seat.leader.Store(leader)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	leader.Hold(false)
	for _, name := range names {
		if err := cluster.Resume(name); err != nil {
			t.Fatal(err)
		}
		if err := cluster.HealNow(name); err != nil {
			t.Fatal(err)
		}
	}
	err := store.Await(t.Context(), func(p fakescheduler.Progress) bool { return p.Done == jobs })
	if err == nil {
		err = cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Running == 0 && n.Unreported == 0 })
	}
	if err != nil {
		t.Fatal(err)
	}
	checkLedger(t, store, cluster, jobs)
	if totals := cluster.Totals(); totals.Failures == 0 || totals.Registrations <= 30 {
		t.Errorf("nothing went wrong: %+v", totals)
	}
}

func TestJobsAreAdoptedByTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakescheduler.Store{}
		store.Submit(40)
		seat, _, cluster := place(t, store, fakenode.Config{Count: 10, Resources: slots(4), Script: fakenode.Steady(10 * time.Minute)})
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Running == 40 }); err != nil {
			t.Fatal(err)
		}
		// The leader crashes, and there is no leader for five minutes. The next one does not know these
		// jobs; all of them continue.
		seat.leader.Store(nil)
		time.AfterFunc(5*time.Minute, func() { seat.leader.Store(fakescheduler.New(store, nodeproto.DefaultSettings())) })
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Acknowledged == 40 }); err != nil {
			t.Fatal(err)
		}
		checkLedger(t, store, cluster, 40)
		if totals := cluster.Totals(); totals.Started != 40 || totals.Aborted != 0 {
			t.Errorf("jobs were started again: %+v", totals)
		}
	})
}

func TestAJobsScriptIsFollowed(t *testing.T) {
	stderr := []byte(strings.Repeat("a line of output\n", 100_000))
	behaviours := []fakenode.Behaviour{
		{Duration: time.Minute, Usage: []fakenode.Usage{{After: 10 * time.Second, CPU: 50, Memory: 5 << 20}, {After: 20 * time.Second, Memory: 9 << 20}}},
		{Duration: time.Second, State: nodev1.JobState_JOB_STATE_FAILED, ExitCode: 7, Stderr: stderr},
		{Duration: -1, InterruptDelay: 2 * time.Second},
		{Duration: -1, IgnoreInterrupt: true},
		{Duration: -1, AbortDelay: time.Second},
	}
	synctest.Test(t, func(t *testing.T) {
		store := &fakescheduler.Store{}
		store.Submit(len(behaviours))
		begun := 0
		_, leader, cluster := place(t, store, fakenode.Config{Count: 1, Resources: slots(int64(len(behaviours))),
			Script: func(_ string, start nodeproto.Start) fakenode.Behaviour {
				begun++
				if begun > len(behaviours) {
					return fakenode.Behaviour{Duration: -1}
				}
				return behaviours[start.Identity.GetCookie()]
			}})
		node := cluster.Names()[0]
		var usages []string
		job := func(cookie uint64) uint64 { return nodeproto.JobNumber(leader.Epoch(), cookie+1) }
		leader.OnReport(func(_ string, report nodeproto.Report) {
			for _, status := range report.Jobs {
				if status.GetNumber() == job(0) && status.GetPhase() == nodev1.Phase_PHASE_RUNNING {
					usages = append(usages, fmt.Sprintf("cpu %d memory %d in use %d", status.GetUsage().GetCpu(), status.GetUsage().GetMemory()>>20, status.GetUserJobMemory()>>20))
				}
			}
		})
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Started == len(behaviours) }); err != nil {
			t.Fatal(err)
		}
		leader.Session(node, func(s *nodeproto.Session) {
			s.Interrupt(&nodev1.InterruptOrder{Number: job(2), TimeoutUs: 5_000_000})
			s.Interrupt(&nodev1.InterruptOrder{Number: job(3), TimeoutUs: 5_000_000})
			s.Abort(&nodev1.AbortOrder{Number: job(4), AbortReason: "user_request"})
		})
		if err := store.Await(t.Context(), func(p fakescheduler.Progress) bool { return p.Results >= 5 && p.Done == 1 }); err != nil {
			t.Fatal(err)
		}
		want := []string{"cpu 100 memory 1 in use 0", "cpu 50 memory 5 in use 5", "cpu 50 memory 9 in use 9"}
		if fmt.Sprint(usages) != fmt.Sprint(want) {
			t.Errorf("usage was reported as %q, want %q", usages, want)
		}
		failed := store.Result(job(1))
		if failed.GetState() != nodev1.JobState_JOB_STATE_FAILED || failed.GetExitCode() != 7 || !failed.GetStderr().GetUploaded() {
			t.Errorf("the failed job has %v", failed)
		}
		if !bytes.Equal(leader.Uploaded(job(1)), stderr) {
			t.Errorf("%d bytes of stderr arrived, want %d", len(leader.Uploaded(job(1))), len(stderr))
		}
		for cookie, end := range map[uint64]string{
			2: "JOB_STATE_INTERRUPTED/", 3: "JOB_STATE_ABORTED/interruption_timeout", 4: "JOB_STATE_ABORTED/user_request",
		} {
			result := store.Result(job(cookie))
			if got := result.GetState().String() + "/" + result.GetAbortReason(); got != end {
				t.Errorf("job %d ended as %s, want %s", cookie, got, end)
			}
		}
	})
}

func TestAPausedNodeDoesNothingAndCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakescheduler.Store{}
		store.Submit(1)
		_, _, cluster := place(t, store, fakenode.Config{Count: 1, Resources: slots(1), Script: fakenode.Steady(time.Minute)})
		node := cluster.Names()[0]
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Running == 1 }); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Pause(node); err != nil {
			t.Fatal(err)
		}
		before := cluster.Totals()
		later := time.After(10 * time.Minute)
		<-later
		after := cluster.Totals()
		if after.Heartbeats > before.Heartbeats+1 || after.Finished != 0 {
			t.Errorf("a paused node went from %+v to %+v", before, after)
		}
		if err := cluster.Resume(node); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Acknowledged == 1 }); err != nil {
			t.Fatal(err)
		}
		checkLedger(t, store, cluster, 1)
	})
}

func TestARefusedNodeAsksSeldomAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakescheduler.Store{}
		_, leader, cluster := place(t, store, fakenode.Config{Count: 2, Resources: slots(1)})
		node := cluster.Names()[0]
		leader.Refuse(node, &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_BANNED, Message: "for the test"})
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Registered == 1 && n.Refusals >= 10 }); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Refusals >= 20 }); err != nil {
			t.Fatal(err)
		}
		if pause := time.Since(began) / 10; pause < 30*time.Second || pause > time.Minute {
			t.Errorf("a refused node asks every %v, want between half of a minute and one", pause)
		}
		leader.Refuse(node, nil)
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Registered == 2 }); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSkippedSchedulingSlowsNodesDownButNotResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakescheduler.Store{}
		store.Submit(4)
		_, leader, cluster := place(t, store, fakenode.Config{Count: 1, Resources: slots(4), Script: fakenode.Steady(10 * time.Minute)})
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Running == 4 }); err != nil {
			t.Fatal(err)
		}
		leader.Skip(nodev1.SkipReason_SKIP_REASON_OVERLOAD)
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Finished == 4 }); err != nil {
			t.Fatal(err)
		}
		finished := time.Now()
		if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Acknowledged == 4 }); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(finished); waited > time.Second {
			t.Errorf("results were acknowledged after %v although only scheduling is skipped", waited)
		}
		if totals := cluster.Totals(); totals.Skipped < 5 || totals.Skipped > 30 {
			t.Errorf("%d heartbeats in ten minutes of overload, want a backoff up to a minute", totals.Skipped)
		}
	})
}

// serve serves a scheduler on loopback without TLS.
func serve(t testing.TB, service nodeproto.Service) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(nodeproto.NewHandler(service, nodeproto.Insecure{}, nodeproto.Unmetered))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = nodeproto.Protocols()
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestAClusterOverHTTPFollowsTheLeader(t *testing.T) {
	store := &fakescheduler.Store{}
	store.Submit(600)
	settings := nodeproto.DefaultSettings()
	settings.HeartbeatPeriod, settings.HeartbeatSplay = 20*time.Millisecond, 5*time.Millisecond
	settings.BackoffMin, settings.BackoffMax = 10*time.Millisecond, 50*time.Millisecond
	first := fakescheduler.New(store, settings)
	firstAddress := serve(t, first)

	standby := fakescheduler.New(&fakescheduler.Store{}, settings) // always refers to the leader
	standby.Stand(&nodeproto.NotLeaderError{Leader: firstAddress})
	standbyAddress := serve(t, standby)

	client, err := nodeproto.NewClient([]string{standbyAddress}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	cluster := fakenode.New(fakenode.Config{Count: 40, Resources: slots(3), Pace: settings,
		Caller: func(int) fakenode.Caller { return client }, Script: fakenode.Steady(5 * time.Millisecond)})
	defer cluster.Close()
	if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Acknowledged >= 200 }); err != nil {
		t.Fatal(err)
	}
	// Another scheduler takes over; the standby and the old leader both refer to it.
	second := fakescheduler.New(store, settings)
	secondAddress := serve(t, second)
	standby.Stand(&nodeproto.NotLeaderError{Leader: secondAddress})
	first.Stand(&nodeproto.NotLeaderError{Leader: secondAddress})
	if err := store.Await(t.Context(), func(p fakescheduler.Progress) bool { return p.Done == 600 }); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Await(t.Context(), func(n fakenode.Totals) bool { return n.Running == 0 && n.Unreported == 0 }); err != nil {
		t.Fatal(err)
	}
	checkLedger(t, store, cluster, 600)
	// An answer of the old leader may have been under way until now; heartbeats continue.
	if err := cluster.Await(t.Context(), func(fakenode.Totals) bool { return client.Current() == secondAddress }); err != nil {
		t.Errorf("the client stays with %s, the leader is %s: %v", client.Current(), secondAddress, err)
	}
}
