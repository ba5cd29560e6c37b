package jobinit

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Flags of the processes that a pod gets beside its command.
const (
	SessionFlag    = "--session"
	EndSessionFlag = "--end-session"
)

// sessionVariable marks the processes of a session: they inherit it.
const sessionVariable = "WEIR_SESSION"

// SessionReady is written to standard output before the session's command runs, so that the caller knows that it does.
const SessionReady = '\x06'

// Session becomes a process in the container of a pod, beside the job's command. The arguments are
//
//	ID [--env NAME=VALUE]... [--] COMMAND [ARGUMENT...]
//
// It returns only if the command cannot be started.
func Session(arguments []string) int {
	environment, command, err := readSession(arguments, os.Environ())
	if err != nil {
		complain(err)
		return podWrongCall
	}
	path := ""
	for _, entry := range environment {
		if value, found := strings.CutPrefix(entry, "PATH="); found {
			path = value
		}
	}
	program, err := findProgram(command[0], path)
	unix.Write(1, []byte{SessionReady})
	if err != nil {
		complain(err)
		return podNotFound
	}
	complain(step(program, syscall.Exec(program, command, environment)))
	return podNotExecutable
}

func readSession(arguments, environment []string) (_, command []string, err error) {
	const usage = "weir-pod " + SessionFlag + ": want ID [--env NAME=VALUE]... [--] COMMAND [ARGUMENT...]"
	if len(arguments) < 2 {
		return nil, nil, errors.New(usage)
	}
	environment = append(without(environment, sessionVariable), sessionVariable+"="+arguments[0])
	arguments = arguments[1:]
	for len(arguments) > 1 && arguments[0] == "--env" {
		name, _, found := strings.Cut(arguments[1], "=")
		if !found || name == "" {
			return nil, nil, errors.New(usage)
		}
		environment = append(without(environment, name), arguments[1])
		arguments = arguments[2:]
	}
	if len(arguments) > 0 && arguments[0] == "--" {
		arguments = arguments[1:]
	}
	if len(arguments) == 0 {
		return nil, nil, errors.New(usage)
	}
	return environment, arguments, nil
}

// without removes a variable from an environment.
func without(environment []string, name string) (kept []string) {
	for _, entry := range environment {
		if !strings.HasPrefix(entry, name+"=") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// EndSession ends the processes of a session: container runtimes leave them behind when nobody is connected any more. A
// process that starts while they are listed is found in the next round.
func EndSession(arguments []string) int {
	if len(arguments) != 1 || arguments[0] == "" {
		complain(errors.New("weir-pod " + EndSessionFlag + ": want ID"))
		return podWrongCall
	}
	mark := []byte(sessionVariable + "=" + arguments[0])
	const rounds = 10
	for range rounds {
		ended := false
		entries, err := os.ReadDir("/proc")
		if err != nil {
			complain(err)
			return podNotExecutable
		}
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil || pid == os.Getpid() || pid == 1 {
				continue
			}
			text, _ := os.ReadFile("/proc/" + entry.Name() + "/environ") // it may be gone, or another user's
			for variable := range bytes.SplitSeq(text, []byte{0}) {
				if bytes.Equal(variable, mark) && unix.Kill(pid, unix.SIGKILL) == nil {
					ended = true
				}
			}
		}
		if !ended {
			break
		}
	}
	return 0
}
