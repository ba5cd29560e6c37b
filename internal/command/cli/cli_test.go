package cli

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// call runs one command line in process.
func call(args ...string) (code int, stdout, stderr string) {
	return callRoot(context.Background(), newRootCommand(), args...)
}

func callRoot(ctx context.Context, root *cobra.Command, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = execute(ctx, root, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		code int
		out  string // part of stdout
		errs string // part of stderr
	}{
		{"no command shows help", nil, ExitOK, "Available Commands:", ""},
		{"--help shows help", []string{"--help"}, ExitOK, "Available Commands:", ""},
		{"--version shows one line", []string{"--version"}, ExitOK, "weir ", ""},
		{"help of a command", []string{"help", "version"}, ExitOK, "weir version -o json", ""},
		{"help of nothing known", []string{"help", "nothing"}, ExitWrongCall, "", `no help for "nothing"`},
		{"unknown command", []string{"frobnicate"}, ExitWrongCall, "", `unknown command "frobnicate"`},
		{"unknown command is answered with the nearest", []string{"verson"}, ExitWrongCall, "", `Did you mean "weir version"?`},
		{"nothing is near", []string{"frobnicate"}, ExitWrongCall, "", "unknown command \"frobnicate\" for \"weir\"\nRun "},
		{"unknown flag", []string{"version", "--frobnicate"}, ExitWrongCall, "", "unknown flag: --frobnicate"},
		{"unknown flag is answered with the nearest", []string{"version", "--outptu=json"}, ExitWrongCall, "", `Did you mean "--output"?`},
		{"unknown shorthand", []string{"version", "-x"}, ExitWrongCall, "", "unknown shorthand flag"},
		{"a wrong call points at the command's help", []string{"version", "-x"}, ExitWrongCall, "", `Run "weir version --help" for usage.`},
		{"unknown output format", []string{"version", "-o", "xml"}, ExitWrongCall, "", "must be table, json, yaml or yson"},
		{"argument of a command without any", []string{"version", "x"}, ExitWrongCall, "", `version takes no arguments, got "x"`},
		{"missing argument", []string{"completion"}, ExitWrongCall, "", "completion takes one shell: bash, zsh, fish or powershell"},
		{"unknown shell", []string{"completion", "csh"}, ExitWrongCall, "", "completion takes one shell"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := call(test.args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(out, test.out) || !strings.Contains(errs, test.errs) {
				t.Errorf("stdout:\n%s\nstderr:\n%s\nwant in stdout %q, in stderr %q", out, errs, test.out, test.errs)
			}
			if code == ExitOK && errs != "" {
				t.Errorf("a successful call wrote to stderr: %q", errs)
			}
			if code != ExitOK && out != "" {
				t.Errorf("a refused call wrote to stdout: %q", out)
			}
		})
	}
}

func TestErrorsOfACommandDecideItsExitCode(t *testing.T) {
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		body func(*cobra.Command, []string) error
		code int
		errs string
	}{
		{"work that fails", context.Background(), func(*cobra.Command, []string) error {
			return errors.New("disk on fire")
		}, ExitFailed, "weir: disk on fire\n"},
		{"an answer of no that was printed", context.Background(), func(*cobra.Command, []string) error {
			return errReported
		}, ExitFailed, ""},
		{"a wrong call noticed by the command", context.Background(), func(*cobra.Command, []string) error {
			return usageErrorf("--step needs --for")
		}, ExitWrongCall, "weir: --step needs --for\nRun \"weir work --help\" for usage.\n"},
		{"an interrupted command", interrupted, func(cmd *cobra.Command, _ []string) error {
			return cmd.Context().Err()
		}, ExitInterrupted, "weir: interrupted\n"},
		{"a command that finished although interrupted", interrupted, func(*cobra.Command, []string) error {
			return nil
		}, ExitOK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := newRootCommand()
			root.AddCommand(&cobra.Command{Use: "work", RunE: test.body})
			code, _, errs := callRoot(test.ctx, root, "work")
			if code != test.code || errs != test.errs {
				t.Errorf("exit code %d, stderr %q; want %d, %q", code, errs, test.code, test.errs)
			}
		})
	}
}

// walk calls visit for root and every command below it.
func walk(root *cobra.Command, visit func(*cobra.Command)) {
	visit(root)
	for _, child := range root.Commands() {
		walk(child, visit)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	commands := 0
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	walk(root, func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		commands++
		if cmd.Short == "" {
			t.Errorf("%s has no Short", cmd.CommandPath())
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short ends with a full stop", cmd.CommandPath())
		}
		if !strings.Contains(cmd.Example, "weir") {
			t.Errorf("%s has no Example with a command line", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: example line not indented by two: %q", cmd.CommandPath(), line)
			}
		}
		if cmd.Run != nil {
			t.Errorf("%s uses Run; RunE is what Main understands", cmd.CommandPath())
		}
		code, out, _ := call(append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if code != ExitOK || !strings.Contains(out, "Examples:") {
			t.Errorf("%s --help: exit code %d, examples shown: %v", cmd.CommandPath(), code, strings.Contains(out, "Examples:"))
		}
	})
	if commands < 4 {
		t.Errorf("walked %d commands: the tree is not there", commands)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		t.Run(shell, func(t *testing.T) {
			code, script, errs := call("completion", shell)
			if code != ExitOK || !strings.Contains(script, "weir") {
				t.Fatalf("exit code %d, %d bytes of script, stderr %q", code, len(script), errs)
			}
			if shell != "bash" {
				return
			}
			check := exec.CommandContext(t.Context(), "bash", "-n")
			check.Stdin = strings.NewReader(script)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("bash does not read its script: %v\n%s", err, out)
			}
		})
	}
}

func TestCompletionKnowsFlagsAndTopics(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"output formats", []string{"__complete", "version", "-o", ""}, "table\njson\nyaml\nyson\n"},
		{"help topics", []string{"__complete", "help", "vers"}, "version\t"},
		{"shells", []string{"__complete", "completion", ""}, "bash\nzsh\nfish\npowershell\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if code, out, _ := call(test.args...); code != ExitOK || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, stdout %q, want in it %q", code, out, test.want)
			}
		})
	}
}
