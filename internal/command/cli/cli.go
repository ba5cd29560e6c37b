// Package cli owns the command line of weir: the tree of commands, their flags, how results are
// printed and which exit code a call ends with.
//
// Each command is in its own file, built by a function newXCommand that root.go lists. A command
// reads its flags, calls a room that does the work and prints the answer; it decides nothing
// itself. Only cmd/weir imports cli, and only cmd/weir calls os.Exit.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/value/document"
)

// Exit codes of every command. Scripts depend on them.
const (
	ExitOK          = 0   // the command succeeded
	ExitFailed      = 1   // the call was right, the work failed or the answer is "no"
	ExitWrongCall   = 2   // unknown command or flag, wrong arguments: nothing was done
	ExitInterrupted = 130 // Ctrl-C or a request to terminate arrived first
)

// Main runs one command line, args without the program's name, and returns the exit code. It writes
// answers to stdout and all messages about failures to stderr, so that stdout can be piped.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return execute(ctx, newRootCommand(args...), args, stdin, stdout, stderr)
}

func execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(negativeValues(args)) // without a list cobra uses the arguments of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := markStart(root)

	called, err := root.ExecuteContextC(ctx)
	var usage *usageError
	var job *jobExit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &job):
		return job.code
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		fmt.Fprintln(stderr, "weir: interrupted")
		return ExitInterrupted
	case errors.Is(err, errReported):
		return ExitFailed
	case !*started || errors.As(err, &usage):
		fmt.Fprintf(stderr, "weir: %v\n", plainFlagError(err))
		if hint := nearest(called, args, err); hint != "" {
			fmt.Fprintf(stderr, "Did you mean %q?\n", hint)
		}
		fmt.Fprintf(stderr, "Run %q for usage.\n", called.CommandPath()+" --help")
		return ExitWrongCall
	default:
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return ExitFailed
	}
}

// plainFlagError replaces the message about a flag's bad value, which names functions of Go, by
// one that names the expected kind of value.
func plainFlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	wanted, known := map[string]string{
		"float64": "a number, such as 0.5", "int": "an integer", "int64": "an integer", "bool": "true or false", "duration": "a duration, such as 90s or 2h",
	}[invalid.GetFlag().Value.Type()]
	var number *strconv.NumError
	if !known || !errors.As(err, &number) && !strings.HasPrefix(invalid.Unwrap().Error(), "time: ") {
		return err
	}
	return fmt.Errorf("--%s must be %s, not %q", invalid.GetFlag().Name, wanted, invalid.GetValue())
}

var negativeNumber = regexp.MustCompile(`^-(\d|\.\d|inf$)`)

// negativeValues lets weir set take a negative number as its value: flags start with a dash too.
// The number moves to the end of the arguments, behind --.
func negativeValues(args []string) []string {
	moved := slices.Clone(args)
	at := slices.IndexFunc(args, negativeNumber.MatchString)
	if at < 0 || args[0] != "set" || slices.Contains(args, "--") {
		return append([]string{}, moved...)
	}
	return append(slices.Delete(moved, at, at+1), "--", args[at])
}

// errReported ends a command with ExitFailed when everything has already been printed: the answer
// itself is "no", as when a check finds a conflict.
var errReported = errors.New("reported")

// jobExit ends weir run with the exit code of its job, which is the answer.
type jobExit struct{ code int }

func (e *jobExit) Error() string { return fmt.Sprintf("the job ended with exit code %d", e.code) }

// usageError is a wrong call that only the command itself can detect, such as two flags that
// exclude each other.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usageErrorf(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// noArgs refuses arguments. cobra.NoArgs would call them unknown commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// markStart wraps the body of every command below root and returns a flag that turns true when one
// of them starts. An earlier error came from parsing the command line, so it is a wrong call,
// whatever its type is.
func markStart(root *cobra.Command) *bool {
	started := new(bool)
	var wrap func(*cobra.Command)
	wrap = func(cmd *cobra.Command) {
		if body := cmd.RunE; body != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				*started = true
				return body(cmd, args)
			}
		}
		for _, child := range cmd.Commands() {
			wrap(child)
		}
	}
	wrap(root)
	return started
}

// nearest names what the user of a wrong command line probably meant: a subcommand of called if the
// first argument is no command, a flag of called if err is about an unknown flag; empty if nothing
// is close.
func nearest(called *cobra.Command, args []string, err error) string {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var flags []string
		called.Flags().VisitAll(func(flag *pflag.Flag) { flags = append(flags, flag.Name) })
		// A single letter is a shorthand: all other letters are equally near.
		if name := unknown.GetSpecifiedName(); len(name) > 1 {
			if flag, ok := document.Nearest(name, flags); ok {
				return "--" + flag
			}
		}
		return ""
	}
	var commands []string
	for _, child := range called.Commands() {
		if child.IsAvailableCommand() {
			commands = append(commands, child.Name())
		}
	}
	first := slices.IndexFunc(args, func(arg string) bool { return arg != "" && arg[0] != '-' && arg != called.Name() })
	if first < 0 {
		return ""
	}
	if command, ok := document.Nearest(args[first], commands); ok {
		return called.CommandPath() + " " + command
	}
	return ""
}
