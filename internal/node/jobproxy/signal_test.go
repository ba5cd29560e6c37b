package jobproxy

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
)

func TestASignalReachesTheCommandOrEveryProcess(t *testing.T) {
	for name, c := range map[string]struct {
		all   bool
		after string // what the command does when it has the signal
		want  []string
	}{
		"the command": {false, "kill -TERM $!; wait $!", []string{"command"}},
		"all":         {true, "wait $!", []string{"child", "command"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, cgroup.V1)
			at, await := fifo(t)
			dir := n.launch(t, n.description(`trap 'echo command >&2; got=1' USR1; (trap 'echo child >&2; exit' USR1; trap exit TERM; echo here > `+at+
				`; sleep 1000 & wait) & until [ "$got" ]; do sleep 0.01; done; `+c.after+`; exit 0`))
			await()
			follow(t, dir, isRunning) // the command may run a moment before its proxy says so
			if err := SendSignal(dir, &SignalRequest{Name: "SIGUSR1", All: c.all}, time.Minute); err != nil {
				t.Fatal(err)
			}
			r := n.result(t, dir)
			var got []string
			for line := range strings.Lines(stderrOf(t, dir)) {
				if line = strings.TrimSpace(line); slices.Contains([]string{"child", "command"}, line) { // the shell may mention a process that the signal ended
					got = append(got, line)
				}
			}
			slices.Sort(got)
			if r.Outcome != Completed || r.Interrupted || !slices.Equal(got, c.want) {
				t.Errorf("%s (interrupted %v), %q", r.Outcome, r.Interrupted, got)
			}
			var refused *RefusedError
			if err := SendSignal(dir, &SignalRequest{Name: "SIGUSR1"}, time.Minute); !errors.Is(err, ErrGone) && !errors.Is(err, os.ErrNotExist) && !errors.As(err, &refused) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

func TestASignalWithoutANameIsRefused(t *testing.T) {
	for _, request := range []*SignalRequest{nil, {}, {Name: "SIGWHAT"}} {
		var refused *RefusedError
		if err := SendSignal(t.TempDir(), request, time.Minute); !errors.As(err, &refused) || refused.Reason != RefusedFailed {
			t.Errorf("%+v: %v", request, err)
		}
	}
}
