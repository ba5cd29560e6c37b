package jobinit

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// PodFlag is the argument that makes an init the first process of a pod.
const PodFlag = "--pod"

// Exit codes of an init that could not start its command, as shells have them.
const (
	podWrongCall     = 2
	podNotExecutable = 126
	podNotFound      = 127
	podSignalBase    = 128 // added to the number of the signal that ended the command
)

// Pod is an init that is the first process of a pod and has no privileges. The arguments are
//
//	[--result FILE] [--interruption-signal NAME] [--] COMMAND [ARGUMENT...]
//
// It runs the command in a session of its own, passes its output on, forwards signals to it, and reaps whatever is left
// to it. The command gets the interruption signal instead of SIGTERM, by which Kubernetes ends pods. When the command ends, it ends what the command left behind, writes the outcome and statistics to the file, and
// returns the command's exit code, or 128 and the number of the signal that ended it.
func Pod(arguments []string) int {
	result, interruption, command, err := readPodArguments(arguments)
	if err != nil {
		complain(err)
		return podWrongCall
	}
	// From here on signals are for the command. Those that arrive before it runs wait in the channel.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	program, err := findProgram(command[0], os.Getenv("PATH"))
	if err != nil {
		complain(err)
		return podNotFound
	}
	streams := [2]podStream{{to: 1}, {to: 2}}
	var writers [2]int
	for i := range streams {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			complain(step("pipe", err))
			return podNotExecutable
		}
		streams[i].from, writers[i] = ends[0], ends[1]
	}
	pid, err := syscall.ForkExec(program, command, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, uintptr(writers[0]), uintptr(writers[1])}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	for _, writer := range writers {
		unix.Close(writer)
	}
	if err != nil {
		complain(step(program, err))
		return podNotExecutable
	}
	go forward(signals, pid, interruption)
	var copies sync.WaitGroup
	for i := range streams {
		copies.Go(streams[i].copy)
	}
	end := wait(pid)
	// Processes that the command left hold the pipes open.
	left := -pid
	if os.Getpid() == 1 {
		left = -1
	}
	unix.Kill(left, unix.SIGKILL)
	copies.Wait()
	if result != "" {
		if err := writeFile(result, describePod(end.Status, streams)); err != nil {
			complain(err)
		}
	}
	if end.Status.Signaled() {
		return podSignalBase + int(end.Status.Signal())
	}
	return end.Status.ExitStatus()
}

func readPodArguments(arguments []string) (result string, interruption syscall.Signal, command []string, err error) {
	const usage = "want [--result FILE] [--interruption-signal NAME] [--] COMMAND [ARGUMENT...]"
	interruption = syscall.SIGTERM
	for len(arguments) > 0 && strings.HasPrefix(arguments[0], "--") {
		flag := arguments[0]
		if flag == "--" {
			arguments = arguments[1:]
			break
		}
		if flag != "--result" && flag != "--interruption-signal" || len(arguments) == 1 {
			return "", 0, nil, errors.New("weir-init " + PodFlag + ": unknown or incomplete flag " + flag + "; " + usage)
		}
		if value := arguments[1]; flag == "--result" {
			result = value
		} else if interruption = unix.SignalNum("SIG" + strings.TrimPrefix(value, "SIG")); interruption == 0 {
			return "", 0, nil, errors.New("weir-init " + PodFlag + ": " + value + " is no signal")
		}
		arguments = arguments[2:]
	}
	if len(arguments) == 0 {
		return "", 0, nil, errors.New("weir-init " + PodFlag + ": the command is missing")
	}
	return result, interruption, arguments, nil
}

// findProgram finds a program as a shell does.
func findProgram(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for directory := range strings.SplitSeq(path, ":") {
		if directory == "" {
			directory = "."
		}
		candidate := directory + "/" + name
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && unix.Access(candidate, unix.X_OK) == nil {
			return candidate, nil
		}
	}
	return "", errors.New(name + ": there is no such program in PATH")
}

// forward passes signals on to the command and its process group, with the interruption signal instead of SIGTERM.
func forward(signals <-chan os.Signal, pid int, interruption syscall.Signal) {
	for s := range signals {
		switch s {
		case syscall.SIGTERM:
			unix.Kill(-pid, interruption)
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE: // they are for this process
		default:
			unix.Kill(-pid, s.(syscall.Signal))
		}
	}
}

// podStream is an output stream of the command.
type podStream struct {
	from, to int
	bytes    int64
}

// copy passes the stream on until all its writers are gone. If nobody reads it any more, it is read to its end, so that
// the command does not wait.
func (s *podStream) copy() {
	defer unix.Close(s.from)
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(s.from, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		s.bytes += int64(n)
		for data := buffer[:n]; len(data) > 0 && s.to >= 0; {
			written, err := unix.Write(s.to, data)
			switch {
			case err == unix.EINTR:
			case err != nil:
				s.to = -1
			default:
				data = data[written:]
			}
		}
	}
}

// describePod returns the outcome of a command as JSON.
func describePod(status syscall.WaitStatus, streams [2]podStream) []byte {
	var usage unix.Rusage
	unix.Getrusage(unix.RUSAGE_CHILDREN, &usage) // all processes that were waited for
	code, killedBy := status.ExitStatus(), 0
	if status.Signaled() {
		code, killedBy = podSignalBase+int(status.Signal()), int(status.Signal())
	}
	text := []byte("{")
	for i, field := range []struct {
		name  string
		value int64
	}{
		{"exit_code", int64(code)}, {"signal", int64(killedBy)},
		{"user_time_us", usage.Utime.Nano() / 1000}, {"system_time_us", usage.Stime.Nano() / 1000}, {"max_memory_bytes", usage.Maxrss << 10},
		{"stdout_bytes", streams[0].bytes}, {"stderr_bytes", streams[1].bytes},
	} {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = strconv.AppendInt(append(text, `"`+field.name+`": `...), field.value, 10)
	}
	return append(text, "}\n"...)
}

// writeFile makes the file appear complete. A file that cannot be replaced, such as the termination message of a container,
// is overwritten.
func writeFile(name string, data []byte) error {
	err := os.WriteFile(name+".new", data, 0o644)
	if err == nil {
		if err = os.Rename(name+".new", name); err == nil {
			return nil
		}
		os.Remove(name + ".new")
	}
	return os.WriteFile(name, data, 0o644)
}

func complain(err error) { os.Stderr.WriteString(err.Error() + "\n") }
