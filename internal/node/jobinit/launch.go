package jobinit

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors of an init. Launch opens them in this order.
const (
	planFile   = 3
	reportFile = 4
	exitFile   = 5
	stdinFile  = 6
	stdoutFile = 7
	stderrFile = 8
	// KeptStdout and KeptStderr are the reading ends of the command's output, which an init keeps for a successor of
	// its parent.
	KeptStdout = 9
	KeptStderr = 10
	groupFile  = 11 // the group of version 2, if there is one
	moreFiles  = 12 // entrances to control groups, then mounts of volumes, then namespaces to enter
)

// Files are what an init gets from its parent.
type Files struct {
	Exit                   *os.File // where it records the end of the command
	Stdin, Stdout, Stderr  *os.File
	KeptStdout, KeptStderr *os.File // nil if the stream is not kept
	// Group is the directory of a control group of version 2 that the command starts in; nil without one. Entrances are
	// files of groups of version 1, which it enters by writing into them.
	Group     *os.File
	Entrances []*os.File
	Volumes   []*os.File
	// Namespaces are those of a running job that the command joins. Such an init ends with its parent.
	Namespaces []*os.File
}

// Init is a started init that may still wait for its plan.
type Init struct {
	PID int
	// Handle is a descriptor of the process; the caller closes it.
	Handle int

	plan, report *os.File
}

// IDMap maps one user and one group of the machine to themselves in a user namespace.
type IDMap struct{ UID, GID int }

// Launch starts an init with the namespaces that its plan needs; with a map it gets a user namespace too. The init does
// nothing until Run sends it the plan, and ends if Run is never called.
func Launch(command []string, plan *Plan, ids *IDMap, files Files) (*Init, error) {
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	planRead, planWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer planRead.Close()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		planWrite.Close()
		return nil, err
	}
	defer reportWrite.Close()
	// Fd makes a file blocking, as the init and the command expect theirs.
	all := []uintptr{
		nothing.Fd(), nothing.Fd(), nothing.Fd(), planRead.Fd(), reportWrite.Fd(), files.Exit.Fd(),
		files.Stdin.Fd(), files.Stdout.Fd(), files.Stderr.Fd(), nothing.Fd(), nothing.Fd(), nothing.Fd(),
	}
	if files.Group != nil {
		all[groupFile] = files.Group.Fd()
	}
	for i, kept := range []*os.File{files.KeptStdout, files.KeptStderr} {
		if kept == nil {
			continue
		}
		if all[KeptStdout+i], err = descriptor(kept); err != nil {
			planWrite.Close()
			reportRead.Close()
			return nil, err
		}
	}
	for _, list := range [][]*os.File{files.Entrances, files.Volumes, files.Namespaces} {
		for _, file := range list {
			all = append(all, file.Fd())
		}
	}
	i := &Init{plan: planWrite, report: reportRead, Handle: -1}
	attributes := &syscall.SysProcAttr{Setsid: true, PidFD: &i.Handle}
	if plan.Enter {
		attributes.Pdeathsig = syscall.SIGKILL
	}
	if plan.namespaces() && !plan.Enter {
		attributes.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	if plan.NoNetwork && !plan.Enter {
		attributes.Cloneflags |= syscall.CLONE_NEWNET
	}
	if ids != nil {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: ids.UID, HostID: ids.UID, Size: 1}}
		// A program of a user who is not 0 in the namespace starts without capabilities, but for ambient ones.
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_KILL}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: ids.GID, HostID: ids.GID, Size: 1}}
	}
	i.PID, _, err = syscall.StartProcess(command[0], command, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1", "GOGC=off"}, Files: all, Sys: attributes,
	})
	runtime.KeepAlive(&files)
	if err == nil && i.Handle < 0 {
		err = errors.New("the kernel has no descriptors of processes") // before Linux 5.4
	}
	if err != nil {
		planWrite.Close()
		reportRead.Close()
		return nil, &os.PathError{Op: "start", Path: command[0], Err: err}
	}
	return i, nil
}

// descriptor returns the number of an open file without changing how it is read.
func descriptor(file *os.File) (number uintptr, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(fd uintptr) { number = fd })
	return number, err
}

// Run sends the plan and waits until the command has started. The error says what failed, and has the kernel's error
// in it if that refused something.
func (i *Init) Run(plan *Plan) error {
	defer i.Drop()
	if _, err := i.plan.Write(plan.encode()); err != nil {
		return errors.New("the init of the job died before it started: " + err.Error())
	}
	i.plan.Close()
	message, err := io.ReadAll(i.report)
	switch {
	case err != nil:
		return err
	case len(message) == 0:
		return errors.New("the init of the job died before it started the command")
	case message[0] == reportStarted:
		return nil
	}
	number, text, _ := strings.Cut(string(message[1:]), " ")
	if errno, err := strconv.Atoi(number); err == nil && errno > 0 {
		return &os.SyscallError{Syscall: text, Err: syscall.Errno(errno)}
	}
	return errors.New(text)
}

// Drop ends an init that has not been given a plan. It is harmless for others.
func (i *Init) Drop() {
	i.plan.Close()
	i.report.Close()
}

// The first byte of an init's report.
const (
	reportStarted = 'k'
	reportFailed  = 'e'
)

// Exit is how a command ended.
type Exit struct {
	Status       syscall.WaitStatus
	UserTime     int64 // microseconds, of the command and the children it waited for
	SystemTime   int64
	ResidentPeak int64 // KiB
}

// encode returns an end as a line.
func (e *Exit) encode() []byte {
	text := strconv.AppendInt(nil, int64(e.Status), 10)
	for _, n := range []int64{e.UserTime, e.SystemTime, e.ResidentPeak} {
		text = strconv.AppendInt(append(text, ' '), n, 10)
	}
	return append(text, '\n')
}

// ReadExit reads how a command ended. It returns nil if its init did not record an end: it was killed.
func ReadExit(name string) (*Exit, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	line, rest, whole := strings.Cut(string(text), "\n")
	if !whole || rest != "" {
		return nil, nil
	}
	fields := strings.Fields(line)
	var numbers [4]int64
	if len(fields) != len(numbers) {
		return nil, errors.New(name + ": the end of the command is not four numbers")
	}
	for i, field := range fields {
		if numbers[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return nil, errors.New(name + ": " + err.Error())
		}
	}
	return &Exit{syscall.WaitStatus(numbers[0]), numbers[1], numbers[2], numbers[3]}, nil
}

// Stream returns a copy of a file of a running init: KeptStdout or KeptStderr. handle is a descriptor of the process.
func Stream(handle, descriptor int) (*os.File, error) {
	fd, err := unix.PidfdGetfd(handle, descriptor, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_getfd", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "output of a job"), nil
}
