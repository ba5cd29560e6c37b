package jobinit

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The child of a fork in a Go program may only make raw system calls: the other threads do not exist in it, and what
// they held stays locked. So everything that the child does is a list of calls, made before the fork; the child itself
// is a loop over them.

// call is a system call of the child.
type call struct {
	number    uintptr
	arguments [6]uintptr
	essential bool   // if it fails the command must not start
	forks     bool   // it makes a process, which makes the calls that follow; the process that made it ends
	name      string // for people
}

// calls is a list of system calls, with the memory that they point to.
type calls struct {
	list []call
	held []any
}

func (c *calls) add(name string, essential bool, number uintptr, arguments ...uintptr) {
	next := call{number: number, essential: essential, name: name}
	copy(next.arguments[:], arguments)
	c.list = append(c.list, next)
}

// must adds a call that has to succeed, try one that may fail.
func (c *calls) must(name string, number uintptr, arguments ...uintptr) {
	c.add(name, true, number, arguments...)
}

func (c *calls) try(name string, number uintptr, arguments ...uintptr) {
	c.add(name, false, number, arguments...)
}

// hold returns the address of a value, which stays where it is as long as the calls.
func hold[T any](c *calls, value T) uintptr {
	pointer := new(T)
	*pointer = value
	c.held = append(c.held, pointer)
	return uintptr(unsafe.Pointer(pointer))
}

// text returns the address of a text that ends with a zero byte.
func (c *calls) text(s string) uintptr {
	bytes := append([]byte(s), 0)
	c.held = append(c.held, bytes)
	return uintptr(unsafe.Pointer(&bytes[0]))
}

// texts returns the address of a list of texts that ends with a zero pointer.
func (c *calls) texts(list []string) uintptr {
	pointers := make([]uintptr, len(list)+1)
	for i, s := range list {
		pointers[i] = c.text(s)
	}
	c.held = append(c.held, pointers)
	return uintptr(unsafe.Pointer(&pointers[0]))
}

// signalAction is the kernel's struct sigaction; one of zeros is the default action.
type signalAction struct{ handler, flags, restorer, mask uintptr }

const (
	signalSetSize = 8
	lastSignal    = 64
	lastCap       = 63 // the kernel refuses those that it does not know
)

// ExecuteStep begins the name of the step that becomes the command. All steps before it are the node's business.
const ExecuteStep = "execute "

// Names of steps that Probe tells apart.
const (
	stepHideGroups  = "hide control groups"
	stepLeaveGroups = "leave groups"
	stepChangeGroup = "change the group"
	stepChangeUser  = "change the user"
	stepGiveUp      = "give up capabilities"
	stepEnter       = "enter the working directory "
	stepForbid      = "forbid new privileges"
	stepFilter      = "filter system calls"
)

// child lists what the command's process does before it becomes the command.
func (p *Plan) child(entrances []uintptr) *calls {
	c := &calls{}
	standard := hold(c, signalAction{})
	for signal := uintptr(1); signal <= lastSignal; signal++ {
		c.try("reset a signal", unix.SYS_RT_SIGACTION, signal, standard, 0, signalSetSize)
	}
	if p.Enter {
		p.join(c)
	}
	c.must("start a session", unix.SYS_SETSID)
	zero := c.text("0")
	for _, entrance := range entrances {
		c.must("enter a control group", unix.SYS_WRITE, entrance, zero, 1)
	}
	for target, source := range []uintptr{stdinFile, stdoutFile, stderrFile} {
		c.must("set standard streams", unix.SYS_DUP3, source, uintptr(target), 0)
	}
	if p.Terminal {
		c.must("take the terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	for _, limit := range p.Limits {
		value := hold(c, unix.Rlimit{Cur: limit.Soft, Max: limit.Hard})
		c.must("set a resource limit", unix.SYS_PRLIMIT64, 0, uintptr(limit.Resource), value, 0)
	}
	c.try("set the mask of files", unix.SYS_UMASK, 0o022)
	isolated := p.namespaces() && !p.Runtime // a runtime does all this itself, after it has used its privileges
	if isolated {
		c.must(stepHideGroups, unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)
		for capability := uintptr(0); capability <= lastCap; capability++ {
			c.try("empty the bounding set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		}
	}
	if p.ChangeUser && !p.Runtime {
		c.must(stepLeaveGroups, unix.SYS_SETGROUPS, 0, 0)
		c.must(stepChangeGroup, unix.SYS_SETRESGID, uintptr(p.GID), uintptr(p.GID), uintptr(p.GID))
		c.must(stepChangeUser, unix.SYS_SETRESUID, uintptr(p.UID), uintptr(p.UID), uintptr(p.UID))
	}
	if isolated {
		header := hold(c, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
		c.must(stepGiveUp, unix.SYS_CAPSET, header, hold(c, capabilitySets{}))
	}
	if p.Enter || !p.namespaces() {
		c.must("end with the init", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	}
	c.must(stepEnter+p.Dir, unix.SYS_CHDIR, c.text(p.Dir))
	if isolated {
		c.must(stepForbid, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		filter := seccompFilter(p.AllowPtrace)
		c.held = append(c.held, filter)
		program := hold(c, unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
		c.must(stepFilter, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, program)
	}
	c.try("let signals in", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, hold(c, uint64(0)), 0, signalSetSize)
	arguments, environment := c.texts(p.Args), c.texts(p.Env)
	c.must(ExecuteStep+p.Args[0], unix.SYS_EXECVE, c.text(p.Args[0]), arguments, environment)
	return c
}

// join lists how a process gets into the namespaces of a running job. A namespace of processes counts for children
// only, so the process makes another one. That is a child of the init as well, which waits for it.
func (p *Plan) join(c *calls) {
	for i, kind := range p.Namespaces {
		c.must("join a namespace of the job", unix.SYS_SETNS, uintptr(moreFiles+p.Entrances+len(p.Volumes)+i), uintptr(kind))
	}
	c.must("fork in the job", unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_PARENT, 0, 0, 0, 0)
	c.list[len(c.list)-1].forks = true
}

// refusal is what a child writes when a call fails that has to succeed.
type refusal struct {
	index uintptr
	errno uintptr
}

// cloneArguments is the kernel's struct clone_args, as of Linux 5.7.
type cloneArguments struct {
	flags      uint64
	_          [3]uint64 // handle and threads
	exitSignal uint64
	_          [5]uint64 // stack, thread-local storage, process ids
	group      uint64
}

// fork starts the command's process and returns when it has become the command. The process is inside the group of
// version 2 from its first instruction; where the kernel refuses that, and in the surroundings of a running job, it
// moves itself. A running job may have as many processes as its group allows: then none can be made inside, but one can
// move there.
func (p *Plan) fork() (pid int, err error) {
	var entrances []uintptr
	for i := range p.Entrances {
		entrances = append(entrances, uintptr(moreFiles+i))
	}
	if !p.Group {
		return p.forkBy(p.cloneCall(), entrances)
	}
	if !p.Enter {
		arguments := cloneArguments{flags: unix.CLONE_INTO_CGROUP | shareMemory, exitSignal: uint64(unix.SIGCHLD), group: groupFile}
		memory := &calls{}
		clone := &call{number: unix.SYS_CLONE3, arguments: [6]uintptr{hold(memory, arguments), unsafe.Sizeof(arguments)}}
		pid, err := p.forkBy(clone, entrances)
		runtime.KeepAlive(memory)
		var refused *stepError
		if err == nil || !errors.As(err, &refused) || refused.step != stepFork {
			return pid, err
		}
	}
	entrance, err := unix.Openat(groupFile, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, step("open the control group", err)
	}
	defer unix.Close(entrance)
	return p.forkBy(p.cloneCall(), append(entrances, uintptr(entrance)))
}

// shareMemory spares a child a copy of this program's memory, which it would throw away at once.
const shareMemory = unix.CLONE_VM | unix.CLONE_VFORK

// cloneCall forks without a control group. The child that enters a running job has a copy of the memory: it forks itself,
// and processes of the job, which are the same user's, run beside it.
func (p *Plan) cloneCall() *call {
	flags := uintptr(unix.SIGCHLD)
	if !p.Enter {
		flags |= shareMemory
	}
	return &call{number: unix.SYS_CLONE, arguments: [6]uintptr{flags}}
}

const stepFork = "fork"

// forkBy forks with a call, and lets the child enter control groups and become the command. It does not return the
// command's process if that joins the surroundings of a job.
func (p *Plan) forkBy(clone *call, entrances []uintptr) (pid int, err error) {
	todo := p.child(entrances)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, step("make a pipe", err)
	}
	defer unix.Close(pipe[0])
	message := new(refusal)
	// A signal that arrived in the child would run a handler of this program there.
	all, before := ^uint64(0), uint64(0)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), signalSetSize, 0, 0)
	child, errno := forkAndMake(clone, todo.list, message, uintptr(pipe[1]))
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, signalSetSize, 0, 0)
	runtime.KeepAlive(todo)
	unix.Close(pipe[1])
	if errno != 0 {
		return 0, step(stepFork, errno)
	}
	var answer refusal
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(&answer)), unsafe.Sizeof(answer))
	n, err := unix.Read(pipe[0], buffer)
	for err == unix.EINTR {
		n, err = unix.Read(pipe[0], buffer)
	}
	if err == nil && n == len(buffer) {
		var status unix.WaitStatus
		unix.Wait4(int(child), &status, 0, nil)
		return 0, &stepError{todo.list[answer.index].name, syscall.Errno(answer.errno)}
	}
	if p.Enter { // the child was a helper; from now on, the command is the only child
		for {
			if _, err := unix.Wait4(int(child), nil, 0, nil); err != unix.EINTR {
				return 0, nil
			}
		}
	}
	return int(child), nil
}

// vfork makes a call that forks. The child may share the memory and the stack of its parent, which then waits until the
// child has become another program or has ended: what the child changes in the caller's frame, its parent finds changed.
//
//go:noescape
func vfork(number, first, second uintptr) (pid, errno uintptr)

// forkAndMake forks. The child makes the calls and never returns; it allocates nothing and needs no more stack.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func forkAndMake(clone *call, list []call, message *refusal, pipe uintptr) (pid uintptr, errno syscall.Errno) {
	pid, refused := vfork(clone.number, clone.arguments[0], clone.arguments[1])
	if refused != 0 || pid != 0 {
		return pid, syscall.Errno(refused)
	}
	for i := range list {
		c := &list[i]
		pid, _, errno = syscall.RawSyscall6(c.number, c.arguments[0], c.arguments[1], c.arguments[2], c.arguments[3], c.arguments[4], c.arguments[5])
		if errno != 0 && c.essential {
			message.index, message.errno = uintptr(i), uintptr(errno)
			break
		}
		for c.forks && pid != 0 {
			syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
		}
	}
	syscall.RawSyscall6(unix.SYS_WRITE, pipe, uintptr(unsafe.Pointer(message)), unsafe.Sizeof(*message), 0, 0, 0)
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 126, 0, 0, 0, 0, 0)
	}
}
