//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/fakenode"
)

// observed is what must survive a leader, apart from acknowledged changes.
type observed struct {
	volume float64 // volume of the pool "savings", in core seconds
	factor float64 // the reserved fraction of the memory limit for jobs of the lesson
}

// observe queries the leader. It waits until the leader has these values.
func (c *cluster) observe(lesson *started) (o observed) {
	c.t.Helper()
	await(c.t, "the leader shows the volume of a pool", func() bool {
		answer := c.ask(get("//sys/scheduler/orchid/scheduler/pool_trees/default/pools/savings/accumulated_resource_volume/cpu"))
		o.volume, _ = answer.Double()
		return o.volume > 0
	})
	answer := c.ask(getOperation(lesson.id, "progress"))
	factor, err := dig(answer, "progress", "memory_reserves", "lesson", "user_job_factor")
	if err != nil {
		c.t.Fatal(err)
	}
	o.factor, _ = factor.Double()
	return o
}

// storedVolume reads the volume of a pool that an ended leader has stored. It reads a copy of the
// SQLite file, so that the next leader finds the file unchanged.
func (c *cluster) storedVolume() (volume float64) {
	c.t.Helper()
	url := c.url
	if path, isFile := strings.CutPrefix(url, "sqlite:"); isFile {
		directory, err := os.MkdirTemp(c.directory, "copy")
		if err != nil {
			c.t.Fatal(err)
		}
		defer os.RemoveAll(directory)
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(path + suffix)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				c.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(directory, "weir.db"+suffix), data, 0o600); err != nil {
				c.t.Fatal(err)
			}
		}
		url = "sqlite:" + filepath.Join(directory, "weir.db")
	}
	c.lookAt(url, func(ctx context.Context, db *store.Store) error {
		state, err := db.Load(ctx)
		if err != nil {
			return err
		}
		for _, row := range state.Rows.Volumes {
			if row.Pool == "savings" {
				var kept fairshare.State
				if err := json.Unmarshal(row.Volume, &kept); err != nil {
					return err
				}
				volume = kept.Volume[resource.CPU]
			}
		}
		return nil
	})
	return volume
}

// tolerance is that of volumes, which are sums of many small amounts.
const tolerance = 0.01

// checkVolume compares what a pool had saved before the leader was killed, what was stored, and what it
// has now: at most one update is lost, and the time without a leader adds nothing. It returns the
// number of lost updates.
func (c *cluster) checkVolume(before, after observed, stored float64, leader *scheduler) (lost float64) {
	c.t.Helper()
	update := flow * c.settings.update.Seconds()
	lost = max(0, (before.volume-stored)/update)
	// On a busy machine an update is a little late, and then accounts for that time too.
	if lost > 1.5 {
		c.t.Errorf("the pool had saved %v, but %v was stored: %.2f updates are lost", before.volume, stored, lost)
	}
	led := time.Since(leader.ledSince())
	if gained := after.volume - stored; gained < -tolerance || gained > flow*led.Seconds()+update+tolerance {
		c.t.Errorf("%v of the pool's savings were stored, now there are %v, after %v under the new leader", stored, after.volume, led)
	}
	return lost
}

// learnt reports whether a factor differs from the default.
func learnt(factor float64) bool { return factor > 0 && math.Abs(factor-defaultFactor) > 0.1 }

// checkBooks checks that the books of guarantees are the integral of their log.
func (c *cluster) checkBooks() {
	c.t.Helper()
	report := c.ask(command{name: "get_report", parameters: []yson.Entry{yson.Pair("report", yson.String("guarantees")), yson.Pair("verify", yson.Boolean(true))}})
	equal, err := dig(report, "verification", "equal")
	if err != nil {
		c.t.Fatal(err)
	}
	if is, _ := equal.Boolean(); !is {
		c.t.Errorf("the books of guarantees differ from their log: %v", report)
	}
}

// checkFactor checks that the learnt memory factor has survived.
func (c *cluster) checkFactor(before, after observed) {
	c.t.Helper()
	if learnt(before.factor) && math.Abs(after.factor-before.factor) > 0.05 {
		c.t.Errorf("the reserve was learnt to be %v of the limit and is %v now", before.factor, after.factor)
	}
}

// checkAlerts checks that the leader has no alert that points to a bug.
func (c *cluster) checkAlerts() {
	c.t.Helper()
	for _, kind := range []string{"invariants_violated", "operations_not_revived", "retention_failed", "history_not_stored"} {
		for _, alert := range c.alerts() {
			if strings.HasPrefix(alert, kind+":") {
				c.t.Error(alert)
			}
		}
	}
}

// alerts returns the leader's alerts, each as its kind and its message.
func (c *cluster) alerts() (list []string) {
	c.t.Helper()
	for _, alert := range c.ask(get("//sys/scheduler/@alerts")).Items() {
		kind, _ := dig(alert, "attributes", "alert_type")
		message, _ := dig(alert, "message")
		word, _ := kind.Text()
		text, _ := message.Text()
		list = append(list, word+": "+text)
	}
	return list
}

// archive holds the stored jobs by number.
type archive map[uint64]store.Job

// checkOperations checks that every acknowledged operation is stored, and that the ended ones are
// complete. It returns how many have not ended.
func (c *cluster) checkOperations(l *load, into archive) (left int) {
	c.t.Helper()
	c.look(func(ctx context.Context, db *store.Store) error {
		for _, o := range l.operations() {
			if o.over {
				continue
			}
			row, err := db.OperationByID(ctx, o.id)
			if err != nil {
				c.t.Errorf("operation %s was acknowledged and is not stored: %v", o.id, err)
				o.over = true
				continue
			}
			if row.FinishTime.IsZero() {
				left++
				continue
			}
			o.over = true
			jobs, err := db.Jobs(ctx, store.JobFilter{Operation: row.Number, Limit: 1_000_000})
			if err != nil {
				return err
			}
			for _, job := range jobs.Jobs {
				into[job.Number] = job
				if job.StderrSize < longStory {
					continue
				}
				if output, err := db.JobOutput(ctx, job.Number, "stderr"); err != nil || len(output.Data) != longStory {
					c.t.Errorf("job %d wrote %d bytes, stored are %d: %v", job.Number, job.StderrSize, len(output.Data), err)
				}
			}
			if problem := c.wrongWith(o, row.State, jobs.Jobs); problem != "" {
				c.t.Errorf("operation %s is %s: %s", o.id, row.State, problem)
			}
		}
		return nil
	})
	return left
}

// wrongWith describes what is wrong with an ended operation; empty if nothing is.
func (c *cluster) wrongWith(o *started, state string, jobs []store.Job) string {
	completed := map[int32]uint64{}
	for _, job := range jobs {
		switch {
		case job.State == "completed":
			if other, twice := completed[job.Cookie]; twice {
				return fmt.Sprintf("jobs %d and %d have both completed for cookie %d", other, job.Number, job.Cookie)
			}
			completed[job.Cookie] = job.Number
		case job.State == "aborted" && !o.aborted && !slices.Contains(c.tolerated, job.AbortReason):
			return fmt.Sprintf("job %d was aborted: %s", job.Number, job.AbortReason)
		}
	}
	switch {
	case o.aborted && (state == "aborted" || state == "completed"):
		return ""
	case state != "completed":
		return "nobody has aborted it and its jobs may fail"
	case int64(len(completed)) != o.jobs:
		return fmt.Sprintf("%d jobs have completed, not %d", len(completed), o.jobs)
	}
	return ""
}

// checkPools compares all pools of the teams with what was acknowledged. Users have stopped.
func (c *cluster) checkPools(l *load) {
	c.t.Helper()
	there := map[string]bool{}
	for i := range teams {
		for _, e := range c.ask(get("//sys/pool_trees/default/" + team(i))).Entries() {
			there[poolPath(team(i), e.Key)] = true
		}
	}
	for path, weight := range l.pools {
		if !there[path] {
			c.t.Errorf("%s was acknowledged and is not there", path)
			continue
		}
		delete(there, path)
		if err := l.checkWeight(c.t.Context(), path, weight); err != nil {
			c.t.Error(err)
		}
	}
	for path := range there {
		c.t.Errorf("the removal of %s was acknowledged, and it is there", path)
	}
}

// checkLedger compares what happened on nodes with what is stored: every acknowledged result exists, no
// job ran twice, and none was stopped because a leader did not know it.
func (c *cluster) checkLedger(l *load, stored archive) {
	c.t.Helper()
	aborted := map[string]bool{}
	for _, o := range l.operations() {
		aborted[o.id] = o.aborted
	}
	entries := c.nodes.Ledger()
	for _, problem := range fakenode.Problems(entries) {
		c.t.Error(problem)
	}
	type work struct {
		operation string
		cookie    int32
	}
	runs := map[work][]fakenode.Entry{}
	for _, e := range entries {
		of := e.Identity.GetOperationId()
		row, there := stored[e.Job]
		want := map[nodev1.JobState]string{
			nodev1.JobState_JOB_STATE_COMPLETED: "completed", nodev1.JobState_JOB_STATE_FAILED: "failed",
			nodev1.JobState_JOB_STATE_ABORTED: "aborted",
		}[e.State]
		switch {
		case aborted[of]: // a job may end by itself before it is stopped
		case e.State == nodev1.JobState_JOB_STATE_ABORTED && !slices.Contains(c.tolerated, e.Reason):
			c.t.Errorf("job %d of operation %s was aborted on %s: %s", e.Job, of, e.Node, e.Reason)
		case !e.AcknowledgedAt.IsZero() && (!there || row.State != want):
			c.t.Errorf("the result of job %d of operation %s was acknowledged as %s, and is stored as %q", e.Job, of, want, row.State)
		}
		key := work{of, e.Identity.GetCookie()}
		runs[key] = append(runs[key], e)
	}
	for key, list := range runs {
		slices.SortFunc(list, func(a, b fakenode.Entry) int { return a.StartedAt.Compare(b.StartedAt) })
		for i := 1; i < len(list); i++ {
			if before := &list[i-1]; before.State == nodev1.JobState_JOB_STATE_COMPLETED || before.FinishedAt.After(list[i].StartedAt) {
				c.t.Errorf("job %d of operation %s does what job %d does or has done", list[i].Job, key.operation, before.Job)
			}
		}
	}
}

// checkLogs checks that no scheduler has logged an error or refused to adopt a job.
func (c *cluster) checkLogs() {
	c.t.Helper()
	for _, s := range c.schedulers {
		for _, bad := range []string{"level=ERROR", "a job cannot be adopted", "panic", "DATA RACE"} {
			if lines := s.lines(bad); len(lines) > 0 {
				c.t.Errorf("%d lines in the log of %s, such as: %s", len(lines), s.address, lines[0])
			}
		}
	}
}

// finish waits until everything has ended, and checks all of it.
func (c *cluster) finish(l *load, stored archive, endless ...*started) {
	c.t.Helper()
	l.stop()
	for _, o := range endless {
		ctx, cancel := l.patient()
		if err := l.abort(ctx, o); err != nil {
			c.t.Error(err)
		}
		cancel()
	}
	await(c.t, "all operations are over", func() bool { return c.checkOperations(l, stored) == 0 })
	c.awaitNodes(func(t fakenode.Totals) bool { return t.Running == 0 && t.Unreported == 0 })
	c.checkPools(l)
	c.checkLedger(l, stored)
	c.checkBooks()
	c.checkAlerts()
	c.checkLogs()
}
