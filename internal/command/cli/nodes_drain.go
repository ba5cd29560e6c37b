package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

func newNodesGetCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get NODE",
		Short: "Show a node: state, resources, usage, tags, isolation, maintenance, alerts",
		Example: `  weir nodes get node-1
  weir nodes get node-1 -o json`,
		Args: oneName("node"), ValidArgsFunction: r.completeNodes(),
		RunE: r.do(func(s *session, args []string) error {
			n, err := s.GetNode(s.ctx, args[0])
			if err != nil {
				return err
			}
			return s.print(n.Raw, func(w io.Writer) error { return writeNode(w, n) })
		}),
	}
}

func writeNode(w io.Writer, n *client.Node) error {
	t := newTable(w)
	row := func(name, value string) {
		if value != "" && value != nothing {
			t.row(name, value)
		}
	}
	row("name", n.Name)
	row("state", nodeStyle(painter(w), nodeState(n)))
	row("tree", n.Tree)
	row("tags", strings.Join(n.Tags, ", "))
	row("jobs", fmt.Sprint(n.RunningJobs))
	for _, kind := range kindsOf([]client.Node{*n}) {
		k := kind.String()
		row(k, amountText(k, n.Usage.Of(k))+" of "+amountText(k, n.Limits.Of(k))+" in use")
	}
	row("isolation", isolationText(&n.Isolation))
	row("disk quota", n.DiskQuota)
	row("version", n.Version)
	row("registered", stamp(n.Registered))
	row("last seen", stamp(n.LastSeen))
	row("remarks", nodeRemarks(n))
	for i := range n.GPUs {
		row(fmt.Sprint("gpu ", i), gpuText(&n.GPUs[i]))
	}
	for i := range n.Images {
		row(fmt.Sprint("image ", i), imageText(&n.Images[i]))
	}
	return t.flush()
}

// imageText describes an image in a line: its name, how large it is, and who uses it.
func imageText(i *client.Image) string {
	parts := []string{i.Name + "@" + i.Digest}
	if i.Size > 0 {
		parts = append(parts, amountText("memory", float64(i.Size)))
	}
	switch {
	case i.Jobs == 1:
		parts = append(parts, "1 job")
	case i.Jobs > 1:
		parts = append(parts, fmt.Sprint(i.Jobs, " jobs"))
	case i.LastUse.IsZero():
		parts = append(parts, "not used yet")
	default:
		parts = append(parts, "last used "+stamp(i.LastUse))
	}
	return strings.Join(parts, ", ")
}

// isolationText describes in a line how far a node isolates jobs, and why not further.
func isolationText(i *client.Isolation) string {
	if i.Level == "" {
		return ""
	}
	text := i.Level
	switch i.RunAs {
	case "job":
		text += ", a user for each job"
	case "user":
		text += ", jobs run as the accounts of their users"
	case "agent":
		text += ", jobs run as the agent's user"
	}
	if i.Cause != "" {
		text += " (" + i.Cause
		if i.Detail != "" {
			text += ": " + i.Detail
		}
		text += ")"
	}
	return text
}

// gpuText describes a device in a line: what it is, who has it, and how it does.
func gpuText(g *client.GPU) string {
	parts := []string{g.ID}
	if g.Model != "" {
		parts[0] += " (" + g.Model + ")"
	}
	if g.Utilization != nil {
		parts = append(parts, fmt.Sprintf("%.0f %% busy", *g.Utilization*100))
	}
	if g.Memory > 0 {
		parts = append(parts, amountText("memory", float64(g.MemoryInUse))+" of "+amountText("memory", float64(g.Memory))+" in use")
	}
	switch {
	case g.Fault != "":
		parts = append(parts, "gets no jobs: "+g.Fault)
	case g.Job != "":
		parts = append(parts, "job "+g.Job)
	default:
		parts = append(parts, "free")
	}
	return strings.Join(parts, ", ")
}

// drainCall is one call of weir nodes drain.
type drainCall struct {
	comment  string
	wait     bool
	deadline time.Duration
}

func newNodesDrainCommand(r *remote) *cobra.Command {
	c := &drainCall{}
	cmd := &cobra.Command{
		Use:   "drain NODE...",
		Short: "Empty nodes: give them no new jobs and wait for their running ones",
		Long: `Give nodes no new jobs. With --wait the command ends when their running jobs have ended. With --deadline it
aborts the jobs that still run then; the scheduler starts them again on other nodes. The command must keep
running until the deadline. The nodes stay disabled until weir nodes release removes the request.`,
		Example: `  weir nodes drain node-1 --comment "a new kernel" --deadline 2s
  weir nodes release node-1 --mine`,
		Args: someNames("node"), ValidArgsFunction: r.completeNodes(),
		RunE: r.do(c.run),
	}
	addComment(cmd, &c.comment)
	cmd.Flags().BoolVar(&c.wait, "wait", false, "wait until no job runs on the nodes")
	cmd.Flags().DurationVar(&c.deadline, "deadline", 0, "abort jobs that still run after this time; includes --wait")
	return cmd
}

func (c *drainCall) run(s *session, nodes []string) error {
	if c.deadline < 0 {
		return usageErrorf("--deadline must not be negative, it is %v", c.deadline)
	}
	if err := s.maintain(nodes, string(client.DisableJobs), c.comment); err != nil {
		return err
	}
	if !c.wait && c.deadline == 0 {
		return nil
	}
	bar := newProgress(s.errs, 0)
	defer bar.clear()
	for started := time.Now(); ; {
		busy, jobs, err := s.busyNodes(nodes)
		if err != nil || len(busy) == 0 {
			return err
		}
		bar.showAs(float64(len(nodes)-len(busy))/float64(len(nodes)), plural(jobs, "job still runs", "jobs still run"))
		if c.deadline > 0 && time.Since(started) >= c.deadline {
			bar.clear()
			fmt.Fprintf(s.errs, "weir: the deadline has passed: aborting %s\n", plural(jobs, "job", "jobs"))
			return c.expel(s, busy)
		}
		if err := s.pause(); err != nil {
			return err
		}
	}
}

// busyNodes returns the nodes on which jobs run, and the number of these jobs.
func (s *session) busyNodes(nodes []string) (busy []string, jobs int64, err error) {
	for _, name := range nodes {
		n, err := s.GetNode(s.ctx, name)
		if err != nil {
			return nil, 0, err
		}
		if n.RunningJobs > 0 && n.State != "offline" {
			busy, jobs = append(busy, name), jobs+n.RunningJobs
		}
	}
	return busy, jobs, nil
}

// expel aborts all jobs on nodes: it bans the nodes until no job runs there. The nodes stay
// disabled.
func (c *drainCall) expel(s *session, nodes []string) (err error) {
	for _, node := range nodes {
		id, banErr := s.AddMaintenance(s.ctx, node, client.Ban, firstNonEmpty(c.comment, "drained"))
		if banErr != nil {
			return banErr
		}
		defer func() {
			_, releaseErr := s.RemoveMaintenance(s.ctx, node, client.MaintenanceFilter{IDs: []string{id}})
			err = errors.Join(err, releaseErr)
		}()
	}
	for {
		busy, _, err := s.busyNodes(nodes)
		if err != nil || len(busy) == 0 {
			return err
		}
		if err := s.pause(); err != nil {
			return err
		}
	}
}

// pause waits before the next poll of something that changes slowly.
func (s *session) pause() error {
	select {
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-time.After(500 * time.Millisecond):
		return nil
	}
}
