package cgroup

import (
	"fmt"
	"os"
	"syscall"
)

// Command is what Start runs.
type Command struct {
	Args       []string // the program's path, then its arguments
	Env        []string
	Dir        string
	Files      []*os.File // stdin, stdout, stderr
	Credential *syscall.Credential
}

// shim is a shell that waits for a line before it becomes the command. If the process that should send the line dies,
// it exits. Core dumps are off: crashes of jobs must not fill the disk. A shell is the smallest program that every
// machine has; it needs a millisecond, where starting this program again needs ten.
const (
	shimShell  = "/bin/sh"
	shimScript = `ulimit -c 0; read -r WEIR_GO <&3 && unset WEIR_GO && exec 3<&- && exec "$@"; exit 126`
)

// Start runs a command as the leader of a new session, inside the container from its first instruction. The command
// gets SIGKILL when the thread that called Start ends, so the caller should be locked to a thread that lives as long as
// it does. The caller waits for the process.
func Start(c Container, command Command) (pid int, err error) {
	if len(command.Files) != 3 {
		return 0, fmt.Errorf("start in container %s: %d standard files, not 3", c.Name(), len(command.Files))
	}
	entrances, err := c.Entrances()
	if err != nil {
		return 0, fmt.Errorf("start in container %s: %w", c.Name(), err)
	}
	defer entrances.Close()
	gate, release, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("start in container %s: %w", c.Name(), err)
	}
	defer release.Close()
	shim := func(group *os.File) (*os.Process, error) {
		attributes := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: command.Credential}
		if group != nil {
			attributes.UseCgroupFD, attributes.CgroupFD = true, int(group.Fd())
		}
		return os.StartProcess(shimShell, append([]string{"sh", "-c", shimScript, "sh"}, command.Args...), &os.ProcAttr{
			Dir: command.Dir, Env: command.Env, Files: append(append([]*os.File{}, command.Files...), gate), Sys: attributes,
		})
	}
	process, err := shim(entrances.Group)
	isInside := err == nil && entrances.Group != nil && len(entrances.Files) == 0
	if err != nil && entrances.Group != nil { // the kernel is too old, or something around us refuses the call
		process, err = shim(nil)
	}
	gate.Close()
	if err != nil {
		return 0, fmt.Errorf("start in container %s: %w", c.Name(), err)
	}
	pid = process.Pid
	defer process.Release()
	if !isInside {
		err = c.Place(pid)
	}
	if err == nil {
		preferForOOM(pid)
		_, err = release.WriteString("\n")
	}
	if err != nil {
		process.Kill()
		syscall.Wait4(pid, nil, 0, nil)
		return 0, fmt.Errorf("start in container %s: %w", c.Name(), err)
	}
	return pid, nil
}
