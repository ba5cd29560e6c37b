package jobinit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// TestMain makes this program an init of a pod, or of a session in one, when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case PodFlag:
			os.Exit(Pod(os.Args[2:], filesOfTests()))
		case SessionFlag:
			os.Exit(Session(os.Args[2:]))
		case EndSessionFlag:
			os.Exit(EndSession(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// filesOfTests pretends to bring and keep files as variables of the test say.
func filesOfTests() PodFiles {
	files := PodFiles{Environment: os.Environ()}
	switch text := os.Getenv("WEIR_TEST_PREPARE"); text {
	case "":
	case "wait":
		files.Prepare = func() error { os.Stdout.WriteString("preparing\n"); select {} }
	default:
		files.Prepare = func() error { return errors.New(text) }
	}
	if os.Getenv("WEIR_TEST_KEEP") != "" {
		files.Keep = func(completed, asked bool) string {
			return `{"completed": ` + strconv.FormatBool(completed) + `, "asked": ` + strconv.FormatBool(asked) + `}`
		}
	}
	return files
}

// pod is an init in a process namespace where it is process 1, without privileges outside it.
func pod(arguments ...string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", append([]string{PodFlag}, arguments...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	return command
}

func TestAPodPassesOnOutputAndCountsWhatItsCommandUsed(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	command := pod("--result", result, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 3 || out.String() != "out\n" || errs.String() != "err\n" {
		t.Errorf("%v, %q, %q", err, &out, &errs)
	}
	var got struct {
		ExitCode    int   `json:"exit_code"`
		Signal      int   `json:"signal"`
		UserTime    int64 `json:"user_time_us"`
		Memory      int64 `json:"max_memory_bytes"`
		StdoutBytes int64 `json:"stdout_bytes"`
		StderrBytes int64 `json:"stderr_bytes"`
	}
	data, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &got); err != nil || got.ExitCode != 3 || got.Signal != 0 || got.StdoutBytes != 4 || got.StderrBytes != 4 || got.Memory < 100<<10 {
		t.Errorf("%v: %s", err, data)
	}
}

// The time limit is that of the command: bringing its image and files does not count.
func TestAPodEndsItsCommandAtTheTimeLimit(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	var ended *exec.ExitError
	if err := pod("--result", result, "--time-limit", "50ms", "--", "sh", "-c", "sleep 1000; true").Run(); !errors.As(err, &ended) || ended.ExitCode() != podSignalBase+int(syscall.SIGKILL) {
		t.Errorf("%v", err)
	}
	if data, err := os.ReadFile(result); err != nil || !strings.Contains(string(data), `"time_limit_exceeded": true`) {
		t.Errorf("%v: %s", err, data)
	}
	if err := pod("--result", result, "--time-limit", "1000s", "--", "true").Run(); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(result); err != nil || strings.Contains(string(data), "time_limit") {
		t.Errorf("%v: %s", err, data)
	}
	if err := pod("--time-limit", "soon", "true").Run(); !errors.As(err, &ended) || ended.ExitCode() != podWrongCall {
		t.Errorf("no duration: %v", err)
	}
}

func TestAPodSendsTheInterruptionSignalInsteadOfSIGTERM(t *testing.T) {
	command := pod("--interruption-signal", "SIGUSR1", "--", "sh", "-c", `trap 'exit 9' USR1; trap 'exit 8' TERM; echo ready; while :; do sleep 0.01; done`)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := command.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 9 {
		t.Errorf("%v", err)
	}
	if err := pod("--interruption-signal", "SIGNONE", "true").Run(); !errors.As(err, &ended) || ended.ExitCode() != podWrongCall {
		t.Errorf("a signal that does not exist: %v", err)
	}
}

func TestAPodForwardsSignals(t *testing.T) {
	command := pod("sh", "-c", `trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done`)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	_, _ = rest.ReadFrom(out)
	var ended *exec.ExitError
	if err := command.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 7 || !strings.Contains(rest.String(), "asked") {
		t.Errorf("%v, %q", err, &rest)
	}
}

func TestAPodReapsAndLeavesNothingBehind(t *testing.T) {
	// The daemon has a session of its own and holds the output open; the orphans become the init's children.
	command := pod("sh", "-c", `setsid sleep 7654 & for i in 1 2 3 4 5; do (sh -c 'exit 0' &) ; done; echo ready; read line; kill -9 $$`)
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Errorf("%q, %v", line, err)
	}
	if !expected.Soon(func() bool { return len(zombiesOf(command.Process.Pid)) == 0 }) {
		t.Errorf("zombies: %v", zombiesOf(command.Process.Pid))
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	var ended *exec.ExitError
	if err := command.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 128+9 {
		t.Errorf("%v", err)
	}
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if text, _ := os.ReadFile(name); string(text) == "sleep\x007654\x00" {
			t.Errorf("%s is left", name)
		}
	}
}

// zombiesOf returns the children of a process that nobody has waited for.
func zombiesOf(pid int) (list []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, _ := os.ReadFile(name) // it may be gone
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[0] == "Z" && fields[1] == strconv.Itoa(pid) {
			list = append(list, name)
		}
	}
	return list
}

func TestAPodThatCannotStartItsCommandSaysWhy(t *testing.T) {
	for _, test := range []struct {
		arguments []string
		code      int
		words     string
	}{
		{nil, 2, "the command is missing"},
		{[]string{"--"}, 2, "the command is missing"},
		{[]string{"--result"}, 2, "--result"},
		{[]string{"--nonsense", "true"}, 2, "--nonsense"},
		{[]string{"no-such-program-here"}, 127, "no such program in PATH"},
		{[]string{"/dev/null"}, 126, "/dev/null: permission denied"},
	} {
		out, err := pod(test.arguments...).CombinedOutput()
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != test.code || !strings.Contains(string(out), test.words) {
			t.Errorf("%q: %v, %s", test.arguments, err, out)
		}
	}
}

func TestAPodWhoseFilesCannotBeBroughtSaysWhy(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	command := pod("--result", result, "--", "echo", "it runs")
	command.Env = append(os.Environ(), `WEIR_TEST_PREPARE=no "file"`)
	out, err := command.CombinedOutput()
	var ended *exec.ExitError
	var got struct{ Unprepared string }
	text, _ := os.ReadFile(result)
	if json.Unmarshal(text, &got) != nil || got.Unprepared != `no "file"` || !errors.As(err, &ended) || ended.ExitCode() != podNotPrepared || strings.Contains(string(out), "it runs") {
		t.Errorf("%s, %v, %s", text, err, out)
	}
	command = pod("--", "echo", "it runs")
	command.Env = append(os.Environ(), "WEIR_TEST_PREPARE=wait")
	lines, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("preparing\n"))
	if _, err := io.ReadFull(lines, first); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); !errors.As(err, &ended) || ended.ExitCode() != podNotPrepared {
		t.Errorf("a pod that is asked to end while it prepares: %v", err)
	}
}

// The command is killed in time for its files to be kept.
func TestAPodKeepsFilesAlsoWhenItIsAskedToEnd(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	command := pod("--result", result, "--kill-after", "1", "--", "sh", "-c", `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	command.Env = append(os.Environ(), "WEIR_TEST_KEEP=yes")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	var ended *exec.ExitError
	if err := command.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 128+9 {
		t.Errorf("%v", err)
	}
	var got struct {
		Signal    int
		Artifacts struct{ Completed, Asked bool }
	}
	text, _ := os.ReadFile(result)
	if json.Unmarshal(text, &got) != nil || got.Signal != 9 || got.Artifacts.Completed || !got.Artifacts.Asked {
		t.Errorf("%s", text)
	}
}
