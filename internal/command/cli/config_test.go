package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// callConfig runs a command line under a separate root command.
func callConfig(stdin string, args ...string) (code int, stdout, stderr string) {
	opts := &options{output: outputTable}
	root := &cobra.Command{Use: "weir", SilenceErrors: true, SilenceUsage: true}
	opts.addTo(root)
	root.AddCommand(newConfigCommand(opts))
	var out, errs bytes.Buffer
	code = execute(context.Background(), root, append([]string{"config"}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestConfigCheckSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name, file string
		code       int
		out        string
	}{
		{"an empty file", "", ExitOK, "stdin: OK\n"},
		{"a right file", "scheduler: {data_dir: a}", ExitOK, "stdin: OK\n"},
		{"a warning", "scheduler: {listen: ':7070'}", ExitOK,
			"warning: stdin:1:13: scheduler/listen: others on the network reach :7070 without TLS: tokens can be read on the way\nstdin: OK\n"},
		{"two problems", `scheduler: {fair_share_update_period: 5ms, lisen: ":80"}`, ExitFailed,
			`stdin:1:39: scheduler/fair_share_update_period: must be a duration like 30s, 5m, 1d or a number of milliseconds from 10ms to 1m, not "5ms"` +
				"\n" + `stdin:1:44: scheduler/lisen: unknown option; did you mean "listen"?` + "\n"},
		{"no YAML", "scheduler: {", ExitFailed, "stdin:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := callConfig(test.file, "check", "-")
			if code != test.code || !strings.HasPrefix(out, test.out) || errs != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q", code, out, errs, test.code, test.out)
			}
		})
	}
}

func TestConfigCheckForPrograms(t *testing.T) {
	code, out, _ := callConfig("up: {port: -1}\nscheduler: {listen: ':1'}", "check", "-", "-o", "json")
	var answer struct {
		OK                 bool
		Problems, Warnings []struct {
			Line                int
			Path, Rule, Message string
		}
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if code != ExitFailed || answer.OK || len(answer.Problems) != 1 || answer.Warnings == nil {
		t.Fatalf("exit code %d, %s", code, out)
	}
	if p := answer.Problems[0]; p.Line != 1 || p.Path != "up/port" || p.Rule != "out_of_range" || p.Message == "" {
		t.Errorf("%+v", p)
	}
}

func TestConfigShowTellsWhereValuesCameFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "scheduler:\n  store: postgres://u:hunter2@h/d\n  snapshot_period: 2m\nnode: {token: hunter2}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_SCHEDULER_DATA_DIR", "blue")
	for _, output := range []string{"table", "json", "yaml"} {
		code, out, errs := callConfig("", "show", "-f", file, "-o", output)
		if code != ExitOK || errs != "" {
			t.Fatalf("exit code %d, stderr %q", code, errs)
		}
		for _, want := range []string{"WEIR_SCHEDULER_DATA_DIR", "blue", "snapshot_period", "2m", filepath.Base(file)} {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not show %q", output, want)
			}
		}
		if strings.Contains(out, "hunter2") {
			t.Errorf("%s shows a secret", output)
		}
	}
	t.Setenv("WEIR_CONFIG", file)
	code, out, _ := callConfig("", "show", "scheduler", "--changed")
	want := []string{
		"SETTING                    VALUE                      FROM",
		"scheduler/data_dir         blue                       WEIR_SCHEDULER_DATA_DIR",
		"scheduler/store            \"postgres://u:hidden@h/d\"  " + file + ":2",
		"scheduler/snapshot_period  2m                         " + file + ":3",
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != ExitOK || len(lines) != len(want) {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %q, want %q", line, want[i])
		}
	}
}

func TestTheShownConfigurationIsRight(t *testing.T) {
	_, shown, _ := callConfig("", "show", "-o", "yaml")
	if code, out, errs := callConfig(shown, "check", "-"); code != ExitOK || out != "stdin: OK\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestWrongCallsOfConfig(t *testing.T) {
	t.Setenv("WEIR_SCHEDULER_LISTEN", "nowhere")
	for _, test := range []struct {
		name string
		args []string
		code int
		errs string
	}{
		{"no file", []string{"check"}, ExitWrongCall, "takes one file name, got 0"},
		{"a file that is not there", []string{"check", "nothing.yaml"}, ExitFailed, "nothing.yaml"},
		{"an unknown section", []string{"show", "kube"}, ExitWrongCall, "takes scheduler, node, up or no argument"},
		{"an unknown command", []string{"print"}, ExitWrongCall, `unknown command "print"`},
		{"a wrong variable", []string{"show"}, ExitFailed, "WEIR_SCHEDULER_LISTEN: scheduler/listen: must be an address to listen on"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := callConfig("", test.args...)
			if code != test.code || out != "" || !strings.Contains(errs, test.errs) {
				t.Errorf("exit code %d, want %d; stdout %q, stderr %q", code, test.code, out, errs)
			}
		})
	}
}
