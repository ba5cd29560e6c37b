package jobproxy

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/value/cpumonitor"
)

// Periods of a proxy.
const (
	defaultWatchdogPeriod = time.Second
	firstLook             = 10 * time.Millisecond // after the start; later samples are further and further apart, up to the period
	firstRecord           = time.Second           // after the start, the proxy reports what the job uses
	statePeriod           = 10 * time.Second      // and then periodically
	idleStatePeriod       = time.Minute           // while nothing but time passes
	killPatience          = 30 * time.Second      // after which the proxy logs that processes do not end
	streamPatience        = 5 * time.Second       // for streams that a process outside the container holds open
)

// shrinkDelays are when, after the start, the proxy shrinks its memory: short jobs end before that, and the first
// record of the job's usage needs memory again.
var shrinkDelays = []time.Duration{300 * time.Millisecond, firstRecord + 300*time.Millisecond}

// proxy runs one job. All fields belong to the goroutine of Main, which is locked to one thread: mounts, and the
// command's death signal, belong to that thread. While the command runs, Main lends the fields to watch and only
// waits.
type proxy struct {
	dir string
	job *Description
	log *log.Logger

	driver    cgroup.Driver
	container cgroup.Container
	sandbox   *sandbox
	own       *ownMemory
	memory    *memoryWatch
	monitor   *cpumonitor.Monitor // nil without
	used      cgroup.Usage
	glanced   cgroup.Usage // the last sample, unmodified
	stirred   bool         // a process of the job has run since the last record
	oomScores oomScores

	board    *board
	orders   chan Order
	entries  chan *entering
	sessions atomic.Int32 // that the job has; any goroutine may write it
	signals  chan os.Signal
	oom      <-chan struct{}
	stopOOM  func()
	alarm    *alarm

	hosted      bool          // in a supervisor, beside other jobs
	neighbours  func() int64  // how many jobs this process serves
	initCommand []string      // runs an init
	init        *initProcess  // nil without
	met         bool          // the proxy has looked at the init
	initUser    time.Duration // CPU time of the init, as of the last look
	initSystem  time.Duration
	command     int // the first process of a job with an init; zero if it ended at once

	phase        Phase
	timings      Timings
	warnings     []string
	root         int // the command's process, or the init's; zero before
	status       *syscall.WaitStatus
	rusage       unix.Rusage
	cause        *ending
	interruption *interruption
	streams      []*keeper
	drained      []<-chan struct{}
	reading      map[string]*os.File // the reading ends of streams, by name

	shrinks                         int           // how often it has shrunk
	look                            time.Duration // until the next memory sample
	nextMemory, nextCPU, nextRecord time.Time
	nextDisk                        time.Time      // zero while the disk is measured, and without a limit
	diskUsage                       chan diskUsage // what a measurement found
}

// InitCommand is the argument that makes this program an init, if there is no smaller program for that.
const InitCommand = "job-init"

func newProxy(dir string, logger *log.Logger) *proxy {
	return &proxy{
		dir: dir, log: logger, board: newBoard(), orders: make(chan Order, 16), entries: make(chan *entering), phase: Preparing, reading: map[string]*os.File{}, neighbours: one,
		diskUsage: make(chan diskUsage, 1),
	}
}

// hasInit reports whether the job runs under an init. Alone in its process, a proxy is its command's parent itself
// unless the job is to be isolated.
func (p *proxy) hasInit() bool { return p.hosted || p.job.Isolation != nil }

// Main runs the job described in a directory to its end, and returns the exit code of the process: zero if there is a
// result, however the job ended.
func Main(dir string) int {
	runtime.LockOSThread() // permanently
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(16 << 20)
	logger := log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds|log.LUTC)
	p := newProxy(dir, logger)
	p.initCommand = []string{"/proc/self/exe", InitCommand}
	p.timings.ProxyStarted = time.Now()
	lock, listener, err := takeOver(dir)
	if err != nil {
		logger.Printf("job in %s: %v", dir, err)
		return 1
	}
	defer listener.Close()
	defer runtime.KeepAlive(lock) // the kernel releases it when the process has ended, not before
	// Orphans of the job are reparented to the proxy and not to an init process that might not wait for them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		logger.Printf("orphans of the job will go elsewhere: %v", err)
	}
	p.signals = make(chan os.Signal, 8)
	// Handlers, unlike ignored signals, are not inherited by the command.
	signal.Notify(p.signals, unix.SIGCHLD, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if err := p.run(listener); err != nil {
		logger.Printf("job in %s: %v", dir, err)
		return 1
	}
	return 0
}

// inheritedFiles is set by Launch: file 3 is the lock, file 4 the listening socket.
const inheritedFiles = "WEIR_JOB_PROXY_FILES"

// takeOver gets the lock and the socket from the agent, or makes them when the proxy is started by hand. It refuses a
// directory in which a job has already started.
func takeOver(dir string) (lock *os.File, listener net.Listener, err error) {
	inherited := os.Getenv(inheritedFiles) != ""
	if inherited {
		os.Unsetenv(inheritedFiles)
		syscall.CloseOnExec(3)
		syscall.CloseOnExec(4)
		lock = os.NewFile(3, lockFile)
	} else if lock, err = lockDirectory(dir); err != nil {
		return nil, nil, err
	}
	switch {
	case exists(dir, stateFile) || exists(dir, resultFile):
		err = errors.New("it has been started before")
	case inherited:
		socket := os.NewFile(4, socketFile)
		listener, err = net.FileListener(socket)
		socket.Close()
	default:
		listener, err = listen(dir)
	}
	if err != nil {
		lock.Close()
		return nil, nil, err
	}
	return lock, listener, nil
}

// ending is why and how the job ends, unless it ends by itself.
type ending struct {
	outcome Outcome
	reason  string // of an abort
	err     *Error
}

// end records why the job ends. The first reason wins.
func (p *proxy) end(outcome Outcome, reason string, err *Error) {
	if p.cause == nil {
		p.cause = &ending{outcome, reason, err}
	}
}

func (p *proxy) run(listener net.Listener) error {
	job, err := ReadDescription(p.dir)
	if err != nil { // the agent still waits for an answer
		p.job = &Description{JobID: filepath.Base(p.dir)}
		p.memory = newMemoryWatch(Memory{}, 0, time.Now())
		p.end(Aborted, OtherReason, newError(CodeNotPrepared, err.Error()))
		return p.finish(func() {})
	}
	p.job, p.timings.Accepted = job, job.AcceptedAt
	p.memory = newMemoryWatch(job.Memory, len(job.Tmpfs), p.timings.ProxyStarted)
	ctx, cancel := context.WithCancel(context.Background())
	if limit := time.Duration(job.PrepareTimeLimit); limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	done := make(chan struct{})
	control := &controller{
		listener: listener, board: p.board, orders: p.orders, entries: p.entries, done: done, connections: map[net.Conn]struct{}{},
		arrived: func(o Order) {
			if o.Command != Measure { // all others make further preparation pointless
				cancel()
			}
		},
	}
	p.publish(true)
	control.serving.Go(control.serve)

	p.prepare(ctx)
	p.takeOrders()
	if p.cause == nil {
		p.start()
	}
	if p.cause == nil {
		// On another goroutine: a goroutine locked to its thread costs two thread switches each time it wakes up.
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			p.watch()
		}()
		<-watched
	}
	return p.finish(func() { close(done); control.stop() })
}

// prepare creates the container and the sandbox.
func (p *proxy) prepare(ctx context.Context) {
	var err error
	if p.own, err = openOwnMemory(p.neighbours); err == nil {
		p.alarm, err = newAlarm()
	}
	if err != nil {
		p.end(Aborted, OtherReason, newError(CodeNotPrepared, err.Error()))
		return
	}
	if p.driver, err = p.openDriver(); err == nil {
		p.container, err = p.driver.Create(p.job.JobID, cgroup.Limits{
			CPU: p.cpu(p.job.CPULimit), Memory: p.job.Container.MemoryLimit, Processes: p.job.Container.ProcessLimit, Devices: p.deviceRules(),
		})
	}
	if err == nil {
		p.oom, p.stopOOM, err = p.container.WatchOOM()
	}
	if err != nil {
		p.end(Aborted, OtherReason, newError(CodeNotPrepared, "container of the job: "+err.Error()))
		return
	}
	if p.job.CPUMonitor != nil {
		if p.monitor, err = cpumonitor.New(*p.job.CPUMonitor, p.job.CPULimit); err != nil {
			p.warn("%v", err)
		}
	}
	if p.monitor != nil {
		p.board.keepHistory(p.monitor.History)
	}
	var warnings []string
	p.sandbox, warnings, err = prepare(ctx, p.dir, p.job, p.hasInit())
	p.warnings = append(p.warnings, warnings...)
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled): // by an order that is on its way; an unprepared job must not start
		p.order(<-p.orders)
	default:
		p.endUnprepared(err)
	}
}

// openDriver finds the means that the agent contains jobs with.
func (p *proxy) openDriver() (cgroup.Driver, error) {
	if p.job.Container.Mode == cgroup.ProcessLimits {
		return cgroup.NewProcessLimits(p.job.Container.Parent)
	}
	return cgroup.Use(p.job.Container.Parent)
}

// endUnprepared ends a job that could not start. If the machine is to blame, the job is aborted and another node may
// succeed; otherwise it would end the same way everywhere, and it fails.
func (p *proxy) endUnprepared(err error) {
	if isNodesFault(err) {
		p.end(Aborted, OtherReason, newError(CodeNotPrepared, err.Error()))
		return
	}
	p.end(Failed, "", newError(CodeNotPrepared, err.Error()))
}

func (p *proxy) cpu(guarantee float64) cgroup.CPU {
	cpu := cgroup.CPU{Guarantee: guarantee}
	if p.job.SetContainerCPULimit {
		cpu.Limit = p.job.CPULimit
	}
	return cpu
}

// start runs the command.
func (p *proxy) start() {
	run := p.startAsChild
	if p.hasInit() {
		run = p.startInit
	}
	if err := run(); err != nil {
		if p.init != nil {
			p.init.kill()
			<-p.init.gone
			p.init.file.Close()
		}
		p.root, p.init, p.phase, p.timings.ExecStarted = 0, nil, Preparing, time.Time{}
		p.endUnprepared(err)
		return
	}
	now := time.Now()
	p.timings.ExecStarted, p.phase = now, Running
	p.memory.last = now
	p.look, p.nextMemory = firstLook, now.Add(firstLook)
	p.watchDisk(now)
	if p.monitor != nil {
		p.nextCPU = p.monitor.FirstCheck(now)
	}
	p.publish(true)
}

// startAsChild runs the command as a child of this process.
func (p *proxy) startAsChild() error {
	files, err := p.openStreams()
	defer closeAll(files)
	if err != nil {
		return err
	}
	command := cgroup.Command{
		Args: append(p.shell(), p.script()), Env: p.environment(), Dir: p.sandbox.path, Files: files,
	}
	if c := p.job.Credential; c != nil {
		command.Credential = &syscall.Credential{Uid: c.UID, Gid: c.GID}
	}
	p.root, err = cgroup.Start(p.container, command)
	return err
}

// openStreams returns the command's ends of its standard streams, and starts to copy the data that passes through
// them.
func (p *proxy) openStreams() (files []*os.File, err error) {
	stdin, err := p.openStdin()
	if err != nil {
		return nil, fmt.Errorf("stdin of the job: %w", err)
	}
	files = append(files, stdin, nil, nil)
	if files[2], err = p.keep("stderr", p.job.MaxStderrSize); err != nil {
		return files[:1], err
	}
	switch {
	case p.job.RedirectStdoutToStderr:
		files[1], err = duplicate(files[2])
	case p.job.KeepStdout:
		files[1], err = p.keep("stdout", p.job.MaxStdoutSize)
	default:
		files[1], err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err != nil {
		return []*os.File{files[0], files[2]}, fmt.Errorf("stdout of the job: %w", err)
	}
	return files, nil
}

func (p *proxy) openStdin() (*os.File, error) {
	switch {
	case p.job.StdinPath != "":
		return os.Open(p.job.StdinPath)
	case len(p.job.Stdin) == 0:
		return os.Open(os.DevNull)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	data := p.job.Stdin
	p.job.Stdin = nil // it is not needed again
	go func() {
		write.Write(data) // a command may leave its input unread
		write.Close()
	}()
	return read, nil
}

func (p *proxy) keep(name string, limit int64) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%s of the job: %w", name, err)
	}
	k := newKeeper(p.dir, name, limit)
	p.streams = append(p.streams, k)
	p.reading[name] = read
	p.drained = append(p.drained, drain(read, k))
	return write, nil
}

func duplicate(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

func (p *proxy) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.log.Print(text)
	p.warnings = append(p.warnings, text)
}

// recordDue reports whether it is time to write and publish the state although nothing in particular has happened.
func (p *proxy) recordDue(now time.Time) bool {
	return !now.Before(p.nextRecord) && (p.stirred || now.Sub(p.nextRecord) >= idleStatePeriod-statePeriod)
}

// publish updates the state for clients. If the change matters, publish writes the state to disk and notifies
// watchers; otherwise the statistics stay unchanged.
func (p *proxy) publish(matters bool) {
	if !matters {
		p.board.update(p.showUse)
		return
	}
	now := time.Now()
	p.stirred = false
	state := p.state(now)
	p.nextRecord = now.Add(statePeriod)
	if p.phase == Running && now.Sub(p.timings.ExecStarted) < firstRecord {
		p.nextRecord = p.timings.ExecStarted.Add(firstRecord)
	}
	// A job in a supervisor is recorded when it gets its init. Its start is part of that, and its end is in the exit file.
	isRecorded := p.hosted && (p.init == nil || p.phase == Finishing || now.Sub(p.timings.ExecStarted) < firstLook)
	if p.phase != Finished && !isRecorded {
		if err := writeJSON(p.dir, stateFile, state, false); err != nil {
			p.log.Printf("state: %v", err)
		}
	}
	p.board.show(state)
}

// state is what the proxy knows about the job.
func (p *proxy) state(now time.Time) State {
	state := State{
		Version: DescriptionVersion, JobID: p.job.JobID, Phase: p.phase, ProxyPID: os.Getpid(), RootPID: p.root,
		Mode: p.job.Container.Mode, Timings: p.timings, Statistics: p.statistics(now), Warnings: p.warnings,
	}
	p.showUse(&state)
	if i := p.interruption; i != nil {
		state.InterruptionReason, state.InterruptionDeadline = i.reason, i.deadline
		state.InterruptionMessage, state.InterruptionFails = i.message, i.failing
	}
	if p.init != nil {
		state.InitPID = p.init.pid
	}
	return state
}

// showUse fills in what the job holds and uses.
func (p *proxy) showUse(state *State) {
	state.RequestedMemory, state.CPULimit = p.memory.requested, hundredths(p.job.CPULimit)
	state.UserMemory, state.TmpfsUsage, state.ProxyMemory = p.memory.now.user, p.memory.now.tmpfs(), p.memory.now.proxy
	if p.command != 0 {
		state.RootPID = p.command
	}
	state.OOMScoreAdj = 0
	if p.oomScores.above {
		state.OOMScoreAdj = p.job.Memory.OOMScoreAdj
	}
	if p.monitor != nil {
		state.SmoothedCPU = p.monitor.Statistics().SmoothedUsageX100
		if p.monitor.Options().EnableReclaim {
			state.CPULimit = hundredths(p.monitor.Limit())
		}
	}
}

// hundredths of a core, rounded once.
func hundredths(cores float64) int64 { return int64(cores*100 + 0.5) }
