package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/scheduling"
)

// tick runs once every update period.
func (t *term) tick(now time.Time) {
	t.now = t.clock()
	t.obeySettings()
	t.recording.Gated(t.now)
	if t.reviving {
		if len(t.awaited) > 0 && t.now.Before(t.deadline) {
			t.show() // shares are not computed before nodes are back
			t.showHeld()
			return
		}
		t.reviving = false
		if len(t.awaited) > 0 {
			t.server.log.Warn("nodes did not report in time; restarting their jobs", "nodes", len(t.awaited))
		}
		t.event(store.Event{Type: "scheduler_revived"}, fact{"missing_nodes", len(t.awaited)}, fact{"jobs", len(t.jobs)})
		clear(t.awaited)
	}
	watch := stopwatch{&t.server.counters.updateStages, now}
	due := t.core.UpdateDue(t.now)
	t.happens(&core.UpdateInput{})
	watch.lap(stageFairShare)
	t.take()
	if t.core.Assembles() {
		t.held.stir() // nodes whose heartbeats are held may have room for its jobs
	}
	t.storeClocks()
	t.followNodes()
	t.retryFilters()
	t.dropUploads()
	t.refreshProgress()
	watch.lap(stageRecord)
	t.show()
	t.showHeld()
	watch.lap(stagePublish)
	if t.server.settings().StarvationEvents {
		t.noticeStarvation()
	}
	t.handNews()
	t.enterClaims(due)
	t.noticeCycles()
	t.maybeFlushBooks()
	t.sampleHistory()
	t.selfCheck()
	t.forgetPools()
	watch.lap(stageObserve)
	t.server.counters.updated(time.Since(now))
}

// storeClocks stores the pools' volumes and the times since which elements starve. While the
// store accepts nothing it skips this: the next update would replace the values.
func (t *term) storeClocks() {
	if t.stalled() {
		return
	}
	t.states = t.core.PoolStates(t.states[:0])
	saving := 0
	clocks, running := map[string]*storedClocks{}, map[string]bool{}
	for _, name := range t.slots.names {
		clocks[name] = &storedClocks{Pools: map[string]storedClock{}, Operations: map[core.OperationID]storedClock{}}
	}
	for i := range t.states {
		s := &t.states[i]
		if s.Clock != (scheduling.Clock{}) {
			clocks[s.Tree].Pools[s.Pool] = storedClockOf(s.Clock)
			running[s.Tree] = running[s.Tree] || !s.Clock.BelowSince.IsZero()
		}
		if s.State == (fairshare.State{}) {
			continue
		}
		key, data := volumeKey{s.Tree, s.Pool}, mustJSON(s.State)
		if !bytes.Equal(t.volumes[key], data) {
			t.volumes[key] = data
			t.open.rows.Put.Volumes = append(t.open.rows.Put.Volumes, store.Volume{Tree: s.Tree, Pool: s.Pool, Updated: t.now, Volume: data})
		}
		saving++
	}
	if saving < len(t.volumes) {
		t.forgetVolumes()
	}
	for id := range t.operations {
		for _, p := range t.core.PlacesOf(id) {
			if p.Clock != (scheduling.Clock{}) {
				clocks[p.Tree].Operations[id] = storedClockOf(p.Clock)
				running[p.Tree] = running[p.Tree] || !p.Clock.BelowSince.IsZero()
			}
		}
	}
	for _, name := range t.slots.names {
		data := mustJSON(clocks[name])
		// A running clock is written again even if it has not changed: the row's time tells how
		// long it has run.
		if running[name] || !bytes.Equal(t.clocks[name], data) {
			t.clocks[name] = data
			t.open.rows.Put.Clocks = append(t.open.rows.Put.Clocks, store.Clock{Tree: name, Updated: t.now, Data: data})
		}
	}
}

// forgetVolumes deletes the volumes of pools that have none any more or were removed.
func (t *term) forgetVolumes() {
	there := make(map[volumeKey]bool, len(t.states))
	for i := range t.states {
		if s := &t.states[i]; s.State != (fairshare.State{}) {
			there[volumeKey{s.Tree, s.Pool}] = true
		}
	}
	for key := range t.volumes {
		if !there[key] {
			delete(t.volumes, key)
			t.open.rows.Delete.Volumes = append(t.open.rows.Delete.Volumes, store.Volume{Tree: key.tree, Pool: key.pool})
		}
	}
}

// nodeStorePeriod is how often the store records that a node is online.
const nodeStorePeriod = time.Minute

// refusedPeriod is how long a node that was not registered is reported after its last attempt.
const refusedPeriod = 10 * time.Minute

// followNodes finds the nodes that are silent, and records those that are online.
func (t *term) followNodes() {
	timeout := t.server.settings().offlineAfter()
	t.showTreesOfNodes()
	var strays, unwell, refused []string
	for _, node := range t.nodeList {
		if node.record.RegistrationError != "" && t.now.Sub(node.record.LastSeen) <= refusedPeriod {
			refused = append(refused, node.record.Name+" ("+node.record.RegistrationError+")")
		}
		if node.session == nil {
			continue
		}
		seen := t.core.LastSeen(node.id)
		if online := timeout <= 0 || t.now.Sub(seen) <= timeout; online != node.record.Online && node.record.RegistrationError == "" {
			record := *node.record
			record.Online, record.LastSeen = online, seen
			t.showNode(node, &record)
			kind := "node_offline"
			if online {
				kind = "node_online"
			}
			t.event(store.Event{Type: kind, Node: record.Name, Tree: record.Tree})
		}
		if node.record.Online && t.now.Sub(node.storedAt) > nodeStorePeriod {
			record := *node.record
			record.LastSeen = seen
			t.showNode(node, &record)
			t.storeNode(node)
		}
		if node.record.Online && node.record.Tree == "" {
			strays = append(strays, node.record.Name)
		}
		if reasons := node.record.Status.Alerts; node.record.Online && len(reasons) > 0 {
			unwell = append(unwell, node.record.Name+" ("+strings.Join(reasons, "; ")+")")
		}
	}
	t.server.alerts.set(AlertClock, t.steady.step())
	t.server.alerts.set(AlertNodesNoTree, listed("nodes match no pool tree", strays))
	t.server.alerts.set(AlertNodesRefused, listed("nodes are not registered", refused))
	t.server.alerts.set(AlertNodesUnwell, listed("nodes are unwell", unwell))
	t.server.alerts.set(AlertLoopback, t.server.trustText())
	t.server.alerts.set(AlertBlobsApart, t.server.apartText())
}

// apartText returns the alert about a blob storage that other schedulers cannot read; empty if there is none.
func (s *Server) apartText() string {
	if s.blobs == nil || s.blobs.IsShared() || !s.store.IsShared() {
		return ""
	}
	return "several schedulers can use the store, but the contents of files are in a directory of this one; set files/storage to a bucket that all of them reach"
}

// trustText returns the alert about trust in this machine; empty if there is none. Tokens end the trust.
func (s *Server) trustText() string {
	if !s.trusts || s.Registry().HasTokens() {
		return ""
	}
	return "trust_loopback is set and there is no token: every process on the scheduler's machine, jobs included, acts as root"
}

// listed counts nodes and names at most ten of them. It returns an empty text if there are none.
func listed(what string, nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	slices.Sort(nodes)
	return fmt.Sprintf("%d %s: %s", len(nodes), what, strings.Join(nodes[:min(len(nodes), 10)], ", "))
}

// refreshProgress publishes the job counts of operations that have changed.
func (t *term) refreshProgress() {
	settings := t.server.settings()
	if t.now.Sub(t.lastProgress) < settings.ProgressPeriod {
		return
	}
	t.lastProgress = t.now
	ids := make([]core.OperationID, 0, len(t.touched))
	for id := range t.touched {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	clear(t.touched)
	for _, id := range ids {
		op := t.operations[id]
		controller := t.core.ControllerOf(id)
		if op == nil || controller == nil {
			continue
		}
		if op.ends > op.position && t.now.Sub(op.snapshotTaken) >= settings.SnapshotPeriod {
			op.stale = true
		}
		t.markProgress(id)
	}
}

// starvingKey is an element of a tree: a pool, or an operation.
type starvingKey struct {
	tree      core.TreeID
	pool      string
	operation core.OperationID
}

// starving is an element below its fair share.
type starving struct {
	status scheduling.Starvation
	since  time.Time
}

// noticeStarvation logs when elements start and stop starving.
func (t *term) noticeStarvation() {
	note := func(key starvingKey, pool string, v *scheduling.Details) {
		before := t.starvation[key]
		if before.status == v.Starvation {
			return
		}
		e := store.Event{Type: "starvation_finished", Tree: t.slots.names[key.tree], Pool: pool}
		if key.operation != core.NoOperation {
			e.Operation = int32(key.operation)
		}
		facts := []fact{{"usage", amountsFact(v.Usage)}, {"demand", amountsFact(v.Demand)}, {"fair_share", v.Share.Total.Largest()}, {"was", before.status.String()}}
		if v.Starvation == scheduling.NonStarving {
			delete(t.starvation, key)
			facts = append(facts, fact{"lasted_ms", t.now.Sub(before.since).Milliseconds()})
		} else {
			t.starvation[key] = starving{v.Starvation, t.now}
			e.Type = "starvation_started"
			facts = append(facts, fact{"is", v.Starvation.String()})
		}
		if op := t.operations[key.operation]; op != nil {
			facts = append(facts, op.facts()...)
		}
		t.event(e, facts...)
	}
	picture := t.server.View().Picture
	for _, tree := range picture.Trees {
		for p := range tree.Pools() {
			note(starvingKey{tree.ID, p.Name, core.NoOperation}, p.Name, &p.Details)
		}
	}
	for o := range picture.Operations() {
		for seat := range picture.Seats(o) {
			note(starvingKey{seat.Tree, "", o.ID}, seat.Pool, &seat.Details)
		}
	}
	for key := range t.starvation {
		there := t.operations[key.operation] != nil
		if key.operation == core.NoOperation {
			_, there = picture.Trees[key.tree].Pool(key.pool)
		}
		if !there {
			delete(t.starvation, key)
		}
	}
}

// selfCheckShare limits invariant checks to 1/selfCheckShare of the time.
const selfCheckShare = 200

// selfCheck checks the core's invariants from time to time. A violation raises an alert and does
// not crash the server: jobs keep running, and an administrator investigates.
func (t *term) selfCheck() {
	period := t.server.settings().SelfCheckPeriod
	if period <= 0 || t.now.Sub(t.lastSelfCheck) < max(period, selfCheckShare*t.selfCheckCost) {
		return
	}
	t.lastSelfCheck = t.now
	began := time.Now()
	err := t.core.Verify()
	t.selfCheckCost = time.Since(began)
	if err == nil {
		t.server.alerts.clear(AlertInvariants)
		return
	}
	t.server.alerts.raise(AlertInvariants, err.Error())
	t.server.log.Error("an invariant of the core is violated", "error", err)
	t.event(store.Event{Type: "invariant_violated"}, fact{"error", err.Error()})
}

// atOnce updates pool trees in parallel; see [core.Core.Together].
func atOnce(count int, do func(int)) {
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { do(i) })
	}
	all.Wait()
}
