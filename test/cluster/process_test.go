package cluster

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a daemon of the program under test.
type process struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	log   *logFile
}

// logFile stores the output of a daemon.
type logFile struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// inNamespace returns a command line that runs a program in a network namespace; an empty one means the
// machine's. The program has the id of the started process. Unlike ip netns exec, it leaves mounts
// alone.
func inNamespace(namespace, program string, args ...string) []string {
	words := append([]string{program}, args...)
	if namespace == "" {
		return words
	}
	return append([]string{"nsenter", "--net=/run/netns/" + namespace, "--"}, words...)
}

// runIn starts the program in a network namespace. The caller must end it.
func runIn(t testing.TB, namespace, name string, log *logFile, args ...string) *process {
	t.Helper()
	return runWords(t, name, log, inNamespace(namespace, programs.weir, args...))
}

// runWords starts a command line that becomes the program.
func runWords(t testing.TB, name string, log *logFile, words []string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(words[0], words[1:]...), ended: make(chan struct{}), log: log}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = environment()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // jobs do not hold the output open, but a bug might
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the outcome is in ProcessState
		close(p.ended)
	}()
	return p
}

// environment returns the test's environment without the variables that configure the program.
func environment() (kept []string) {
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "WEIR_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Process.Signal(s) // it may have just ended
	}
}

// stop asks the process to end, and waits.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.await()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && code != 130 {
		p.t.Errorf("%s ended with %v\n%s", p.name, p.cmd.ProcessState, tail(p.log.String(), 4000))
	}
}

// await waits until the process has ended.
func (p *process) await() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end\n%s", p.name, tail(p.log.String(), 4000))
	}
}

// kill kills the process and waits.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.await()
}

func tail(text string, most int) string {
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// showLog prints the output of a daemon if the test failed or logs are requested.
func showLog(t testing.TB, name string, log *logFile) {
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("WEIR_LOGS") != "" {
			t.Logf("%s said:\n%s", name, tail(log.String(), 30_000))
		}
	})
}

// writeFile writes a file into a directory of a test and returns its name.
func writeFile(t testing.TB, directory, name, text string) string {
	t.Helper()
	path := filepath.Join(directory, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
