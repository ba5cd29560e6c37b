package app

import (
	"log/slog"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// patchSetting is the document of the registry that the API shows as
// //sys/scheduler/config: what administrators have changed while schedulers ran.
const patchSetting = "scheduler_config"

// checkPatch says what is wrong with a patch of a configuration.
func checkPatch(c *config.Scheduler) func(document.Value) (document.Problems, error) {
	return func(patch document.Value) (document.Problems, error) {
		_, warnings, err := c.Patched(patch)
		return warnings, err
	}
}

// derived returns the settings of a server by its configuration and the patch
// that is stored. A patch that does not fit the configuration, which may have
// changed since, is left out as a whole and loudly.
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
