package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

func newJobCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Look at single jobs, read what they wrote, abort them",
		Long:  `Look at single jobs, read what they wrote, abort them. weir op jobs lists the jobs of an operation.`,
		Example: `  # The oldest running job of an operation
  weir job get $(weir op jobs '*nightly' --state running -q | tail -1)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJobAbortCommand(r), newJobGetCommand(r), newJobStderrCommand(r))
	return r.addTo(cmd)
}

// writeJobs prints a list of jobs.
func (s *session) writeJobs(w io.Writer, answer yson.Node, quiet bool) error {
	paint, now := painter(w), time.Now()
	t := newTable(w)
	if !quiet {
		t.row("ID", "STATE", "TASK", "NODE", "AGE", "RAN", "EXIT", "STDERR", "REASON")
		t.alignRight(4, 5, 6, 7)
		t.fit(widthOf(w), 8, 3, 2)
	}
	for _, j := range field(answer, "jobs").Items() {
		id := cell(field(j, "id"))
		if quiet {
			t.row(id)
			continue
		}
		start, finish := moment(field(j, "start_time")), moment(field(j, "finish_time"))
		if finish.IsZero() {
			finish = now
		}
		t.row(id, stateStyle(paint, cell(field(j, "state"))), cell(field(j, "task_name")), cell(field(j, "address")),
			age(now, start), shortDuration(finish.Sub(start)), cell(field(j, "exit_code")), stderrSize(j), jobReason(j))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if _, more := field(answer, "continuation_token").Text(); more {
		fmt.Fprintln(s.errs, "There are more: --limit shows them.")
	}
	return nil
}

func stderrSize(job yson.Node) string {
	if size := whole(job, "stderr_size"); size > 0 {
		return fmt.Sprintf("%d B", size)
	}
	return nothing
}

// jobReason is why a job did not complete, in a few words.
func jobReason(job yson.Node) string {
	if reason, ok := field(job, "abort_reason").Text(); ok {
		return reason
	}
	failure := field(job, "error")
	if failure.IsEntity() {
		return nothing
	}
	return client.ErrorOf(failure).Message
}

func newJobGetCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get JOB",
		Short: "Show a job: state, node, times, its error, statistics",
		Example: `  weir job get $(weir op jobs '*nightly' -q --limit 1)
  weir job get $(weir op jobs '*nightly' -q --limit 1) -o json`,
		Args: oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			answer, err := s.ask("get_job", textIf("job_id", args[0]))
			if err != nil {
				return err
			}
			return s.print(answer, func(w io.Writer) error { return writeJob(w, answer) })
		}),
	}
}

func writeJob(w io.Writer, j yson.Node) error {
	t := newTable(w)
	row := func(name, value string) {
		if value != nothing && value != "" {
			t.row(name, value)
		}
	}
	row("id", cell(field(j, "job_id")))
	row("operation", cell(field(j, "operation_id")))
	row("task", cell(field(j, "task_name")))
	row("state", stateStyle(painter(w), cell(field(j, "state"))))
	row("node", cell(field(j, "address")))
	row("pool", cell(field(j, "pool_tree"))+":"+cell(field(j, "pool")))
	row("started", cell(field(j, "start_time")))
	row("finished", cell(field(j, "finish_time")))
	row("exit code", cell(field(j, "exit_code")))
	row("aborted by", cell(field(j, "abort_reason")))
	row("stderr", stderrSize(j))
	row("resources", amountsText(field(j, "resources")))
	if err := t.flush(); err != nil {
		return err
	}
	if failure := field(j, "error"); !failure.IsEntity() {
		fmt.Fprintf(w, "error: %v\n", client.ErrorOf(failure))
	}
	return nil
}

func newJobStderrCommand(r *remote) *cobra.Command {
	var stdout bool
	cmd := &cobra.Command{
		Use:     "stderr JOB",
		Aliases: []string{"logs"},
		Short:   "Print what a finished job wrote to its standard error",
		Example: `  weir job stderr $(weir op jobs '*nightly' -q --limit 1)`,
		Args:    oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			kind := "stderr"
			if stdout {
				kind = "stdout"
			}
			data, err := s.jobOutput(args[0], kind)
			if err != nil {
				return err
			}
			_, err = s.out.Write(data)
			return err
		}),
	}
	cmd.Flags().BoolVar(&stdout, "stdout", false, "what it wrote to its standard output, if that was kept")
	return cmd
}

// jobOutput is what a finished job wrote.
func (s *session) jobOutput(job, kind string) ([]byte, error) {
	return s.Raw(s.ctx, client.Request{Command: "get_job_stderr", Parameters: parameters(textIf("job_id", job), textIf("type", kind))})
}

func newJobAbortCommand(r *remote) *cobra.Command {
	var interrupt time.Duration
	cmd := &cobra.Command{
		Use:   "abort JOB",
		Short: "Abort a running job; the operation starts it again",
		Example: `  weir job abort $(weir op jobs '*nightly' --state running -q --limit 1)

  # Ask it to end first
  weir job abort $(weir op jobs '*nightly' --state running -q --limit 1) --interrupt 10s`,
		Args: oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			_, err := s.change("abort_job", textIf("job_id", args[0]), countIf("interrupt_timeout", interrupt.Milliseconds()))
			return err
		}),
	}
	cmd.Flags().DurationVar(&interrupt, "interrupt", 0, "how long it may take to end by itself first")
	return cmd
}
