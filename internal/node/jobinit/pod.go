package jobinit

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// PodFlag is the argument that makes an init the first process of a pod.
const PodFlag = "--pod"

// Exit codes of an init that could not start its command, as shells have them.
const (
	podWrongCall     = 2
	podNotPrepared   = 125
	podNotExecutable = 126
	podNotFound      = 127
	podSignalBase    = 128 // added to the number of the signal that ended the command
)

// PodFiles is what an init does with files. Its functions may be nil.
type PodFiles struct {
	// Environment is that of the command.
	Environment []string
	// Prepare brings files before the command starts. A pod that is asked to end meanwhile ends at once.
	Prepare func() error
	// Keep stores files after the command has ended; the text that it returns, JSON, becomes the member "artifacts" of the
	// outcome. asked reports whether the pod was asked to end.
	Keep func(completed, asked bool) string
}

// Pod is an init that is the first process of a pod and has no privileges. The arguments are
//
//	[--result FILE] [--interruption-signal NAME] [--kill-after SECONDS] [--time-limit DURATION] [--memory-limit BYTES] [--] COMMAND [ARGUMENT...]
//
// It runs the command in a session of its own, passes its output on, forwards signals to it, and reaps whatever is left
// to it. The command gets the interruption signal instead of SIGTERM, by which Kubernetes ends pods, and is killed if it
// still runs when the time for that has passed, when it has run for the time limit, or when the container uses more memory than the limit. When the command ends, the init ends what
// the command left behind, writes the outcome and statistics to the file, and returns the command's exit code, or 128 and the number of the signal that ended it.
func Pod(arguments []string, files PodFiles) int {
	call, command, err := readPodArguments(arguments)
	if err != nil {
		complain(err)
		return podWrongCall
	}
	// From here on signals are for the command. Those that arrive before it runs wait in the channel.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	if files.Prepare != nil {
		if err := prepare(files.Prepare, signals); err != nil {
			complain(err)
			call.report(append(appendJSON([]byte(`{"exit_code": `+strconv.Itoa(podNotPrepared)+`, "unprepared": `), cut(err.Error())), "}\n"...))
			return podNotPrepared
		}
	}
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
		Env: files.Environment, Files: []uintptr{0, uintptr(writers[0]), uintptr(writers[1])}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	for _, writer := range writers {
		unix.Close(writer)
	}
	if err != nil {
		complain(step(program, err))
		return podNotExecutable
	}
	done := make(chan struct{})
	go call.memory.watch(pid, done)
	var late atomic.Bool
	if call.timeLimit > 0 {
		limit := time.AfterFunc(call.timeLimit, func() {
			late.Store(true)
			unix.Kill(-pid, unix.SIGKILL)
		})
		defer limit.Stop()
	}
	var asked atomic.Bool
	go call.forward(signals, pid, &asked)
	var copies sync.WaitGroup
	for i := range streams {
		copies.Go(streams[i].copy)
	}
	end := wait(pid)
	close(done)
	// Processes that the command left hold the pipes open.
	left := -pid
	if os.Getpid() == 1 {
		left = -1
	}
	unix.Kill(left, unix.SIGKILL)
	copies.Wait()
	kept := ""
	if files.Keep != nil {
		kept = files.Keep(end.Status.Exited() && end.Status.ExitStatus() == 0, asked.Load())
	}
	call.report(describePod(end.Status, streams, &call.memory, late.Load() && end.Status.Signaled(), kept))
	if end.Status.Signaled() {
		return podSignalBase + int(end.Status.Signal())
	}
	return end.Status.ExitStatus()
}

// errAsked means that a pod was asked to end before its command started.
var errAsked = errors.New("the pod was asked to end before its command started")

// prepare brings files, unless the pod is asked to end.
func prepare(bring func() error, signals <-chan os.Signal) error {
	done := make(chan error, 1)
	go func() { done <- bring() }()
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT {
				return errAsked
			}
		}
	}
}

// cut shortens a text for the termination message of a container, of which Kubernetes keeps 4096 bytes.
func cut(text string) string { return text[:min(len(text), 2000)] }

// appendJSON appends a text in quotation marks.
func appendJSON(to []byte, text string) []byte {
	to = append(to, '"')
	for _, r := range strings.ToValidUTF8(text, "?") {
		switch {
		case r == '"' || r == '\\':
			to = append(to, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			to = append(to, ' ')
		default:
			to = append(to, string(r)...)
		}
	}
	return append(to, '"')
}

// podCall is what the arguments of an init of a pod say.
type podCall struct {
	result       string
	interruption syscall.Signal
	killAfter    time.Duration // zero: the kubelet does that
	timeLimit    time.Duration // of the command; zero: none
	memory       podMemory
}

// report writes the outcome.
func (c *podCall) report(text []byte) {
	if c.result == "" {
		return
	}
	if err := writeFile(c.result, text); err != nil {
		complain(err)
	}
}

func readPodArguments(arguments []string) (c *podCall, command []string, err error) {
	c = &podCall{}
	const usage = "want [--result FILE] [--interruption-signal NAME] [--kill-after SECONDS] [--time-limit DURATION] [--memory-limit BYTES] [--] COMMAND [ARGUMENT...]"
	c.interruption, c.memory.root = syscall.SIGTERM, groupsPath
	for len(arguments) > 0 && strings.HasPrefix(arguments[0], "--") {
		flag := arguments[0]
		if flag == "--" {
			arguments = arguments[1:]
			break
		}
		value := ""
		if len(arguments) > 1 {
			value = arguments[1]
		}
		switch {
		case flag == "--result" && value != "":
			c.result = value
		case flag == "--interruption-signal" && value != "":
			if c.interruption = unix.SignalNum("SIG" + strings.TrimPrefix(value, "SIG")); c.interruption == 0 {
				return c, nil, errors.New("weir-pod " + PodFlag + ": " + value + " is no signal")
			}
		case flag == "--kill-after" && value != "":
			seconds, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return c, nil, errors.New("weir-pod " + PodFlag + ": --kill-after: " + value + " is no number of seconds")
			}
			c.killAfter = time.Duration(seconds) * time.Second
		case flag == "--time-limit" && value != "":
			if c.timeLimit, err = time.ParseDuration(value); err != nil {
				return c, nil, errors.New("weir-pod " + PodFlag + ": --time-limit: " + value + " is no duration")
			}
		case flag == "--memory-limit" && value != "":
			if c.memory.limit, err = strconv.ParseInt(value, 10, 64); err != nil {
				return c, nil, errors.New("weir-pod " + PodFlag + ": --memory-limit: " + value + " is no number of bytes")
			}
		case flag == "--control-group" && value != "": // for tests
			c.memory.root = value
		default:
			return c, nil, errors.New("weir-pod " + PodFlag + ": unknown or incomplete flag " + flag + "; " + usage)
		}
		arguments = arguments[2:]
	}
	if len(arguments) == 0 {
		return c, nil, errors.New("weir-pod " + PodFlag + ": the command is missing")
	}
	return c, arguments, nil
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
func (c *podCall) forward(signals <-chan os.Signal, pid int, asked *atomic.Bool) {
	for s := range signals {
		switch s {
		case syscall.SIGTERM:
			unix.Kill(-pid, c.interruption)
			if !asked.Swap(true) && c.killAfter > 0 {
				time.AfterFunc(c.killAfter, func() { unix.Kill(-pid, unix.SIGKILL) })
			}
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

// describePod returns the outcome of a command as JSON, with what became of its files. late means that it was ended at its
// time limit.
func describePod(status syscall.WaitStatus, streams [2]podStream, memory *podMemory, late bool, kept string) []byte {
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
		{"user_time_us", usage.Utime.Nano() / 1000}, {"system_time_us", usage.Stime.Nano() / 1000}, {"max_memory_bytes", max(usage.Maxrss<<10, memory.peak.Load())},
		{"stdout_bytes", streams[0].bytes}, {"stderr_bytes", streams[1].bytes},
	} {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = strconv.AppendInt(append(text, `"`+field.name+`": `...), field.value, 10)
	}
	if used := memory.exceeded.Load(); used > 0 {
		text = append(strconv.AppendInt(append(text, `, "memory_exceeded_bytes": `...), used, 10), `, "processes": `+*memory.processes.Load()...)
	}
	if late {
		text = append(text, `, "time_limit_exceeded": true`...)
	}
	if kept != "" {
		text = append(text, `, "artifacts": `+kept...)
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
