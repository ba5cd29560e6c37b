package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/command/config"
)

// binder adds the flags of a section's settings to a command.
type binder func(cmd *cobra.Command, section string) *config.Flags

// newRootCommand builds a new command tree, so that no flag value of one call remains for
// the next. If it is given the words of a command line, daemons that they do not name have no flags for their
// settings: there are hundreds, and making them takes longer than most commands.
func newRootCommand(words ...string) *cobra.Command {
	bind := func(cmd *cobra.Command, section string) *config.Flags {
		if len(words) > 0 && !slices.Contains(words, cmd.Name()) {
			return nil
		}
		return config.Bind(cmd.Flags(), section)
	}
	opts := &options{output: outputTable}
	root := &cobra.Command{
		Use:   "weir",
		Short: "A hierarchical fair-share cluster scheduler with guarantees over time",
		Long: `Weir shares a cluster between pools: fairly by weight, with strong guarantees,
and with guarantees over time (burst and relaxed pools that save what they do not use).

Exit codes: 0 done, 1 failed or answered "no", 2 usage error, 130 interrupted.`,
		Example: `  # Who is entitled to what in a tree described by a file
  weir shares examples/production-research.yaml

  # Check whether the promises of that tree fit its cluster
  weir check examples/production-research.yaml

  # Run the scheduler over a workload on virtual time
  weir simulate examples/simulate/starvation.yaml

  # Start a cluster on this machine, run a command, show the pools
  weir up &
  weir run -- echo hello
  weir pools`,
		Version:            readBuild().Version,
		SilenceErrors:      true, // Main prints them, once
		SilenceUsage:       true,
		DisableSuggestions: true, // Main prints its own
		CompletionOptions:  cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("weir {{.Version}}\n")
	opts.addTo(root)
	root.AddCommand(
		newApplyCommand(opts),
		newAuditCommand(opts),
		newNotifyCommand(opts),
		newBackupCommand(opts),
		newCheckCommand(opts),
		newCompletionCommand(),
		newConfigCommand(opts),
		newContextCommand(opts),
		newCopyCommand(opts),
		newCreateCommand(opts),
		newDiffCommand(opts),
		newEventsCommand(opts),
		newExistsCommand(opts),
		newExplainCommand(opts),
		newForecastCommand(opts),
		newExportCommand(opts),
		newGetCommand(opts),
		newJobCommand(opts),
		newJournalCommand(opts),
		newKubeCommand(opts),
		newLinkCommand(opts),
		newListCommand(opts),
		newMoveCommand(opts),
		newOpCommand(opts),
		newPoolsCommand(opts),
		newRemoveCommand(opts),
		newReplayCommand(),
		newReportCommand(opts),
		newRestoreCommand(),
		newRunCommand(opts),
		newSetCommand(opts),
		newNodeCommand(bind),
		newNodesCommand(opts),
		newProxyCommand(),
		newSupervisorCommand(),
		newInitCommand(),
		newCopyPodCommand(),
		newSchedulerCommand(bind),
		newSharesCommand(opts),
		newSimulateCommand(opts),
		newTokenCommand(opts),
		newImageCommand(opts),
		newUpCommand(bind),
		newVersionCommand(opts),
		newWhatIfCommand(opts),
		newWhoAmICommand(opts),
	)
	root.SetHelpCommand(newHelpCommand())
	return root
}
