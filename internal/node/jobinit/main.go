package jobinit

import (
	"errors"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stepError is the kernel's refusal of a step.
type stepError struct {
	step  string
	errno syscall.Errno
}

func (e *stepError) Error() string { return e.step + ": " + e.errno.Error() }

// step names what failed; nil stays nil.
func step(name string, err error) error {
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return errors.New(name + ": " + err.Error())
	}
	return &stepError{name, errno}
}

// Main is an init. It returns the exit code of the process when the command has ended.
func Main() int {
	runtime.LockOSThread() // the capabilities and the mask of signals belong to a thread
	plan, err := readPlan()
	if err != nil {
		fail(err)
		return 1
	}
	if plan == nil { // the parent gave up
		return 0
	}
	command, err := start(plan)
	if err != nil {
		fail(err)
		return 1
	}
	unix.Write(reportFile, []byte{reportStarted}) // a parent that has died needs no report
	for descriptor := planFile; descriptor < moreFiles+plan.files(); descriptor++ {
		if descriptor != exitFile && descriptor != KeptStdout && descriptor != KeptStderr {
			unix.Close(descriptor)
		}
	}
	if plan.namespaces() {
		keepOnlyKill()
	}
	var end *Exit
	if plan.Enter {
		end = waitForOnly()
	} else {
		end = wait(command)
	}
	if _, err := unix.Pwrite(exitFile, end.encode(), 0); err != nil {
		return 1
	}
	if plan.Enter { // nothing here is its own
		return 0
	}
	if plan.namespaces() {
		unix.Kill(-1, unix.SIGKILL) // everything in the namespace but this process
	}
	awaitReaders()
	return 0
}

// awaitReaders returns when the command's output has been read, or after a long time: what is still in a pipe is lost
// with its last reading end, which may be the one of this process while its parent is being replaced.
func awaitReaders() {
	const longest = 10 * 60 * 1000 // milliseconds
	for pause, waited := 1, 0; waited < longest; waited += pause {
		left := 0
		for _, stream := range []int{KeptStdout, KeptStderr} {
			if n, err := unix.IoctlGetInt(stream, unix.TIOCINQ); err == nil {
				left += n
			}
		}
		if left == 0 {
			return
		}
		unix.Poll(nil, pause)
		pause = min(2*pause, 100)
	}
}

// readPlan reads the plan; it is nil if the parent died or gave up.
func readPlan() (*Plan, error) {
	for descriptor := planFile; descriptor < moreFiles; descriptor++ {
		unix.CloseOnExec(descriptor)
	}
	var data []byte
	buffer := make([]byte, 16<<10)
	for {
		n, err := unix.Read(planFile, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, step("read the plan", err)
		}
		if n == 0 {
			break
		}
		data = append(data, buffer[:n]...)
	}
	if len(data) == 0 {
		return nil, nil
	}
	plan, err := decode(data)
	if err != nil {
		return nil, err
	}
	for i := range plan.files() {
		unix.CloseOnExec(moreFiles + i)
	}
	return plan, nil
}

// fail reports why the command did not start.
func fail(err error) {
	number, text := 0, err.Error()
	var refused *stepError
	if errors.As(err, &refused) {
		number, text = int(refused.errno), refused.step
	}
	unix.Write(reportFile, append(strconv.AppendInt([]byte{reportFailed}, int64(number), 10), " "+text...))
}

// start makes the surroundings and starts the command in them.
func start(p *Plan) (command int, err error) {
	switch {
	case p.Enter:
	case p.namespaces():
		err = p.surround()
	default:
		err = p.stay()
	}
	if err != nil {
		return 0, err
	}
	ignoreSignals()
	score, err := unix.Open("/proc/self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, step("open oom_score_adj", err)
	}
	defer unix.Close(score)
	// The command inherits the score of the init at its start. Where setting it is not permitted, the kernel chooses
	// whom to kill by size alone.
	var before [16]byte
	n, _ := unix.Pread(score, before[:], 0)
	unix.Pwrite(score, strconv.AppendInt(nil, int64(p.OOMScore), 10), 0)
	command, err = p.fork()
	unix.Pwrite(score, before[:max(n, 0)], 0)
	return command, err
}

// ignoreSignals keeps the init alive when somebody sends a signal to it. The command starts with the defaults again.
func ignoreSignals() {
	ignore := signalAction{handler: 1}
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE} {
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&ignore)), 0, signalSetSize, 0, 0)
	}
}

// keepOnlyKill gives up all capabilities but the one to end the job, in every thread of the init.
func keepOnlyKill() {
	kill := capabilitySets{{Effective: 1 << unix.CAP_KILL, Permitted: 1 << unix.CAP_KILL}}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	// It fails in a program with C code in it, which only tests are.
	syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&kill)), 0)
	runtime.KeepAlive(&header)
}

// capabilitySets are the low and the high half of a process's capabilities.
type capabilitySets [2]unix.CapUserData

// wait reaps everything until the command ends.
func wait(command int) *Exit {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, 0, &usage)
		if err == nil && pid == command {
			return exitOf(status, &usage)
		}
	}
}

// waitForOnly waits for the only child.
func waitForOnly() *Exit {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		if _, err := unix.Wait4(-1, &status, 0, &usage); err == nil {
			return exitOf(status, &usage)
		}
	}
}

func exitOf(status unix.WaitStatus, usage *unix.Rusage) *Exit {
	return &Exit{
		Status: syscall.WaitStatus(status), UserTime: usage.Utime.Nano() / 1000, SystemTime: usage.Stime.Nano() / 1000,
		ResidentPeak: usage.Maxrss,
	}
}
