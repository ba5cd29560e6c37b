package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

func newJobCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Show single jobs, print their output, look into them, signal and abort them",
		Long:  `Show single jobs, print their output, look into them, signal and abort them. weir op jobs lists the jobs of an operation.`,
		Example: `  # The oldest running job of an operation
  weir job get $(weir op jobs '*nightly' --state running -q | tail -1)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJobAbortCommand(r), newJobExecCommand(r), newJobGetCommand(r), newJobListCommand(r), newJobLogsCommand(r), newJobShellCommand(r), newJobSignalCommand(r), newJobStderrCommand(r))
	return r.addTo(cmd)
}

// writeJobs prints a list of jobs.
func (s *session) writeJobs(w io.Writer, page *client.JobPage, quiet bool) error {
	paint, now := painter(w), time.Now()
	t := newTable(w)
	if !quiet {
		t.row("ID", "STATE", "TASK", "NODE", "AGE", "RAN", "EXIT", "STDERR", "REASON")
		t.alignRight(4, 5, 6, 7)
		t.fit(widthOf(w), 8, 3, 2)
	}
	for _, j := range page.Jobs {
		if quiet {
			t.row(j.ID)
			continue
		}
		finish := j.Finished
		if finish.IsZero() {
			finish = now
		}
		t.row(j.ID, stateStyle(paint, string(j.State)), j.Task, j.Node, age(now, j.Started), shortDuration(finish.Sub(j.Started)),
			exitText(&j), stderrSize(&j), jobReason(&j))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if page.Token != "" {
		fmt.Fprintln(s.errs, "There are more: raise --limit to see them.")
	}
	return nil
}

func exitText(job *client.Job) string {
	if job.ExitCode == nil {
		return nothing
	}
	return fmt.Sprint(*job.ExitCode)
}

func stderrSize(job *client.Job) string {
	if job.StderrSize == 0 {
		return nothing
	}
	return fmt.Sprintf("%d B", job.StderrSize)
}

// jobReason is a short reason why a job did not complete.
func jobReason(job *client.Job) string {
	if job.AbortReason == "" && job.Error != nil {
		return job.Error.Message
	}
	return orNothing(job.AbortReason)
}

// newJobListCommand is weir op jobs, where people look for it too.
func newJobListCommand(r *remote) *cobra.Command {
	cmd := newOpJobsCommand(r)
	cmd.Use, cmd.Example = "list OPERATION", "  weir job list '*nightly' --state failed"
	return cmd
}

func newJobGetCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get JOB",
		Short: "Show a job: state, node, times, error, statistics",
		Example: `  weir job get $(weir op jobs '*nightly' -q --limit 1)
  weir job get $(weir op jobs '*nightly' -q --limit 1) -o json`,
		Args: oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			job, err := s.GetJob(s.ctx, args[0])
			if err != nil {
				return err
			}
			return s.print(job.Raw, func(w io.Writer) error { return writeJob(w, job) })
		}),
	}
}

func writeJob(w io.Writer, j *client.Job) error {
	t := newTable(w)
	row := func(name, value string) {
		if value != nothing && value != "" {
			t.row(name, value)
		}
	}
	row("id", j.ID)
	row("operation", j.OperationID)
	row("task", j.Task)
	row("state", stateStyle(painter(w), string(j.State)))
	row("node", j.Node)
	row("pool", j.Tree+":"+orNothing(j.Pool))
	row("started", stamp(j.Started))
	row("finished", stamp(j.Finished))
	row("exit code", exitText(j))
	row("aborted by", j.AbortReason)
	row("stderr", stderrSize(j))
	row("resources", amountsText(j.Resources))
	if err := t.flush(); err != nil {
		return err
	}
	if j.Error != nil {
		fmt.Fprintf(w, "error: %v\n", withFigures(j.Error))
	}
	return nil
}

func newJobStderrCommand(r *remote) *cobra.Command {
	var stdout bool
	cmd := &cobra.Command{
		Use:     "stderr JOB",
		Short:   "Print the standard error of a job",
		Example: `  weir job stderr $(weir op jobs '*nightly' -q --limit 1)`,
		Args:    oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			read := s.JobStderr
			if stdout {
				read = s.JobStdout
			}
			data, err := read(s.ctx, args[0])
			if err != nil {
				return err
			}
			_, err = s.out.Write(data)
			return err
		}),
	}
	cmd.Flags().BoolVar(&stdout, "stdout", false, "print standard output instead, if it was kept")
	return cmd
}

func newJobAbortCommand(r *remote) *cobra.Command {
	var interrupt time.Duration
	cmd := &cobra.Command{
		Use:   "abort JOB",
		Short: "Abort a running job; the operation restarts it",
		Example: `  weir job abort $(weir op jobs '*nightly' --state running -q --limit 1)

  # Interrupt it first
  weir job abort $(weir op jobs '*nightly' --state running -q --limit 1) --interrupt 10s`,
		Args: oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			return s.AbortJob(s.ctx, args[0], interrupt)
		}),
	}
	cmd.Flags().DurationVar(&interrupt, "interrupt", 0, "how long to wait for the job to end on its own first")
	return cmd
}

func newJobSignalCommand(r *remote) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "signal JOB SIGNAL",
		Short: "Send a signal to a running job",
		Long: `Send a signal, such as USR1 or SIGUSR1, to the command of a running job, and wait until it has been sent.
Which signals there are: those of the option interruption_signal.

Needs permission manage on the operation; the audit has every signal.`,
		Example: `  weir job signal $(weir op jobs '*nightly' --state running -q --limit 1) USR1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageErrorf("signal needs a job and a signal, such as USR1")
			}
			return nil
		},
		RunE: r.do(func(s *session, args []string) error {
			name := strings.ToUpper(args[1])
			if !strings.HasPrefix(name, "SIG") {
				name = "SIG" + name
			}
			return s.SignalJob(s.ctx, args[0], name, all)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "send it to all processes of the job, and not only to its command")
	return cmd
}
