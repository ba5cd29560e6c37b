package app

import (
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// patchSetting is the registry document that the API shows as //sys/scheduler/config: the
// administrators' changes while schedulers run.
const patchSetting = "scheduler_config"

// checkPatch validates a patch of the configuration.
func (s *Scheduler) checkPatch(patch document.Value) (document.Problems, error) {
	_, warnings, err := s.running.Load().Patched(patch)
	return warnings, err
}

// derived returns a server's settings from its configuration and the stored patch. If the patch
// does not fit the configuration, which may have changed since, it is ignored as a whole, with an
// error in the log.
func (s *Scheduler) derived(r *server.Registry) server.Settings {
	c := s.running.Load()
	data, there := r.Setting(patchSetting)
	if !there {
		return settingsOf(c)
	}
	patch, err := notation.ParseJSON(patchSetting, data)
	if err != nil {
		s.log.Error("//sys/scheduler/config cannot be read and is left out", "error", err)
		return settingsOf(c)
	}
	patched, _, err := c.Patched(patch)
	if err != nil {
		s.log.Error("//sys/scheduler/config does not fit the configuration and is left out", "error", err)
		return settingsOf(c)
	}
	if changes, err := config.Runtime(&config.Config{Scheduler: *c}, &config.Config{Scheduler: *patched}); err == nil {
		for _, change := range changes {
			s.log.Info("a setting of //sys/scheduler/config holds", "setting", change.Option, "configured", change.Old.String(), "value", change.New.String())
		}
	}
	return settingsOf(patched)
}
