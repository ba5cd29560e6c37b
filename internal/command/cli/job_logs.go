package cli

import (
	"bytes"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

// logsWait is how long one request waits for output.
const logsWait = 20 * time.Second

// longestTail is how much output --tail looks through for lines.
const longestTail = 4 << 20

// logsCall is one call of weir job logs.
type logsCall struct {
	follow, stdout, stderr bool
	tail                   int
}

func newJobLogsCommand(r *remote) *cobra.Command {
	c := &logsCall{}
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of a job that runs or has ended",
		Long: `Print what a job has written to standard error so far. Standard output is part of that unless the
task keeps it apart, and then --stdout prints it. With --follow, print more as the job writes it, until the job ends.

A job that writes more than max_stderr_size keeps the beginning and the end of it; a line says how much is missing.`,
		Example: `  weir job logs $(weir op jobs '*nightly' -q --limit 1)
  weir job logs $(weir op jobs '*nightly' -q --limit 1) --tail 5`,
		Args: oneName("job"),
		RunE: r.do(func(s *session, args []string) error {
			switch {
			case c.stdout && c.stderr:
				return usageErrorf("--stdout and --stderr exclude each other")
			case c.tail < -1:
				return usageErrorf("--tail %d: want a number of lines", c.tail)
			}
			return c.print(s, args[0])
		}),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&c.follow, "follow", "f", false, "go on until the job ends")
	flags.BoolVar(&c.stdout, "stdout", false, "standard output, if the task keeps it apart")
	flags.BoolVar(&c.stderr, "stderr", false, "standard error, which is the default")
	flags.IntVar(&c.tail, "tail", -1, "only the last lines")
	return cmd
}

// print prints the output of a job from where the flags say.
func (c *logsCall) print(s *session, job string) error {
	options := client.OutputOptions{Stdout: c.stdout}
	if c.tail >= 0 {
		part, err := c.findTail(s, job)
		if err != nil {
			return err
		}
		if err := c.write(s, part, part.Offset); err != nil || part.Ended {
			return err
		}
		options.Offset = part.Next
	}
	if c.follow {
		options.Wait = logsWait
	}
	for {
		part, err := s.ReadJobOutput(s.ctx, job, options)
		if err != nil {
			return err
		}
		if err := c.write(s, part, options.Offset); err != nil {
			return err
		}
		if part.Ended || !c.follow && part.Next >= part.Size {
			return nil
		}
		options.Offset = part.Next
	}
}

// write prints a part, and a line about what is missing before it.
func (c *logsCall) write(s *session, part *client.JobOutput, from int64) error {
	if part.Offset > from {
		if _, err := fmt.Fprintf(s.out, "… %d bytes are not kept …\n", part.Offset-from); err != nil {
			return err
		}
	}
	_, err := s.out.Write(part.Data)
	return err
}

// findTail returns the last lines of what the job has written so far.
func (c *logsCall) findTail(s *session, job string) (*client.JobOutput, error) {
	part, err := s.ReadJobOutput(s.ctx, job, client.OutputOptions{Stdout: c.stdout, Limit: 1})
	if err != nil {
		return nil, err
	}
	whole := &client.JobOutput{Offset: max(part.Size-longestTail, 0)}
	for whole.Next = whole.Offset; ; {
		part, err := s.ReadJobOutput(s.ctx, job, client.OutputOptions{Stdout: c.stdout, Offset: whole.Next})
		if err != nil {
			return nil, err
		}
		if part.Offset > whole.Next { // lines before a gap are no part of the tail
			whole.Offset, whole.Data = part.Offset, nil
		}
		whole.Data, whole.Next, whole.Ended = append(whole.Data, part.Data...), part.Next, part.Ended
		if part.Ended || part.Next >= part.Size {
			break
		}
	}
	begin := len(whole.Data)
	for lines := 0; begin > 0; lines++ {
		if lines == c.tail {
			break
		}
		begin = bytes.LastIndexByte(whole.Data[:begin-1], '\n') + 1
	}
	whole.Offset, whole.Data = whole.Offset+int64(begin), whole.Data[begin:]
	return whole, nil
}
