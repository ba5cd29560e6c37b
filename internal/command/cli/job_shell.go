package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirhq/weir/client"
)

// leaveKey ends weir job shell, whatever the shell does: Ctrl-].
const leaveKey = 0x1d

// codeOfSignal is the exit code of a process that a signal ended, less the signal, as in shells.
const codeOfSignal = 128

// terminatePatience is how long ending a shell may take when the command line is interrupted.
const terminatePatience = 5 * time.Second

func newJobShellCommand(r *remote) *cobra.Command {
	var idle time.Duration
	cmd := &cobra.Command{
		Use:   "shell JOB",
		Short: "Open a shell in a running job",
		Long: `Open a shell in a running job: as the job's user, in its directory, with its limits, and it sees the
files and processes that the job sees. What it uses counts for the job. It ends with the job.

Needs permission manage on the operation; every session is in the audit. Ctrl-] ends the session.`,
		Example: `  weir job shell $(weir op jobs '*nightly' --state running -q --limit 1)`,
		Args:    oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			return s.runShell(args[0], client.ShellOptions{Terminal: true, Idle: idle}, true)
		}),
	}
	cmd.Flags().DurationVar(&idle, "idle", 0, "end the session after this long without input and output; the default, and the most, is 1h")
	return cmd
}

func newJobExecCommand(r *remote) *cobra.Command {
	var interactive, terminal bool
	cmd := &cobra.Command{
		Use:   "exec JOB -- COMMAND [ARGUMENT]...",
		Short: "Run a command in a running job, beside its own command",
		Long: `Run a command in a running job: as the job's user, in its directory, with its limits. What it uses
counts for the job. It ends with the job. Its input is empty unless --interactive passes on that of this command.

The exit code is that of the command; 128 and the signal's number if a signal ended it.
Needs permission manage on the operation; every session is in the audit.`,
		Example: `  weir job exec $(weir op jobs '*nightly' --state running -q --limit 1) -- ls -l
  echo hello | weir job exec -i $(weir op jobs '*nightly' --state running -q --limit 1) -- cat`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageErrorf("exec needs a job and a command, after --")
			}
			return nil
		},
		RunE: r.do(func(s *session, args []string) error {
			return s.runShell(args[0], client.ShellOptions{Arguments: args[1:], Terminal: terminal}, interactive)
		}),
	}
	cmd.Flags().BoolVarP(&interactive, "interactive", "i", false, "pass on standard input")
	cmd.Flags().BoolVarP(&terminal, "tty", "t", false, "give the command a terminal")
	return cmd
}

// runShell runs a process in a job and connects it with the standard streams.
func (s *session) runShell(job string, o client.ShellOptions, withInput bool) error {
	in, _ := s.cmd.InOrStdin().(*os.File)
	isTerminal := in != nil && term.IsTerminal(int(in.Fd()))
	if o.Terminal {
		o.Type = firstNonEmpty(os.Getenv("TERM"), "xterm")
		o.Width, o.Height = 80, 24
		if isTerminal {
			if width, height, err := term.GetSize(int(in.Fd())); err == nil {
				o.Width, o.Height = width, height
			}
		}
	}
	shell, err := s.OpenShell(s.ctx, job, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	if o.Terminal && withInput && isTerminal {
		fmt.Fprintln(s.errs, "Ctrl-] ends the session.")
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer term.Restore(int(in.Fd()), before)
		defer s.followSize(ctx, shell, in)()
	}
	left := make(chan struct{}) // closed when the user ends the session
	if withInput {
		go func() {
			if s.copyInput(ctx, shell, o.Terminal && isTerminal) {
				close(left)
			}
		}()
	} else if !o.Terminal {
		if err := shell.CloseInput(ctx); err != nil && !isExited(err) {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.copyOutput(ctx, shell) }()
	select {
	case err = <-ended:
		return shellEnd(err)
	case <-left:
		err = errReported
	case <-s.ctx.Done():
		err = s.ctx.Err()
	}
	last, done := context.WithTimeout(context.WithoutCancel(s.ctx), terminatePatience)
	defer done()
	if problem := shell.Terminate(last); problem != nil && !isExited(problem) {
		return problem
	}
	if errors.Is(err, errReported) {
		fmt.Fprint(s.errs, "\r\nThe session has ended.\r\n")
		return nil
	}
	return err
}

func isExited(err error) bool {
	var exited *client.ShellExited
	return errors.As(err, &exited)
}

// shellEnd turns the end of a shell into that of this command.
func shellEnd(err error) error {
	var exited *client.ShellExited
	if !errors.As(err, &exited) || exited.Reason != "exited" {
		return err
	}
	switch {
	case exited.Signal != 0:
		return &jobExit{codeOfSignal + int(exited.Signal)}
	case exited.Code != 0:
		return &jobExit{int(exited.Code)}
	}
	return nil
}

// followSize passes on the size of the terminal when it changes, until the returned function is called.
func (s *session) followSize(ctx context.Context, shell *client.Shell, in *os.File) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	go func() {
		for range changes {
			if width, height, err := term.GetSize(int(in.Fd())); err == nil {
				_ = shell.Resize(ctx, height, width) // a shell that has ended has no size
			}
		}
	}()
	return func() { signal.Stop(changes); close(changes) }
}

// copyInput sends the standard input to the shell. It reports whether the user typed the key that ends the session.
func (s *session) copyInput(ctx context.Context, shell *client.Shell, isTyped bool) bool {
	buffer := make([]byte, 32<<10)
	in := s.cmd.InOrStdin()
	for {
		n, err := in.Read(buffer)
		data := buffer[:n]
		if at := bytes.IndexByte(data, leaveKey); isTyped && at >= 0 {
			return true
		}
		if shell.Write(ctx, data) != nil {
			return false // the output tells why
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = shell.CloseInput(ctx) // the output tells why it fails
			}
			return false
		}
	}
}

// copyOutput prints what the shell writes until it ends, and returns why it ended.
func (s *session) copyOutput(ctx context.Context, shell *client.Shell) error {
	for {
		output, errorOutput, err := shell.Read(ctx)
		if err != nil {
			return err
		}
		if _, err := s.out.Write(output); err != nil {
			return err
		}
		if _, err := s.errs.Write(errorOutput); err != nil {
			return err
		}
	}
}
