package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/value/document"
)

func newUpCommand(bind binder) *cobra.Command {
	daemon := &daemonFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a whole cluster on this machine: scheduler, store and nodes with real jobs",
		Long: `Run a scheduler and one or more nodes on this machine until Ctrl-C. Jobs are real processes in
control groups. The cluster starts with example pools. Ctrl-C ends all jobs and leaves nothing
behind; with --data-dir the state is kept, and the next weir up continues with it.

With --kubernetes, jobs are pods of the Kubernetes cluster that kubectl uses now, and only the scheduler
and its store are on this machine. --kwok N adds N pretended nodes, whose pods run and end without a
process. If the cluster is not on this machine and not one of kwok's, the command shows what it would
do and asks first.

Settings come from flags, WEIR_UP_… variables and the file of --config; its sections scheduler and
node apply too.`,
		Example: `  # A cluster with a demonstration workload
  weir up --demo &

  # Five nodes that report eight cores each, with the state kept
  weir up --nodes 5 --resources '{cpu: 8, memory: 16GiB, user_slots: 8}' --data-dir ./data &

  # Jobs as pods of the current cluster of kubectl, on 100 pretended nodes
  weir up --kubernetes --kwok 100 &`,
		Args: cobra.NoArgs,
	}
	var yes bool
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before changing a Kubernetes cluster")
	flags := bind(cmd, config.UpSection)
	cmd.Flags().StringVarP(&daemon.file, "config", "f", "", "configuration file; if unset, the one that "+configFileVariable+" names, if any")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := daemon.load(cmd, config.UpSection, flags)
		if err != nil {
			return err
		}
		c := &loaded.Config
		if loaded.Origin("scheduler/log/level").From == config.FromDefault {
			c.Scheduler.Log.Level = document.Some("warn") // the terminal is for people
		}
		var plan *app.Plan
		if c.Up.Kubernetes.Value() {
			if plan, err = app.PlanUp(c); err != nil {
				return err
			}
			if err := consent(cmd, plan, yes); err != nil {
				return err
			}
		}
		up, err := app.NewUp(cmd.Context(), c, readBuild().Version, app.NewLog(&c.Scheduler.Log, os.Stderr))
		if err != nil {
			return err
		}
		up.Ready = func() error {
			greet(cmd.OutOrStdout(), up, plan)
			return writePortFile(c.Up.PortFile.Value(), up.Scheduler.Address)
		}
		return up.Run(cmd.Context())
	}
	return cmd
}

// consent shows what weir up would do to a Kubernetes cluster, and asks the user unless the cluster is for trying things.
func consent(cmd *cobra.Command, plan *app.Plan, yes bool) error {
	w := cmd.ErrOrStderr()
	cluster := "the Kubernetes cluster at " + plan.Address
	if plan.Context != "" {
		cluster = fmt.Sprintf("the Kubernetes cluster %s at %s", plan.Context, plan.Address)
	}
	fmt.Fprintf(w, "In %s, weir up will\n", cluster)
	for _, step := range plan.Steps {
		fmt.Fprintf(w, "  - %s\n", step)
	}
	fmt.Fprintln(w)
	if yes || plan.Harmless {
		return nil
	}
	fmt.Fprint(w, "Continue? [y/N] ")
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(w)
		return usageErrorf("nobody answered: --yes continues without a question")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return usageErrorf("nothing was changed")
}

// greet tells a new user where the cluster is and what to try.
func greet(w io.Writer, up *app.Up, plan *app.Plan) {
	nodes := "1 node"
	if len(up.Nodes) != 1 {
		nodes = fmt.Sprintf("%d nodes", len(up.Nodes))
	}
	if plan == nil {
		fmt.Fprintf(w, "A cluster of %s is up at %s (state in %s).\n\n", nodes, up.Scheduler.URL, up.Directory)
	} else {
		fmt.Fprintf(w, "A scheduler for the Kubernetes cluster at %s is up at %s (state in %s).\n\n", plan.Address, up.Scheduler.URL, up.Directory)
	}
	if up.Scheduler.Address != client.DefaultAddress {
		fmt.Fprintf(w, "  export WEIR_ADDR=%s\n", up.Scheduler.Address)
	}
	weir := programName()
	tries := [][2]string{{"run -- 'echo hello from $YT_JOB_ID'", "run a command"}, {"pools", "what each pool is entitled to and uses"}}
	if plan == nil {
		tries = append(tries, [2]string{"set //sys/pools/research/@weight 3", "change a weight and look again"})
	} else {
		tries = append(tries, [2]string{"nodes", "the nodes of the cluster, and why some get no jobs"})
	}
	for _, try := range tries {
		fmt.Fprintf(w, "  %s %-38s # %s\n", weir, try[0], try[1])
	}
	fmt.Fprintf(w, "\nOther programs act as root with a token, and without one they may only read. Both lines are valid until the cluster stops:\n\n"+
		"  %s/#signin=%s   # the page; signs in once\n"+
		"  export YT_PROXY=%s YT_TOKEN=%s   # clients of YTsaurus\n",
		up.Scheduler.URL, up.Scheduler.Key.NewCode(), up.Scheduler.URL, up.Scheduler.Key.Reveal())
	fmt.Fprint(w, "\nCtrl-C stops it.\n")
}

// programName is how the user calls this program: by its name if their shell finds it, else as it was called
// now.
func programName() string {
	const name = "weir"
	found, err := exec.LookPath(name)
	self, selfErr := os.Executable()
	if err == nil && selfErr == nil && found == self {
		return name
	}
	return os.Args[0]
}
