//go:build linux

package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/test/expected"
)

// scheduler is a weir scheduler that tests start, kill and restart.
type scheduler struct {
	t       *testing.T
	machine *machine // nil: the one that tests
	address string
	config  string
	log     string
	process *exec.Cmd
	exited  chan struct{}
	program string // what it runs
	clock   string // the file that its clock is set by, if the program has one
}

// settings are the settings in which schedulers of tests differ.
type settings struct {
	store    string // empty: SQLite in the data directory
	data     string
	lease    time.Duration
	standby  time.Duration
	update   time.Duration
	progress time.Duration
	heart    time.Duration
}

// quickly returns settings for short tests; in a full run, those of production.
func quickly() settings {
	s := settings{lease: time.Second, standby: 100 * time.Millisecond, update: time.Second, progress: 500 * time.Millisecond, heart: 500 * time.Millisecond}
	if full() {
		s.lease, s.standby, s.heart = 3*time.Second, 500*time.Millisecond, time.Second
	}
	return s
}

// newScheduler writes the configuration of a scheduler and does not start it.
func newScheduler(t *testing.T, directory string, c settings) *scheduler {
	t.Helper()
	return newSchedulerAt(t, nil, freeAddress(t), directory, c)
}

// newSchedulerAt is newScheduler with an address, on a machine of a network or on this one.
func newSchedulerAt(t *testing.T, m *machine, address, directory string, c settings) *scheduler {
	t.Helper()
	s := &scheduler{t: t, machine: m, address: address, config: filepath.Join(directory, "weir.yaml"), log: filepath.Join(directory, "log"), program: program}
	if c.data == "" {
		c.data = filepath.Join(directory, "data")
	}
	listens := address
	if m != nil {
		listens = "0.0.0.0:7070" // it trusts its own machine as long as there is no token
	}
	text := fmt.Sprintf(`scheduler:
  listen: %s
  advertise: %s
  data_dir: %s
  pprof: true
  trust_loopback: true
  leader: {lease_ttl: %v, renew_period: %v, standby_poll_period: %v}
  self_check: {period: 1s}
  fair_share_update_period: %v
  operations_update_period: %v
  node_heartbeat_period: %v
`, listens, address, c.data, c.lease, c.lease/3, c.standby, c.update, c.progress, c.heart)
	if c.store != "" {
		text += fmt.Sprintf("  store: %q\n", c.store)
	}
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.running() {
			s.signal(syscall.SIGCONT)
			s.kill()
		}
		if t.Failed() {
			s.tellLog()
		}
	})
	return s
}

// freeAddress returns an address on which no process listens. It stays the same over restarts.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (s *scheduler) running() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// start starts the process and does not wait until it is ready.
func (s *scheduler) start() {
	s.t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	process := exec.Command(s.program, "scheduler", "--config", s.config)
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if s.machine != nil {
		// It must outlive the thread that starts it: threads end that have been on a machine.
		process = s.machine.command(s.program, "scheduler", "--config", s.config)
	}
	if s.clock != "" {
		process.Env = append(os.Environ(), clockFile+"="+s.clock)
	}
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = process.Wait() // fails, because the process was killed
		close(exited)
	}()
	s.process, s.exited = process, exited
}

func (s *scheduler) signal(which syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(which); err != nil {
		s.t.Fatalf("%v to %s: %v", which, s.address, err)
	}
}

// kill sends SIGKILL and waits until the process has ended.
func (s *scheduler) kill() (at time.Time) {
	s.t.Helper()
	at = time.Now()
	s.signal(syscall.SIGKILL)
	<-s.exited
	return at
}

// ready returns the scheduler's readiness page; empty if it does not answer.
func (s *scheduler) ready() string {
	text, err := s.fetch("/readyz", time.Second)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

func (s *scheduler) leads() bool {
	first, _, _ := strings.Cut(s.ready(), "\n") // what is held back follows
	return first == "leading"
}

func (s *scheduler) standsBy() bool { return strings.HasPrefix(s.ready(), "standing by") }

// fetch reads a page.
func (s *scheduler) fetch(path string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, data)
	}
	return string(data), err
}

// await waits until a condition holds. The processes make it hold.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !expected.Soon(holds) {
		t.Fatalf("it never happened: %s", what)
	}
}

// lines returns the lines of the log that contain a text.
func (s *scheduler) lines(with string) (found []string) {
	file, err := os.Open(s.log)
	if err != nil {
		return nil
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), with) {
			found = append(found, scanner.Text())
		}
	}
	return found
}

var logTime = regexp.MustCompile(`^time=(\S+)`)

// ledSince returns when the scheduler last started to lead, by its log.
func (s *scheduler) ledSince() time.Time {
	s.t.Helper()
	lines := s.lines("msg=leading ")
	if len(lines) == 0 {
		s.t.Fatalf("%s has never led", s.address)
	}
	at, err := time.Parse(time.RFC3339, logTime.FindStringSubmatch(lines[len(lines)-1])[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// tellLog prints the end of the log.
func (s *scheduler) tellLog() {
	lines := s.lines("")
	s.t.Logf("the end of the log of %s:\n%s", s.address, strings.Join(lines[max(0, len(lines)-30):], "\n"))
}
