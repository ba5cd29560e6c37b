package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
)

func newSchedulerCommand(bind binder) *cobra.Command {
	daemon := &daemonFlags{}
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler, which manages pools and operations and assigns jobs to nodes",
		Long: `Run the scheduler until it receives a signal to stop. It stores its state in SQLite in the data directory, or in
PostgreSQL. Of several schedulers on one PostgreSQL database one leads; the others stand by and take over.

Settings come from flags, WEIR_SCHEDULER_… variables and the file of --config; weir config show
prints them. On SIGHUP the scheduler reads its configuration, keys and certificates again; it also
notices changed keys and certificates by itself. By default the scheduler listens on this machine only. Commands of root and of
the scheduler's own user on this machine need no token, because they use the scheduler's socket; everybody else needs one.`,
		Example: `  # On this machine, state in ./data
  weir scheduler --data-dir ./data &

  # One of several, state in PostgreSQL
  weir scheduler --listen :7070 --advertise a.example:7070 --store postgres://weir@db.example/weir &`,
		Args: cobra.NoArgs,
	}
	flags := bind(cmd, config.SchedulerSection)
	daemon.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := daemon.load(cmd, config.SchedulerSection, flags)
		if err != nil {
			return err
		}
		c := &loaded.Config.Scheduler
		log := app.NewLog(&c.Log, os.Stderr)
		scheduler, err := app.NewScheduler(cmd.Context(), c, readBuild().Version, log)
		if err != nil {
			return err
		}
		scheduler.OnReload(func() (*config.Scheduler, error) {
			again, err := daemon.load(cmd, config.SchedulerSection, flags)
			if err != nil {
				return nil, err
			}
			return &again.Config.Scheduler, nil
		})
		onHangup(cmd.Context(), scheduler.Reload)
		if err := writePortFile(daemon.portFile, scheduler.Address); err != nil {
			return err
		}
		return scheduler.Run(cmd.Context())
	}
	return cmd
}

// onHangup calls a function at every SIGHUP from now on.
func onHangup(ctx context.Context, f func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				f()
			}
		}
	}()
}

// daemonFlags are the flags that every long-running command has.
type daemonFlags struct {
	file     string
	portFile string
}

func (d *daemonFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&d.file, "config", "f", "", "configuration file; if unset, the one that "+configFileVariable+" names, if any")
	cmd.Flags().StringVar(&d.portFile, "port-file", "", "file to which the address is written once the scheduler listens, for scripts")
}

// load builds the effective configuration of a section.
func (d *daemonFlags) load(cmd *cobra.Command, section string, flags ...*config.Flags) (*config.Loaded, error) {
	var sources config.Sources
	if name := configFileName(d.file); name != "" {
		var err error
		if sources, err = readConfigFile(cmd, name); err != nil {
			return nil, err
		}
	}
	sources.Environ, sources.Flags = os.Environ(), flags
	loaded, warnings, err := config.Load(sources)
	printWarnings(cmd.ErrOrStderr(), warnings)
	if err != nil {
		return nil, shortenProblems(err)
	}
	return loaded, loaded.Require(section)
}

// writePortFile writes the address of a daemon for scripts. The file appears complete.
func writePortFile(name, address string) error {
	if name == "" {
		return nil
	}
	temporary := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
	if err := os.WriteFile(temporary, []byte(address+"\n"), 0o644); err != nil {
		return fmt.Errorf("port file: %w", err)
	}
	return os.Rename(temporary, name)
}
