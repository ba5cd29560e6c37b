package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

func TestChecksDisableANodeAndEnableIt(t *testing.T) {
	type outcome struct {
		code int
		text string
	}
	well, bad, note := outcome{0, "fine"}, outcome{1, "the fan stands still"}, outcome{2, "a disk is old"}
	for _, test := range []struct {
		name     string
		outcomes []outcome
		disables bool
		reason   string
	}{
		{"the first one fails", []outcome{bad}, true, "the fan stands still"},
		{"then one succeeds", []outcome{bad, well}, true, "the fan stands still"},
		{"then three succeed", []outcome{bad, well, well, well}, false, ""},
		{"but not in a row", []outcome{bad, well, well, bad, well, well}, true, "the fan stands still"},
		{"the first one succeeds", []outcome{well}, false, ""},
		{"then two fail", []outcome{well, bad, bad}, false, "the fan stands still"},
		{"then three fail", []outcome{well, bad, bad, bad}, true, "the fan stands still"},
		{"but not in a row", []outcome{well, bad, bad, well, bad, bad}, false, "the fan stands still"},
		{"another code is a failure", []outcome{well, {9, "x"}, {127, "y"}, {3, "z"}}, true, "z"},
		{"people should know", []outcome{well, note}, false, "a disk is old"},
		{"and no longer", []outcome{well, note, well}, false, ""},
		{"the first one tells people", []outcome{note}, false, "a disk is old"},
	} {
		var s checkState
		for _, o := range test.outcomes {
			s.apply(o.code, o.text)
		}
		if s.disables != test.disables || s.reason != test.reason {
			t.Errorf("%s: disables %v, %q; want %v, %q", test.name, s.disables, s.reason, test.disables, test.reason)
		}
	}
}

func TestWhatACheckSays(t *testing.T) {
	for command, want := range map[string]struct {
		code int
		text string
	}{
		"echo well; echo more":                  {0, "well"},
		"true":                                  {0, ""},
		"echo the fan stands still >&2; exit 1": {1, "the fan stands still"},
		"exit 2":                                {2, "the command ended with 2 and said nothing"},
		"/no/such/program":                      {127, "not found"},
		"kill -9 $$":                            {1, "signal: killed"},
		"sleep 1000 & echo left one behind":     {0, "left one behind"},
		"head -c 100000 /dev/zero | tr '\\0' x; exit 1": {1, strings.Repeat("x", maxCheckOutput)},
	} {
		check := Check{Command: command, Timeout: time.Minute}
		if code, text := check.run(t.Context()); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d, %q; want %d, %q", command, code, text, want.code, want.text)
		}
	}
	hangs := Check{Command: "echo hangs; exec tail -f /dev/null", Timeout: 50 * time.Millisecond}
	if code, text := hangs.run(context.Background()); code != checkUnwell || text != "the command did not end within 50ms" {
		t.Errorf("a command that hangs: %d, %q", code, text)
	}
}

func TestANodeThatFailsItsCheckTakesNoJobs(t *testing.T) {
	a := newGPUNode()
	a.Check = Check{Command: "check", Period: time.Minute, Timeout: time.Minute}
	a.start(&nodeproto.Start{Identity: &nodev1.JobIdentity{Number: 8}, Spec: &nodev1.JobSpec{}})
	if r := a.jobs[8].result; r.GetAbortReason() != "node_with_disabled_jobs" || !strings.Contains(r.GetError().GetMessage(), "first health check") {
		t.Errorf("before the first check: %v", r)
	}
	a.judgeCheck(checkWell, "")
	if a.status.GetDraining() || len(a.status.GetAlerts()) != 0 {
		t.Errorf("a node that is well: draining %v, alerts %q", a.status.GetDraining(), a.status.GetAlerts())
	}
	for range checksInARow {
		a.judgeCheck(checkUnwell, "the fan stands still")
	}
	want := "health_check: the node takes no jobs: the fan stands still"
	if !a.status.GetDraining() || len(a.status.GetAlerts()) != 1 || a.status.GetAlerts()[0] != want {
		t.Errorf("a node that is unwell: draining %v, alerts %q", a.status.GetDraining(), a.status.GetAlerts())
	}
	a.start(&nodeproto.Start{Identity: &nodev1.JobIdentity{Number: 9}, Spec: &nodev1.JobSpec{}})
	if r := a.jobs[9].result; r.GetError().GetMessage() != want {
		t.Errorf("a job on a node that is unwell: %v", r)
	}
	a.Check.AlertOnly = true
	a.judgeCheck(checkUnwell, "the fan stands still")
	if a.status.GetDraining() || a.status.GetAlerts()[0] != "health_check: the fan stands still" {
		t.Errorf("with on_failure alert: draining %v, alerts %q", a.status.GetDraining(), a.status.GetAlerts())
	}
}
