package jobproxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
)

// initPatience is how long an init may need to notice that its command has ended.
const initPatience = 5 * time.Second

// initProcess is the init of a job: a child of this process, or of a supervisor that has died.
type initProcess struct {
	pid  int
	file *os.File // of the process; it always means the same one
	gone chan struct{}
	peak int64 // the greatest resident size, known when it is gone to its parent
}

// followInit watches an init until it has ended. handle is a descriptor of the process, which initProcess owns.
func followInit(pid, handle int) (*initProcess, error) {
	if err := unix.SetNonblock(handle, true); err != nil {
		unix.Close(handle)
		return nil, fmt.Errorf("init of the job: %w", err)
	}
	i := &initProcess{pid: pid, file: os.NewFile(uintptr(handle), "init"), gone: make(chan struct{})}
	raw, err := i.file.SyscallConn()
	if err != nil {
		i.file.Close()
		return nil, fmt.Errorf("init of the job: %w", err)
	}
	go func() {
		defer close(i.gone)
		_ = raw.Read(func(fd uintptr) bool { // it fails when the file is closed
			ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return err == nil && ready > 0
		})
		_ = raw.Control(func(fd uintptr) { // only a parent may wait; for others there is nothing to wait for
			var usage unix.Rusage
			if unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, &usage) == nil {
				i.peak = usage.Maxrss << 10
			}
		})
	}()
	return i, nil
}

// kill ends the init and, with namespaces, everything in them.
func (i *initProcess) kill() {
	_ = unix.PidfdSendSignal(int(i.file.Fd()), unix.SIGKILL, nil, 0) // it may have ended meanwhile
}

// level is how far the job is isolated.
func (p *proxy) level() jobinit.Level {
	if p.job.Isolation == nil {
		return jobinit.None
	}
	return p.job.Isolation.Level
}

// startInit starts the job's init, records it, and lets it start the command.
func (p *proxy) startInit() error {
	streams, err := p.openStreams()
	defer closeAll(streams)
	if err != nil {
		return err
	}
	exit, err := os.OpenFile(filepath.Join(p.dir, exitFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("end of the job: %w", err)
	}
	defer exit.Close()
	// The init inherits the lock and holds it as long as it lives.
	if err := unix.Flock(int(exit.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("end of the job: %w", err)
	}
	entrances, err := p.container.Entrances()
	if err != nil {
		return err
	}
	defer entrances.Close()
	var volumes []*os.File
	plan := p.plan(&entrances)
	if p.usesRuntime() {
		if err := p.useRuntime(plan); err != nil {
			return err
		}
	}
	for _, v := range slices.Concat(p.sandbox.volumes, p.sandbox.binds) {
		if v.mount != nil {
			volumes, plan.Volumes = append(volumes, v.mount), append(plan.Volumes, v.inside)
		}
	}
	files := jobinit.Files{
		Exit: exit, Stdin: streams[0], Stdout: streams[1], Stderr: streams[2],
		KeptStdout: p.reading["stdout"], KeptStderr: p.reading["stderr"], Group: entrances.Group, Entrances: entrances.Files, Volumes: volumes,
	}
	var ids *jobinit.IDMap
	if plan.UserNamespace {
		ids = &jobinit.IDMap{UID: os.Getuid(), GID: os.Getgid()}
	}
	started, err := jobinit.Launch(p.initCommand, plan, ids, files)
	if err != nil {
		return fmt.Errorf("init of the job: %w", err)
	}
	if p.init, err = followInit(started.PID, started.Handle); err != nil {
		started.Drop()
		return err
	}
	p.root = started.PID
	// A job whose init is not recorded must not run: a supervisor that took over could not find it.
	if err := p.recordInit(); err != nil {
		started.Drop()
		return err
	}
	if err := started.Run(plan); err != nil {
		return fmt.Errorf("%w: %w", whoseFault(err), err)
	}
	for _, v := range slices.Concat(p.sandbox.volumes, p.sandbox.binds) {
		if v.mount != nil {
			v.mount.Close()
		}
	}
	if p.container.Mode() == cgroup.ProcessLimits {
		if p.command = commandOf(p.init.pid); p.command != 0 {
			return p.container.Place(p.command)
		}
	}
	return nil
}

// meetInit looks at the init for the first time. A job that ends at once never comes here: to look at a process in /proc
// costs more than the rest of what the supervisor does for such a job.
func (p *proxy) meetInit() {
	if p.init == nil || p.met {
		return
	}
	p.met = true
	if err := p.own.add(strconv.Itoa(p.init.pid), one); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Print(err)
	}
	if p.command == 0 {
		p.command = commandOf(p.init.pid)
	}
}

// Why an init did not start the command.
var (
	errSurroundings = errors.New("the surroundings of the job cannot be made")
	errCommand      = errors.New("the command cannot be started")
)

// whoseFault tells a program that cannot be executed from everything else, which a job has no part in.
func whoseFault(err error) error {
	var refused *os.SyscallError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Syscall, jobinit.ExecuteStep) {
		return errCommand
	}
	return errSurroundings
}

// plan is what the init has to do.
func (p *proxy) plan(entrances *cgroup.Entrances) *jobinit.Plan {
	dir, _ := p.directories()
	plan := &jobinit.Plan{
		Level: p.level(), HostName: hostName(p.job.JobID), UserNamespace: os.Getuid() != 0 && p.level() != jobinit.None,
		Root: filepath.Join(p.dir, rootDir), Sandbox: p.sandbox.path, Temporary: p.sandbox.temporary, OOMScore: cgroup.StartOOMScore,
		Args: append(p.shell(), p.script()), Env: p.environment(), Dir: dir, Group: entrances.Group != nil, Entrances: len(entrances.Files),
		Devices: p.gpuDevices(), Binds: p.gpuMounts(),
		Limits: resourceLimits(p.job.GPUs != nil && len(p.job.GPUs.IDs) > 0),
	}
	if c := p.job.Credential; c != nil {
		plan.ChangeUser, plan.UID, plan.GID = true, c.UID, c.GID
	}
	if i := p.job.Isolation; i != nil {
		plan.ReadOnly, plan.Writable, plan.Hide = i.ReadOnly, i.Writable, i.Hide
		plan.SharedMemory, plan.AllowPtrace, plan.NoNetwork = i.SharedMemory, i.AllowPtrace, i.NoNetwork
	}
	p.addImage(plan)
	return plan
}

// Limits of a job's processes, if the node's own are not lower.
const (
	maxOpenFiles    = 65536
	maxLockedMemory = 64 << 10 // without GPUs, whose drivers lock much
)

// resourceLimits are the limits of a job's processes. No process can raise them again. They are never above the node's own, which
// only some nodes may raise.
func resourceLimits(gpus bool) []jobinit.ResourceLimit {
	list := []jobinit.ResourceLimit{{Resource: unix.RLIMIT_CORE}} // crashes of jobs must not fill the disk
	for _, l := range []jobinit.ResourceLimit{{Resource: unix.RLIMIT_NOFILE, Hard: maxOpenFiles}, {Resource: unix.RLIMIT_MEMLOCK, Hard: maxLockedMemory}} {
		var own unix.Rlimit
		if unix.Getrlimit(l.Resource, &own) != nil {
			continue // the job has the node's
		}
		if gpus && l.Resource == unix.RLIMIT_MEMLOCK || own.Max < l.Hard {
			l.Hard = own.Max
		}
		l.Soft = l.Hard
		list = append(list, l)
	}
	return list
}

// hostName is the name of the machine as the job sees it.
func hostName(job string) string {
	first, _, _ := strings.Cut(job, "-")
	return "job-" + first[:min(len(first), 32)]
}

// recordInit writes down which process is the job's init, and that the job runs, which it will the next moment.
func (p *proxy) recordInit() error {
	p.phase, p.timings.ExecStarted = Running, time.Now()
	return writeJSON(p.dir, stateFile, p.state(p.timings.ExecStarted), false)
}

// commandOf finds the child of an init, which starts only one; zero if it has ended. The init forks on its first thread,
// unless it is the whole program that plays this role. To list a directory of /proc is expensive: the kernel makes an
// entry of its cache for every name, and clears them one by one when the process ends.
func commandOf(init int) int {
	tasks := "/proc/" + strconv.Itoa(init) + "/task/"
	if pid := childOf(tasks + strconv.Itoa(init)); pid != 0 {
		return pid
	}
	threads, _ := os.ReadDir(tasks)
	for _, thread := range threads {
		if pid := childOf(tasks + thread.Name()); pid != 0 {
			return pid
		}
	}
	return 0
}

// childOf returns the first child of a thread; zero if it has none.
func childOf(thread string) int {
	text, err := os.ReadFile(thread + "/children")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	pid, _ := strconv.Atoi(first) // zero for an empty text
	return pid
}

// signalCommand sends a signal to the job's first process only.
func (p *proxy) signalCommand(signal syscall.Signal) {
	if p.init == nil {
		_ = unix.Kill(p.root, signal) // it has not been waited for, so the pid is still its own
		return
	}
	if p.meetInit(); p.command == 0 {
		return
	}
	handle, err := unix.PidfdOpen(p.command, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(handle)
	if commandOf(p.init.pid) == p.command {
		_ = unix.PidfdSendSignal(handle, signal, nil, 0)
	}
}

// initEnded reads how the command ended from what its init wrote.
func (p *proxy) initEnded() {
	if p.status != nil {
		return
	}
	exit, err := jobinit.ReadExit(filepath.Join(p.dir, exitFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Print(err)
	}
	p.timings.ExecFinished = time.Now()
	if exit == nil {
		p.end(Aborted, ProxyFailed, newError(CodeGeneric, "the init of the job died"))
		return
	}
	p.status = &exit.Status
	p.rusage.Maxrss = exit.ResidentPeak
	p.rusage.Utime, p.rusage.Stime = unix.NsecToTimeval(exit.UserTime*1000), unix.NsecToTimeval(exit.SystemTime*1000)
}

// awaitInit waits for the end of the init after its processes have been killed. An init that does not notice, because
// it was stopped, is killed as well.
func (p *proxy) awaitInit() {
	ctx, cancel := context.WithTimeout(context.Background(), initPatience)
	defer cancel()
	select {
	case <-p.init.gone:
	case <-ctx.Done():
		p.warn("the init of the job did not end by itself")
		p.init.kill()
		<-p.init.gone
	}
	p.initEnded()
	p.init.file.Close()
	if !p.met {
		p.memory.maxProxy = max(p.memory.maxProxy, p.init.peak)
	}
}

func closeAll(files []*os.File) {
	for _, file := range files {
		if file != nil {
			file.Close()
		}
	}
}
