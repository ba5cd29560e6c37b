package kube

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// Variables that make this program a scheduler.
const (
	roleVariable       = "WEIR_TEST_SCHEDULER" // the data directory
	kubeconfigVariable = "WEIR_TEST_KUBECONFIG"
	listenVariable     = "WEIR_TEST_LISTEN"
	plainVariable      = "WEIR_TEST_PLAIN" // set: all other settings are the defaults
)

var (
	plane   *controlPlane
	machine *kubelets
	without string // why there is no control plane
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] { // a process in a pretended container
		case jobinit.SessionFlag:
			os.Exit(jobinit.Session(os.Args[2:]))
		case jobinit.EndSessionFlag:
			os.Exit(jobinit.EndSession(os.Args[2:]))
		}
	}
	if directory := os.Getenv(roleVariable); directory != "" {
		if err := runScheduler(directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	programs, err := findPrograms()
	if err != nil {
		without = err.Error()
		fmt.Fprintln(os.Stderr, "THE TESTS WITH A REAL API SERVER DO NOT RUN:", without)
		return m.Run()
	}
	directory, err := os.MkdirTemp("", "weir-kube")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if isLarge() {
		if plane, err = startControlPlane(programs, directory, false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer plane.stop()
		return m.Run()
	}
	plane, err = startControlPlane(programs, directory, true)
	if err == nil {
		defer plane.stop()
		machine, err = startKubelets(ctx, plane.admin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer machine.logs.Close()
	code := m.Run()
	if err := plane.checkPermissions(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "FAIL: permissions:", err)
		return 1
	}
	return code
}

// isLarge reports whether this run is about large clusters: tests of WEIR_NODES, or benchmarks. They have pretended nodes of
// their own, and the API server records nothing.
func isLarge() bool {
	flag.Parse()
	return os.Getenv(largeVariable) != "" || flag.Lookup("test.bench").Value.String() != ""
}

// runScheduler is a scheduler that drives the control plane of the tests.
func runScheduler(directory string) error {
	c := config.Default().Scheduler
	c.DataDir, c.Listen, c.TrustLoopback = document.Some(directory), document.Some(os.Getenv(listenVariable)), document.Some(true)
	c.Socket = document.Some(filepath.Join(directory, "socket-"+os.Getenv(listenVariable)))
	level := slog.LevelWarn
	if os.Getenv(plainVariable) == "" {
		level = slog.LevelDebug
		c.Periods.FairShareUpdate, c.Periods.OperationsUpdate = document.Some(50*time.Millisecond), document.Some(50*time.Millisecond)
		c.Nodes.HeartbeatPeriod = document.Some(500 * time.Millisecond)
		c.Nodes.OvercommitDuration = document.Some(time.Second)
		c.Log.Level = document.Some("debug")
	}
	c.Kubernetes.Enabled, c.Kubernetes.Kubeconfig = document.Some(true), document.Some(os.Getenv(kubeconfigVariable))
	c.Kubernetes.PodsURL = document.Some("http://" + os.Getenv(listenVariable))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := app.NewScheduler(ctx, &c, "test", slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// scheduler is a scheduler in a process of its own, with a client.
type scheduler struct {
	t         *testing.T
	directory string
	address   string
	through   *trouble // how it reaches the API server; nil: directly
	process   *process
	*client.Client
}

// describe returns a scheduler that has not been started.
func describe(t *testing.T, directory string, through *trouble) *scheduler {
	t.Helper()
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{t: t, directory: directory, address: address, through: through}
	if s.Client, err = client.New(client.Options{Address: address}); err != nil {
		t.Fatal(err)
	}
	return s
}

// newScheduler starts a scheduler on fresh state. At the end of the test nothing of it is left in the cluster.
func newScheduler(t *testing.T) *scheduler {
	t.Helper()
	needPlane(t)
	return newSchedulerThrough(t, nil)
}

func needPlane(t *testing.T) {
	t.Helper()
	if without != "" {
		t.Skipf("NO API SERVER HERE: %s", without)
	}
	if machine == nil {
		t.Skip("this run is about large clusters")
	}
}

// newSchedulerThrough starts a scheduler that reaches the API server through something.
func newSchedulerThrough(t *testing.T, through *trouble) *scheduler {
	t.Helper()
	s := describe(t, t.TempDir(), through)
	t.Cleanup(func() {
		machine.finish(true)
		defer machine.finish(false)
		for operation, err := range s.Operations(context.Background(), client.OperationFilter{}) {
			if err == nil && !operation.State.Ended() {
				_ = s.AbortOperation(context.Background(), operation.ID, "the test ends") // what is left is reported below
			}
		}
		if !expected.Soon(func() bool { return len(machine.pods(t)) == 0 }) {
			t.Errorf("%d pods are left", len(machine.pods(t)))
		}
		s.process.kill()
		if t.Failed() {
			t.Log(tail(s.process.log))
		}
		machine.checkLedger(t)
	})
	machine.newLedger()
	s.start()
	return s
}

// start starts the scheduler and waits until it leads.
func (s *scheduler) start() {
	s.t.Helper()
	s.launch()
	s.await("the scheduler answers", func() bool {
		_, err := s.ListOperations(context.Background(), client.OperationFilter{})
		return err == nil
	})
}

func (s *scheduler) launch() {
	s.t.Helper()
	kubeconfig, err := plane.kubeconfig()
	if s.through != nil {
		kubeconfig, err = plane.kubeconfigAt(s.through.server.URL, weirToken, filepath.Join(s.directory, "kubeconfig"))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range map[string]string{roleVariable: s.directory, kubeconfigVariable: kubeconfig, listenVariable: s.address} {
		s.t.Setenv(name, value)
	}
	s.process, err = startProcess(filepath.Join(s.directory, "log-"+s.address), self)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{roleVariable, kubeconfigVariable, listenVariable} {
		_ = os.Unsetenv(name) // only the child plays a role
	}
}

// await waits until something holds.
func (s *scheduler) await(what string, holds func() bool) {
	s.t.Helper()
	if !expected.Soon(holds) {
		s.t.Fatalf("%s: not within %v\n%s", what, expected.Patience, tail(s.process.log))
	}
}

// logged reports whether the scheduler's log has a text.
func (s *scheduler) logged(text string) bool {
	log, err := os.ReadFile(s.process.log)
	return err == nil && strings.Contains(string(log), text)
}

// begin starts an operation whose jobs run a command.
func (s *scheduler) begin(jobs int, command string, more map[string]any) string {
	s.t.Helper()
	specification := map[string]any{"tasks": map[string]any{"main": map[string]any{"job_count": jobs, "command": command, "memory_limit": 64 << 20}}}
	for name, value := range more {
		specification[name] = value
	}
	var id string
	var err error
	s.await("an operation starts", func() bool { // its tree may be yet to come
		id, err = s.StartOperation(context.Background(), "vanilla", specification)
		return err == nil
	})
	return id
}

// state returns the state of an operation.
func (s *scheduler) operation(id string) *client.Operation {
	operation, err := s.GetOperation(context.Background(), id)
	if err != nil {
		return &client.Operation{}
	}
	return operation
}

func (s *scheduler) jobs(id string) (list []client.Job) {
	s.t.Helper()
	for job, err := range s.Jobs(context.Background(), id, client.JobFilter{}) {
		if err != nil {
			return nil
		}
		list = append(list, *job)
	}
	return list
}
