package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/programs"
)

// Whom jobs run as.
const (
	runAsJob   = "job"
	runAsUser  = "user"
	runAsAgent = "agent"
)

// isolationChoice is a way to isolate jobs.
type isolationChoice struct {
	level jobinit.Level
	runAs string
}

// isolationChoices are the ways that the settings and the agent's user leave open, strongest first.
func isolationChoices(c *config.Isolation, root bool) (list []isolationChoice, err error) {
	levels := []jobinit.Level{jobinit.Full, jobinit.SharedFiles, jobinit.None}
	users := []string{runAsJob, runAsAgent}
	if text, given := c.Level.Get(); given {
		var level jobinit.Level
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, err
		}
		levels, users = []jobinit.Level{level}, []string{runAsJob}
		if level == jobinit.None {
			users = []string{runAsAgent}
		}
	}
	if !root {
		users = []string{runAsAgent}
	}
	if user, given := c.RunAs.Get(); given {
		if user != runAsAgent && !root {
			return nil, errors.New("isolation/run_as: only root can run jobs as other users")
		}
		users = []string{user}
	}
	for _, level := range levels {
		for _, user := range users {
			list = append(list, isolationChoice{level, user})
		}
	}
	return list, nil
}

// isolationOf is how the node isolates its jobs: the strongest way that the settings leave open and the machine allows.
// probe tries one with a user id, zero for the agent's. If the settings ask for a level that the machine does not allow,
// that is an error.
func isolationOf(c *config.Isolation, root bool, probe func(jobinit.Level, uint32) error) (i agent.Isolation, err error) {
	i.ReadOnly, i.Writable, i.Hide, i.AllowPtrace = c.ReadOnly.Value(), c.Writable.Value(), c.Hide.Value(), c.AllowPtrace.Value()
	if !root {
		// Jobs run as the agent's user, who may be root of a scheduler on this machine by its socket.
		i.Hide = append(slices.Clip(i.Hide), filepath.Dir(client.SocketPath("")))
	}
	choices, err := isolationChoices(c, root)
	if err != nil {
		return i, err
	}
	uids, err := agent.ParseUIDRange(c.UIDs.Value())
	if err == nil && choices[0].runAs == runAsJob {
		err = uids.CheckAccounts("/etc/passwd")
	}
	if err != nil {
		return i, fmt.Errorf("isolation/uids: %w", err)
	}
	for n, choice := range choices {
		uid := uint32(0)
		if choice.runAs != runAsAgent {
			uid = uids.First // of any user but root
		}
		if choice != (isolationChoice{jobinit.None, runAsAgent}) { // there is always a way to run a command as oneself
			err = probe(choice.level, uid)
		} else {
			err = nil
		}
		var refused *jobinit.Unavailable
		switch {
		case err != nil && !errors.As(err, &refused):
			return i, fmt.Errorf("isolation: %w", err)
		case err != nil && n == 0:
			i.Cause, i.Detail = refused.Cause, refused.Err.Error()
		}
		if err != nil {
			continue
		}
		i.Level, i.LocalUsers = choice.level, choice.runAs == runAsUser
		if choice.runAs == runAsJob {
			i.UIDs = uids
		}
		if choice.runAs == runAsJob && len(i.Writable) > 0 && !c.ShareWritable.Value() {
			return i, errors.New("isolation/writable_paths: a job may get the user id of one that has ended, and with it the files that it left there; " +
				"isolation/share_writable_paths accepts that, and isolation/run_as: user avoids it")
		}
		i.Cause = causeOf(c, &i, choice, root)
		return i, nil
	}
	return i, fmt.Errorf("isolation: the machine does not allow level %s with jobs that run as %s: %w; unset isolation/level to use the strongest level that it allows",
		choices[0].level, choices[0].runAs, err)
}

// causeOf is why a node does not isolate its jobs fully.
func causeOf(c *config.Isolation, i *agent.Isolation, chosen isolationChoice, root bool) jobinit.Cause {
	switch {
	case chosen.level == jobinit.Full && chosen.runAs != runAsAgent:
		return jobinit.NoCause
	case i.Cause != jobinit.NoCause:
		return i.Cause
	case !root && !c.Level.IsSet():
		return jobinit.NotRoot
	}
	return jobinit.Configured
}

// prober tries ways to isolate jobs with commands that do nothing, in directories below one.
func prober(initCommand []string, directory string) func(jobinit.Level, uint32) error {
	return func(level jobinit.Level, uid uint32) error {
		if err := os.MkdirAll(directory, 0o711); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		probed, err := os.MkdirTemp(directory, "probe-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(probed)
		if err := os.Chmod(probed, 0o711); err != nil {
			return err
		}
		return jobinit.Probe(initCommand, level, uid, probed)
	}
}

// tellIsolation logs how jobs are isolated.
func tellIsolation(i *agent.Isolation, log *slog.Logger) {
	if i.Cause == jobinit.NoCause {
		return
	}
	log.Warn("jobs are not isolated fully", "level", i.Level.String(), "cause", i.Cause.String(), "detail", i.Detail)
}

// programsOf are the commands that run the supervisor of jobs and an init. The small programs are put beside the node's
// data; without them this program plays their roles. The first command is nil if each job is to have a proxy of its own.
func programsOf(c *config.Node, program, directory string, log *slog.Logger) (supervisor, init []string, err error) {
	init = []string{program, jobproxy.InitCommand}
	if !c.Supervisor.Value() {
		return nil, init, nil
	}
	paths, err := programs.Install(filepath.Join(directory, "programs"))
	if errors.Is(err, programs.ErrNone) {
		log.Warn("jobs start more slowly and take more memory", "reason", err)
		return []string{program, SupervisorCommand}, init, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return []string{paths.Supervisor, paths.Init}, []string{paths.Init}, nil
}
