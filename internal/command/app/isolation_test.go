package app

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/document"
)

// machine answers probes: it allows the levels up to one, and users of jobs if it has them.
func machine(allows jobinit.Level, users bool) func(jobinit.Level, uint32) error {
	return func(level jobinit.Level, uid uint32) error {
		switch {
		case level > allows:
			return &jobinit.Unavailable{Cause: jobinit.NoNamespaces, Err: syscall.EPERM}
		case uid != 0 && !users:
			return &jobinit.Unavailable{Cause: jobinit.NoUsers, Err: syscall.EINVAL}
		}
		return nil
	}
}

// said is how a node isolates jobs, in words.
func said(i agent.Isolation) string {
	runAs := runAsAgent
	switch {
	case i.LocalUsers:
		runAs = runAsUser
	case i.UIDs != agent.UIDRange{}:
		runAs = runAsJob
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", i.Level, runAs, i.Cause))
}

func TestANodeIsolatesJobsAsFarAsTheMachineAllows(t *testing.T) {
	for _, test := range []struct {
		name        string
		level, user string // of the settings
		root        bool
		allows      jobinit.Level
		users       bool
		want        string
	}{
		{"root", "", "", true, jobinit.Full, true, "full job"},
		{"a container whose users end early", "", "", true, jobinit.Full, false, "full agent no_users"},
		{"a machine that cannot change its root", "", "", true, jobinit.SharedFiles, true, "shared_files job no_namespaces"},
		{"a container without permissions", "", "", true, jobinit.None, true, "none job no_namespaces"},
		{"a container without any", "", "", true, jobinit.None, false, "none agent no_namespaces"},
		{"a person", "", "", false, jobinit.Full, false, "full agent not_root"},
		{"a person without user namespaces", "", "", false, jobinit.None, false, "none agent no_namespaces"},
		{"accounts", "", "user", true, jobinit.Full, true, "full user"},
		{"the agent's user", "", "agent", true, jobinit.Full, true, "full agent configured"},
		{"shared files", "shared_files", "", true, jobinit.Full, true, "shared_files job configured"},
		{"nothing", "none", "", true, jobinit.Full, true, "none agent configured"},
		{"nothing but users", "none", "job", true, jobinit.Full, true, "none job configured"},
		{"nothing, for a person", "none", "", false, jobinit.None, false, "none agent configured"},
	} {
		c := config.Default().Node.Isolation
		if test.level != "" {
			c.Level = document.Some(test.level)
		}
		if test.user != "" {
			c.RunAs = document.Some(test.user)
		}
		i, err := isolationOf(&c, test.root, machine(test.allows, test.users))
		if got := said(i); err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

func TestANodeRefusesALevelThatItsMachineDoesNotAllow(t *testing.T) {
	refused := func(level, user string, root bool, probe func(jobinit.Level, uint32) error, words string) {
		t.Helper()
		c := config.Default().Node.Isolation
		if level != "" {
			c.Level = document.Some(level)
		}
		if user != "" {
			c.RunAs = document.Some(user)
		}
		if i, err := isolationOf(&c, root, probe); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s, %v; want an error with %q", said(i), err, words)
		}
	}
	refused("full", "", true, machine(jobinit.None, true), "does not allow level full with jobs that run as job: no_namespaces: operation not permitted")
	refused("full", "", false, machine(jobinit.None, true), "does not allow level full with jobs that run as agent")
	refused("none", "job", true, machine(jobinit.None, false), "no_users")
	refused("", "job", false, machine(jobinit.Full, true), "only root")
	broken := errors.New("the disk is full")
	refused("", "", true, func(jobinit.Level, uint32) error { return broken }, broken.Error())
}

// Attack 20: a job gets the user id of one that has ended, and with it what that left in a shared directory.
func TestPathsThatJobsWriteToNeedConsent(t *testing.T) {
	anything := machine(jobinit.Full, true)
	c := config.Default().Node.Isolation
	c.Writable = document.Some([]string{"/data"})
	if _, err := isolationOf(&c, true, anything); err == nil || !strings.Contains(err.Error(), "isolation/share_writable_paths") {
		t.Errorf("%v, want that writable paths are refused", err)
	}
	if _, err := isolationOf(&c, false, anything); err != nil {
		t.Errorf("jobs that run as the agent: %v", err)
	}
	c.RunAs = document.Some(runAsUser)
	if _, err := isolationOf(&c, true, anything); err != nil {
		t.Errorf("jobs that run as accounts: %v", err)
	}
	c.RunAs, c.ShareWritable = config.Default().Node.Isolation.RunAs, document.Some(true)
	if i, err := isolationOf(&c, true, anything); err != nil || said(i) != "full job" {
		t.Errorf("%s, %v", said(i), err)
	}
}
