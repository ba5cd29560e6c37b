package jobproxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Names in a node's directory that belong to its supervisor.
const (
	supervisorLock   = "supervisor.lock"
	supervisorSocket = "supervisor.sock"
	supervisorLog    = "supervisor.log"
	jobsDir          = "jobs"
)

// supervisor hosts the proxies of all jobs of a node in one process. It keeps no state of its own: the directories of
// the jobs are enough for a successor.
type supervisor struct {
	directory   string
	initCommand []string
	log         *log.Logger
	jobs        atomic.Int64

	mu   sync.Mutex
	busy int // jobs and connections
	idle chan struct{}
}

// Supervise runs the jobs of the node whose data is in a directory until no agent is connected and no job is left. It
// first adopts the jobs that a predecessor left. initCommand runs an init; the result is the exit code of the process.
func Supervise(directory string, initCommand []string) int {
	debug.SetGCPercent(50)
	raiseFileLimit()
	s := &supervisor{
		directory: directory, initCommand: initCommand, log: log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds|log.LUTC),
		idle: make(chan struct{}),
	}
	lock, listener, err := s.takeOver()
	if err != nil {
		s.log.Print(err)
		return 1
	}
	defer lock.Close()
	s.adoptAll()
	go s.accept(listener)
	<-s.idle
	listener.Close()
	return 0
}

// raiseFileLimit lets a supervisor open what many jobs need.
func raiseFileLimit() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // fewer jobs fit if it fails
	}
}

// supervisorFiles is set by startSupervisor: file 3 is the lock, file 4 the listening socket.
const supervisorFiles = "WEIR_SUPERVISOR_FILES"

// takeOver gets the lock and the socket from the agent.
func (s *supervisor) takeOver() (lock *os.File, listener net.Listener, err error) {
	if os.Getenv(supervisorFiles) == "" {
		return nil, nil, errors.New("an agent starts the supervisor, people do not")
	}
	os.Unsetenv(supervisorFiles)
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	lock = os.NewFile(3, supervisorLock)
	socket := os.NewFile(4, supervisorSocket)
	defer socket.Close()
	if listener, err = net.FileListener(socket); err != nil {
		lock.Close()
		return nil, nil, fmt.Errorf("socket of the supervisor: %w", err)
	}
	s.busy = 1 // the agent that started it
	return lock, listener, nil
}

// begin and end count what keeps the supervisor alive.
func (s *supervisor) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
}

func (s *supervisor) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 {
		close(s.idle)
	}
}

// accept serves agents. The first connection is that of the agent that started the supervisor, which counts already.
func (s *supervisor) accept(listener net.Listener) {
	for first := true; ; first = false {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		if !first {
			s.begin()
		}
		go func() {
			defer s.end()
			defer conn.Close()
			s.talk(conn)
		}()
	}
}

// request is one line from an agent: a job to start, or nothing to learn whether the supervisor is ready. The answer is a
// line with an error, or with nothing.
type request struct {
	Start string `json:"start"`
}

type answer struct {
	Error string `json:"error,omitempty"`
}

func (s *supervisor) talk(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	answers := json.NewEncoder(conn)
	for lines.Scan() {
		var r request
		err := json.Unmarshal(lines.Bytes(), &r)
		if err == nil && r.Start != "" {
			err = s.start(r.Start)
		}
		var a answer
		if err != nil {
			a.Error = err.Error()
		}
		if answers.Encode(a) != nil {
			return
		}
	}
}

// start runs a job that an agent has described. A job that has been started is not started again, which is no error: an
// agent that got no answer from a supervisor that died asks its successor.
func (s *supervisor) start(job string) error {
	if job == "" || strings.ContainsAny(job, "/\x00") || job[0] == '.' {
		return fmt.Errorf("start job: %q cannot name a directory", job)
	}
	dir := filepath.Join(s.directory, jobsDir, job)
	lock, err := lockDirectory(dir)
	if errors.Is(err, ErrAlive) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start job %s: %w", job, err)
	}
	if exists(dir, stateFile) || exists(dir, resultFile) {
		lock.Close()
		return nil
	}
	listener, err := relisten(dir)
	if err != nil {
		lock.Close()
		return fmt.Errorf("start job %s: %w", job, err)
	}
	p := s.proxy(dir)
	p.timings.ProxyStarted = time.Now()
	s.run(p, lock, func() error {
		defer listener.Close()
		return p.run(listener)
	})
	return nil
}

// proxy makes a proxy inside the supervisor.
func (s *supervisor) proxy(dir string) *proxy {
	logger := log.New(&lateFile{path: filepath.Join(dir, logFile)}, "", log.LstdFlags|log.Lmicroseconds|log.LUTC)
	p := newProxy(dir, logger)
	p.hosted, p.initCommand = true, s.initCommand
	p.neighbours = s.jobs.Load
	return p
}

// run lets a proxy work on its own goroutine until its job has ended. If it panics, only this job is lost: the lock is
// released without a result, and the agent ends what is left of it.
func (s *supervisor) run(p *proxy, lock *os.File, work func() error) {
	s.begin()
	s.jobs.Add(1)
	go func() {
		defer s.end()
		defer s.jobs.Add(-1)
		defer lock.Close()
		defer p.release()
		defer func() {
			if reason := recover(); reason != nil {
				s.log.Printf("job in %s: panic: %v\n%s", p.dir, reason, debug.Stack())
			}
		}()
		if err := work(); err != nil {
			s.log.Printf("job in %s: %v", p.dir, err)
		}
	}()
}

// release closes what a proxy in a process of its own leaves to the kernel.
func (p *proxy) release() {
	if p.own != nil {
		p.own.close()
	}
	if p.stopOOM != nil {
		p.stopOOM()
	}
	if p.alarm != nil {
		p.alarm.close()
	}
	if p.init != nil {
		p.init.file.Close()
	}
	if file, ok := p.log.Writer().(*lateFile); ok {
		file.close()
	}
}

// lateFile is a log that is made when there is something to write: for most jobs there is nothing.
type lateFile struct {
	path string
	file *os.File
}

// Write appends to the file.
func (l *lateFile) Write(text []byte) (int, error) {
	if l.file == nil {
		file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return 0, err
		}
		l.file = file
	}
	return l.file.Write(text)
}

func (l *lateFile) close() {
	if l.file != nil {
		l.file.Close()
	}
}
