package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/node/programs"
)

func newNodeCommand(bind binder) *cobra.Command {
	daemon := &daemonFlags{}
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run the agent of one machine, which runs jobs in control groups and reports to the scheduler",
		Long: `Run the agent of this machine until it receives a signal to stop. Jobs keep running when the agent stops,
and the next agent adopts them.

Settings come from flags, WEIR_NODE_… variables and the file of --config; weir config show node
prints them. The agent notices when its token and certificates change, and reads them again on SIGHUP.
Without control groups the agent warns and enforces process limits instead.`,
		Example: `  # What this machine has, for the scheduler at a.example
  weir node --schedulers a.example:7070 --data-dir ./node &

  # A part of it, with tags for node filters
  weir node --schedulers a.example:7070 --resources '{cpu: 8, memory: 16GiB, user_slots: 8}' --tags gpu,fast &`,
		Args: cobra.NoArgs,
	}
	flags := bind(cmd, config.NodeSection)
	cmd.Flags().StringVarP(&daemon.file, "config", "f", "", "configuration file; if unset, the one that "+configFileVariable+" names, if any")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := daemon.load(cmd, config.NodeSection, flags)
		if err != nil {
			return err
		}
		c := &loaded.Config.Node
		node, err := app.NewNode(cmd.Context(), c, readBuild().Version, app.NewLog(&c.Log, os.Stderr))
		if err != nil {
			return err
		}
		onHangup(cmd.Context(), node.Reload)
		return node.Run(cmd.Context())
	}
	return cmd
}

// newSupervisorCommand is the supervisor of jobs, for a program without the small one. Agents start it, people do not.
func newSupervisorCommand() *cobra.Command {
	return &cobra.Command{
		Use: app.SupervisorCommand + " DIRECTORY", Hidden: true, Args: cobra.ExactArgs(1), DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := jobproxy.Supervise(args[0], []string{"/proc/self/exe", jobproxy.InitCommand}); code != 0 {
				return &jobExit{code}
			}
			return nil
		},
	}
}

// newInitCommand is the init of a job, for a program without the small one. Supervisors start it, people do not.
func newInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: jobproxy.InitCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if code := jobinit.Main(); code != 0 {
				return &jobExit{code}
			}
			return nil
		},
	}
}

// newCopyPodCommand writes the first process of a pod to a file. Pods of jobs call it, people do not.
func newCopyPodCommand() *cobra.Command {
	return &cobra.Command{
		Use: picture.CopyCommand + " FILE", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error { return programs.CopyPod(arguments[0]) },
	}
}

// newProxyCommand is the job proxy. Agents start it, people do not.
func newProxyCommand() *cobra.Command {
	return &cobra.Command{
		Use: app.ProxyCommand + " DIRECTORY", Hidden: true, Args: cobra.ExactArgs(1), DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := jobproxy.Main(args[0]); code != 0 {
				return &jobExit{code}
			}
			return nil
		},
	}
}
