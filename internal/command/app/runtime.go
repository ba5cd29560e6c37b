package app

import (
	"log/slog"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// patchSetting is the registry document that the API shows as //sys/scheduler/config: the
// administrators' changes while schedulers run.
const patchSetting = "scheduler_config"

// checkPatch returns a validator for patches of a configuration.
func checkPatch(c *config.Scheduler) func(document.Value) (document.Problems, error) {
	return func(patch document.Value) (document.Problems, error) {
		_, warnings, err := c.Patched(patch)
		return warnings, err
	}
}

// derived returns a server's settings from its configuration and the stored patch. If the patch
// does not fit the configuration, which may have changed since, it is ignored as a whole, with an
// error in the log.
func derived(c *config.Scheduler, log *slog.Logger) func(*server.Registry) server.Settings {
	return func(r *server.Registry) server.Settings {
		data, there := r.Setting(patchSetting)
		if !there {
			return settingsOf(c)
		}
		patch, err := notation.ParseJSON(patchSetting, data)
		if err != nil {
			log.Error("//sys/scheduler/config cannot be read and is left out", "error", err)
			return settingsOf(c)
		}
		patched, _, err := c.Patched(patch)
		if err != nil {
			log.Error("//sys/scheduler/config does not fit the configuration and is left out", "error", err)
			return settingsOf(c)
		}
		if changes, err := config.Runtime(&config.Config{Scheduler: *c}, &config.Config{Scheduler: *patched}); err == nil {
			for _, change := range changes {
				log.Info("a setting of //sys/scheduler/config holds", "setting", change.Option, "configured", change.Old.String(), "value", change.New.String())
			}
		}
		return settingsOf(patched)
	}
}
