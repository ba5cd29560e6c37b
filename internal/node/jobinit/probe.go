package jobinit

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// Cause is why jobs are isolated less than fully.
type Cause uint8

// Causes. The first two are decisions of people, the others are what the machine refuses.
const (
	NoCause      Cause = iota // they are isolated fully
	Configured                // the settings of the node ask for less
	NotRoot                   // the agent does not run as root
	NoNamespaces              // the machine makes no namespaces
	NoMounts                  // the machine makes no mounts in them
	NoUsers                   // the machine does not change to the users of jobs
	NoFilter                  // the machine does not take privileges away
	OtherCause
)

var causeNames = [...]string{"", "configured", "not_root", "no_namespaces", "no_mounts", "no_users", "no_filter", "other"}

// String returns the name of the cause; it is empty for NoCause.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// Unavailable is the error that explains why a machine cannot isolate jobs in a way.
type Unavailable struct {
	Cause Cause
	Err   error // the details
}

func (u *Unavailable) Error() string { return u.Cause.String() + ": " + u.Err.Error() }

func (u *Unavailable) Unwrap() error { return u.Err }

// Probe starts a command that does nothing, as jobs are started: at a level and, unless uid is zero, as that user. The
// error is an *Unavailable if the machine refuses that. command runs an init; directory is an empty directory of the
// caller's.
func Probe(command []string, level Level, uid uint32, directory string) error {
	plan := &Plan{
		Level: level, HostName: "job-probe", UserNamespace: os.Getuid() != 0 && level != None, SharedMemory: 1 << 20,
		Root: directory + "/root", Sandbox: directory + "/sandbox", Temporary: directory + "/tmp",
		Args: []string{"/bin/sh", "-c", ":"}, Dir: directory + "/sandbox",
	}
	if level == Full {
		plan.Dir = SandboxPath
	}
	for _, path := range []string{plan.Root, plan.Sandbox, plan.Temporary} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	}
	if uid != 0 {
		plan.ChangeUser, plan.UID, plan.GID = true, uid, uid
		if err := os.Chown(plan.Sandbox, int(uid), int(uid)); err != nil {
			return &Unavailable{NoUsers, err}
		}
	}
	exit, err := os.Create(directory + "/exit")
	if err != nil {
		return err
	}
	defer exit.Close()
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer nothing.Close()
	var ids *IDMap
	if plan.UserNamespace {
		ids = &IDMap{UID: os.Getuid(), GID: os.Getgid()}
	}
	started, err := Launch(command, plan, ids, Files{Exit: exit, Stdin: nothing, Stdout: nothing, Stderr: nothing})
	if err != nil {
		return &Unavailable{causeOfLaunch(level, err), err}
	}
	defer func() {
		syscall.Close(started.Handle)
		_, err := syscall.Wait4(started.PID, nil, 0, nil)
		for err == syscall.EINTR {
			_, err = syscall.Wait4(started.PID, nil, 0, nil)
		}
	}()
	if err := started.Run(plan); err != nil {
		return &Unavailable{causeOf(err), explainEntry(err, plan)}
	}
	return nil
}

// explainEntry says why a job cannot enter its directory. Only the levels above none give it another way to it.
func explainEntry(err error, plan *Plan) error {
	var refused *os.SyscallError
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Syscall, stepEnter) || !errors.Is(err, syscall.EACCES) {
		return err
	}
	closed, problem := closedAbove(plan.Sandbox)
	if problem != nil || closed == "" {
		return err
	}
	return errors.New("jobs run as other users, whom " + closed + " does not let pass: chmod o+x " + closed + ", use another data_dir, or a higher level: " + err.Error())
}

// causeOfLaunch tells a machine that makes no namespaces from one that cannot run the init.
func causeOfLaunch(level Level, err error) Cause {
	if level == None || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOEXEC) {
		return OtherCause
	}
	return NoNamespaces
}

// causeOf classifies the step of an init that failed.
func causeOf(err error) Cause {
	var refused *os.SyscallError
	if !errors.As(err, &refused) {
		return OtherCause
	}
	switch step := refused.Syscall; {
	case step == stepLeaveGroups || step == stepChangeGroup || step == stepChangeUser:
		return NoUsers
	case step == stepHideGroups:
		return NoNamespaces
	case step == stepGiveUp || step == stepForbid || step == stepFilter:
		return NoFilter
	case strings.HasPrefix(step, ExecuteStep) || strings.HasPrefix(step, stepEnter):
		return OtherCause
	}
	return NoMounts
}
