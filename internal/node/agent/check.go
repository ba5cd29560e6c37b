package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Check is a command of the administrator that says whether the node is well: it ends with 0 if so, with 1 if the node
// must not take jobs, with 2 if people should know. The first line that it writes is the reason.
type Check struct {
	Command         string // for the shell; unset: there is none
	Period, Timeout time.Duration
	// AlertOnly keeps a node that fails the check at work.
	AlertOnly bool
}

// Codes with which a check ends.
const (
	checkWell   = 0
	checkUnwell = 1 // like all others
	checkAlert  = 2
)

// checksInARow is how many failures disable a node, and how many successes enable it again: a single failure may be an
// accident. The first check of an agent decides alone.
const checksInARow = 3

// checkState is what the checks have said so far.
type checkState struct {
	running             bool
	next                time.Time // when the next check is due
	begun               bool      // a check has ended
	failures, successes int       // in a row
	disables            bool      // the node takes no jobs
	reason              string    // what the last check that did not succeed said
}

// apply counts the outcome of a check. text is what it said.
func (s *checkState) apply(code int, text string) {
	first := !s.begun
	s.begun = true
	if code == checkWell || code == checkAlert {
		s.failures = 0
		if s.successes++; first || s.successes >= checksInARow {
			s.disables = false
		}
		switch {
		case code == checkAlert:
			s.reason = text
		case !s.disables:
			s.reason = ""
		}
		return
	}
	s.successes, s.reason = 0, text
	if s.failures++; first || s.failures >= checksInARow {
		s.disables = true
	}
}

// checkNode runs the administrator's check if it is time, outside the loop.
func (a *Agent) checkNode(now time.Time) {
	s := &a.checks
	if a.Check.Command == "" || s.running || now.Before(s.next) {
		return
	}
	s.running, s.next = true, now.Add(a.Check.Period)
	a.work(func() {
		code, text := a.Check.run(a.ctx)
		a.post(func() {
			s.running = false
			if a.ctx.Err() == nil {
				a.judgeCheck(code, text)
			}
		})
	})
}

// judgeCheck applies the outcome of a check.
func (a *Agent) judgeCheck(code int, text string) {
	before := a.checks
	a.checks.apply(code, text)
	if now := a.checks; now.disables != before.disables || now.reason != before.reason || !before.begun {
		if now.reason == "" {
			a.Log.Info("the health check succeeds")
		} else {
			a.Log.Warn("the health check complains", "reason", now.reason, "takes_jobs", a.refusal() == "")
		}
	}
	a.admit()
	a.tellNode()
}

// run runs the command with all its children in a process group, which ends with it.
func (c *Check) run(ctx context.Context) (code int, text string) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	command := exec.CommandContext(ctx, "/bin/sh", "-c", c.Command)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.Cancel, command.WaitDelay = kill, time.Second
	var out checkOutput
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	if command.Process != nil {
		_ = kill() // children that it left behind; there may be none
	}
	text = out.firstLine()
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return checkUnwell, fmt.Sprintf("the command did not end within %v", c.Timeout)
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		if text == "" {
			text = fmt.Sprintf("the command ended with %d and said nothing", exit.ExitCode())
		}
		return exit.ExitCode(), text
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return checkUnwell, "the command cannot be run: " + err.Error()
	}
	return checkWell, text
}

// checkOutput keeps the beginning of what a command writes.
type checkOutput struct{ bytes.Buffer }

const maxCheckOutput = 1 << 10

func (o *checkOutput) Write(data []byte) (int, error) {
	if room := maxCheckOutput - o.Len(); room > 0 {
		o.Buffer.Write(data[:min(room, len(data))])
	}
	return len(data), nil
}

func (o *checkOutput) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(o.String()), "\n")
	return strings.ToValidUTF8(line, "?")
}

// refusal says why the node takes no jobs; it is empty if it does.
func (a *Agent) refusal() string {
	switch {
	case a.health.refuses():
		return a.health.String()
	case a.Check.Command == "" || a.Check.AlertOnly:
		return ""
	case !a.checks.begun:
		return "health_check: the node takes no jobs before its first health check has ended"
	case a.checks.disables:
		return "health_check: the node takes no jobs: " + a.checks.reason
	}
	return ""
}

// checkAlerts are the alerts of the health check for the scheduler.
func (a *Agent) checkAlerts() []string {
	switch {
	case a.health.refuses() || a.refusal() == "":
		if a.checks.reason != "" {
			return []string{"health_check: " + a.checks.reason}
		}
		return nil
	}
	return []string{a.refusal()}
}
