package jobinit

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestASessionHasItsVariablesAndSaysThatItRuns(t *testing.T) {
	command := exec.Command("/proc/self/exe", SessionFlag, "s", "--env", "WORD=here", "--", "sh", "-c", `echo "$WORD $WEIR_SESSION"; exit 5`)
	out, err := command.Output()
	var ended *exec.ExitError
	if string(out) != "\x06here s\n" || !errors.As(err, &ended) || ended.ExitCode() != 5 {
		t.Errorf("%q, %v", out, err)
	}
	for _, test := range []struct {
		arguments []string
		code      int
	}{{nil, 2}, {[]string{"s"}, 2}, {[]string{"s", "--"}, 2}, {[]string{"s", "--env", "nonsense", "true"}, 2}, {[]string{"s", "no-such-program-here"}, 127}} {
		err := exec.Command("/proc/self/exe", append([]string{SessionFlag}, test.arguments...)...).Run()
		if !errors.As(err, &ended) || ended.ExitCode() != test.code {
			t.Errorf("%q: %v", test.arguments, err)
		}
	}
}

func TestTheEndOfASessionEndsItsProcessesAndNoOthers(t *testing.T) {
	begin := func(id string) *bufio.Reader {
		command := exec.Command("/proc/self/exe", SessionFlag, id, "sh", "-c", `setsid sleep 6543 & echo; exec sleep 6543`)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = command.Wait() })
		lines := bufio.NewReader(out)
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	one, two := begin("one"), begin("two")
	end := func(id string) {
		if out, err := exec.Command("/proc/self/exe", EndSessionFlag, id).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	end("one")
	if _, err := one.ReadByte(); err == nil { // every process of it held the pipe open
		t.Error("something was written")
	}
	names, _ := os.ReadDir("/proc")
	left := 0
	for _, name := range names {
		text, _ := os.ReadFile("/proc/" + name.Name() + "/environ")
		if strings.Contains(string(text), "WEIR_SESSION=two") {
			left++
		}
	}
	if left != 2 {
		t.Errorf("%d processes of the other session are left", left)
	}
	end("two")
	_, _ = two.ReadByte()
}
