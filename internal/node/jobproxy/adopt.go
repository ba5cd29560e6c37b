package jobproxy

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/cpumonitor"
)

// adoptAll takes over the jobs of a supervisor that has died. It returns when every job that can be taken over has a
// socket again; the rest is for the agent to clean up.
func (s *supervisor) adoptAll() {
	dirs, err := Scan(filepath.Join(s.directory, jobsDir))
	if err != nil {
		s.log.Print(err)
	}
	for _, dir := range dirs {
		if err := s.adopt(dir); err != nil {
			s.log.Printf("job in %s: %v", dir, err)
		}
	}
}

// adopt continues a job whose init lives, or which has ended since its supervisor died. It leaves alone a job that has a
// result, or a proxy of its own, or that never started.
func (s *supervisor) adopt(dir string) error {
	lock, err := lockIfThere(filepath.Join(dir, lockFile))
	if errors.Is(err, ErrAlive) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	state, err := ReadState(dir)
	if err != nil || exists(dir, resultFile) || state.InitPID == 0 {
		lock.Close()
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	p := s.proxy(dir)
	if err := p.resume(state); err != nil {
		p.release()
		lock.Close()
		return err
	}
	listener, err := relisten(dir)
	if err != nil {
		p.release()
		lock.Close()
		return err
	}
	s.run(p, lock, func() error {
		defer listener.Close()
		return p.goOn(listener)
	})
	return nil
}

// relisten makes a job's socket in place of one that a predecessor may have left.
func relisten(dir string) (*net.UnixListener, error) {
	if err := os.Remove(filepath.Join(dir, socketFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return listen(dir)
}

// goOn is run for a job that has started already.
func (p *proxy) goOn(listener net.Listener) error {
	done := make(chan struct{})
	control := &controller{
		listener: listener, board: p.board, orders: p.orders, entries: p.entries, done: done, connections: map[net.Conn]struct{}{}, arrived: func(Order) {},
	}
	p.publish(true)
	control.serving.Go(control.serve)
	p.watch()
	return p.finish(func() { close(done); control.stop() })
}

// resume restores what a predecessor knew of a job from its directory and from the kernel.
func (p *proxy) resume(state *State) (err error) {
	if p.job, err = ReadDescription(p.dir); err != nil {
		return err
	}
	p.job.Stdin = nil
	p.timings, p.warnings, p.root = state.Timings, state.Warnings, state.InitPID
	if state.RootPID != state.InitPID {
		p.command = state.RootPID
	}
	p.phase = Running
	if p.timings.ExecStarted.IsZero() { // it died while the init was at work
		p.timings.ExecStarted = time.Now()
	}
	p.warn("the supervisor of the node was replaced while the job ran")
	p.resumeMemory(state)
	if state.InterruptionReason != "" || state.InterruptionFails {
		p.interruption = &interruption{
			reason: state.InterruptionReason, message: state.InterruptionMessage, deadline: state.InterruptionDeadline, failing: state.InterruptionFails,
		}
	}
	if p.own, err = openOwnMemory(p.neighbours); err == nil {
		p.alarm, err = newAlarm()
	}
	if err == nil {
		err = p.resumeInit()
	}
	if err == nil {
		err = p.resumeContainer()
	}
	if err != nil {
		return err
	}
	p.sandbox = &sandbox{path: filepath.Join(p.dir, sandboxDir), temporary: filepath.Join(p.dir, temporaryDir), changes: changesOf(p.dir, p.job)}
	inside, _ := p.directories()
	process := p.command // the init's threads may have different views
	if process == 0 {
		process = p.init.pid
	}
	for _, v := range p.job.Tmpfs {
		// A volume that is gone with its namespace counts as empty.
		handle, _ := os.Open(filepath.Join("/proc", strconv.Itoa(process), "root", inside, v.Path))
		p.sandbox.volumes = append(p.sandbox.volumes, volume{path: filepath.Join(p.sandbox.path, v.Path), handle: handle})
	}
	return nil
}

// resumeMemory restores the maxima of the job's memory.
func (p *proxy) resumeMemory(state *State) {
	w := newMemoryWatch(p.job.Memory, len(p.job.Tmpfs), time.Now())
	last := func(path string) int64 {
		value, _ := findStatistic(state.Statistics, path)
		return value
	}
	w.maxUser, w.maxProxy, w.maxTmpfs = last("user_job/max_memory"), last("job_proxy/max_memory"), last("user_job/tmpfs_max_usage")
	for i := range w.maxVolumes {
		w.maxVolumes[i] = last(fmt.Sprintf("user_job/tmpfs_volumes/%d/max_size", i))
	}
	w.userTime = float64(last("user_job/cumulative_memory_mb_sec")) * (1 << 20)
	w.proxyTime = float64(last("job_proxy/cumulative_memory_mb_sec")) * (1 << 20)
	w.requested = max(w.requested, state.RequestedMemory)
	w.totalMax = max(w.totalMax, w.requested-w.promised.Ahead)
	w.now = memorySample{volumes: make([]int64, len(p.job.Tmpfs))}
	p.memory = w
}

// resumeInit finds the init and continues to read the command's output. If the init has ended, what it wrote about the
// end is all there is.
func (p *proxy) resumeInit() error {
	pid := p.root
	handle, err := openInit(p.dir, pid)
	if err != nil {
		return err
	}
	if handle < 0 {
		p.init = &initProcess{pid: pid, gone: make(chan struct{})}
		close(p.init.gone)
		return nil
	}
	if p.init, err = followInit(pid, handle); err != nil {
		return err
	}
	p.meetInit()
	if err := p.resumeStream("stderr", jobinit.KeptStderr, p.job.MaxStderrSize); err != nil {
		return err
	}
	if p.job.KeepStdout && !p.job.RedirectStdoutToStderr {
		return p.resumeStream("stdout", jobinit.KeptStdout, p.job.MaxStdoutSize)
	}
	return nil
}

// resumeStream continues to store a stream of the command.
func (p *proxy) resumeStream(name string, descriptor int, limit int64) error {
	raw, err := p.init.file.SyscallConn()
	if err != nil {
		return err
	}
	var read *os.File
	controlled := raw.Control(func(fd uintptr) { read, err = jobinit.Stream(int(fd), descriptor) })
	if err = errors.Join(err, controlled); err != nil {
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EBADF) {
			return nil // it has just ended
		}
		return fmt.Errorf("%s of the job: %w", name, err)
	}
	k := newKeeper(p.dir, name, limit)
	if err := k.resume(); err != nil {
		read.Close()
		return err
	}
	p.streams = append(p.streams, k)
	p.reading[name] = read
	p.drained = append(p.drained, drain(read, k))
	return nil
}

// resumeContainer opens the job's container and continues to watch it.
func (p *proxy) resumeContainer() (err error) {
	if p.driver, err = p.openDriver(); err != nil {
		return err
	}
	if p.container, err = p.driver.Open(p.job.JobID); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		p.container = nil // its last process ended, and without control groups nothing is left
	}
	now := time.Now()
	p.memory.last = now
	p.look, p.nextMemory = firstLook, now.Add(firstLook)
	p.watchDisk(now)
	if p.container == nil {
		return nil
	}
	if p.oom, p.stopOOM, err = p.container.WatchOOM(); err != nil {
		return err
	}
	if p.job.CPUMonitor != nil {
		if p.monitor, err = cpumonitor.New(*p.job.CPUMonitor, p.job.CPULimit); err != nil {
			p.warn("%v", err)
			return nil
		}
		p.board.keepHistory(p.monitor.History)
		p.nextCPU = p.monitor.FirstCheck(now)
	}
	return nil
}

// openInit returns a descriptor of a job's init; -1 if it has ended.
func openInit(dir string, pid int) (handle int, err error) {
	lock, err := lockIfThere(filepath.Join(dir, exitFile))
	if err == nil {
		lock.Close()
		return -1, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if !errors.Is(err, ErrAlive) {
		return -1, fmt.Errorf("init of the job: %w", err)
	}
	handle, err = unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH { // it has just ended
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("init of the job: %w", err)
	}
	return handle, nil
}

// killInit ends the init of a job that no proxy watches.
func killInit(dir string) error {
	state, err := ReadState(dir)
	if err != nil || state.InitPID == 0 {
		return nil // it has none
	}
	handle, err := openInit(dir, state.InitPID)
	if err != nil || handle < 0 {
		return err
	}
	defer unix.Close(handle)
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("init of the job: %w", err)
	}
	if err := awaitEnds(handle); err != nil {
		return fmt.Errorf("init of the job: %w", err)
	}
	return nil
}

// awaitEnds waits, for initPatience at most, until the processes of some handles have ended.
func awaitEnds(handles ...int) error {
	deadline := time.Now().Add(initPatience)
	for _, handle := range handles {
		for {
			poll := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
			_, err := unix.Poll(poll, int(max(0, time.Until(deadline)).Milliseconds()))
			if err == unix.EINTR { // by a signal of Go's scheduler, for instance
				continue
			}
			if err != nil {
				return os.NewSyscallError("poll", err)
			}
			break
		}
	}
	return nil
}
