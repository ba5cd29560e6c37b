package rerun

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// daemon records the inputs of a core whose jobs run for given times.
type daemon struct {
	t       *testing.T
	core    *core.Core
	now     time.Time
	encoder *journal.Encoder
	records []byte
	file    []byte
	framer  *journal.Framer
	ends    map[core.JobID]time.Time
	nodes   map[core.JobID]core.NodeID
	order   []core.JobID
}

func newDaemon(t *testing.T) *daemon {
	types, err := journal.NewTypes()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{
		t: t, core: core.New(core.DefaultSettings()), now: noon, encoder: journal.NewEncoder(types, noon), framer: journal.NewFramer(types),
		ends: map[core.JobID]time.Time{}, nodes: map[core.JobID]core.NodeID{},
	}
	d.file = d.framer.AppendStart(nil, &journal.Header{Start: noon, UpdatePeriod: time.Second, HeartbeatPeriod: time.Second}, nil)
	return d
}

func (d *daemon) apply(input core.Input) {
	d.t.Helper()
	var out core.Decisions
	err := d.core.Apply(d.now, input, &out)
	if err != nil {
		d.t.Fatal(err)
	}
	d.records = d.encoder.Input(d.records, d.now, input, false, journal.Mark{}.Since(&out))
	for _, s := range out.Started {
		d.ends[s.Job] = d.now.Add(time.Duration(10+5*s.Cookie) * time.Second)
		d.nodes[s.Job] = s.Node
		d.order = append(d.order, s.Job)
	}
}

func (d *daemon) start(id core.OperationID, spec string) {
	read, err := operation.Read(expected.Document(d.t, spec), operation.ReadOptions{CommandOptional: true})
	if err != nil {
		d.t.Fatal(err)
	}
	d.apply(&core.StartInput{Operation: id, User: "anna", Spec: read.Spec})
}

// run lets seconds pass: nodes report, jobs end, shares are updated.
func (d *daemon) run(seconds int, nodes int) {
	for range seconds {
		d.now = d.now.Add(time.Second)
		d.apply(&core.UpdateInput{})
		for n := range core.NodeID(nodes) {
			var finished []core.Finished
			for _, id := range d.order {
				if end, runs := d.ends[id]; runs && d.nodes[id] == n && !end.After(d.now) {
					finished = append(finished, core.Finished{Job: id, State: core.JobCompleted})
					delete(d.ends, id)
				}
			}
			d.apply(&core.HeartbeatInput{Node: n, Finished: finished})
		}
	}
}

func treeOf(t *testing.T, text string) *pooltree.Tree {
	tree, _, err := pooltree.FromValue(expected.Document(t, text), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestTheSamePoolsLeadToTheRecordedFigures runs a recorded time again: with the
// recorded pools as many jobs start as did, and with a limit fewer.
func TestTheSamePoolsLeadToTheRecordedFigures(t *testing.T) {
	d := newDaemon(t)
	d.apply(&core.TreesInput{Trees: []document.Named[*pooltree.Tree]{{Name: "default", Value: treeOf(t, "pools: {a: {}, b: {}}")}}, Default: "default"})
	for n := range core.NodeID(2) {
		d.apply(&core.NodeInput{Node: n, Name: fmt.Sprint("node-", n), Resources: resource.Amounts{resource.CPU: 400, resource.Memory: 4 << 30, resource.UserSlots: 4}})
	}
	d.run(1, 2)
	spec := "{pool: %s, tasks: {t: {job_count: %d, cpu_limit: 1, memory_limit: 256MiB}}}"
	d.start(0, fmt.Sprintf(spec, "a", 12))
	d.run(5, 2)
	d.start(1, fmt.Sprintf(spec, "b", 6))
	d.run(30, 2)
	d.apply(&core.NodeInput{Node: 2, Name: "node-2", Resources: resource.Amounts{resource.CPU: 400, resource.Memory: 4 << 30, resource.UserSlots: 4}})
	d.start(2, fmt.Sprintf(spec, "a", 8))
	d.run(150, 3)
	file := d.framer.AppendRecords(d.file, d.encoder.End(d.records, d.now, journal.EndTerm))

	h, err := Read(journal.NewPlayer(bytes.NewReader(file)), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	old, err := h.Run(t.Context(), Change{})
	if err != nil {
		t.Fatal(err)
	}
	limited := []document.Named[*pooltree.Tree]{{Name: "default", Value: treeOf(t, "pools: {a: {resource_limits: {cpu: 1}}, b: {}}")}}
	changed, err := h.Run(t.Context(), Change{Pools: limited})
	if err != nil {
		t.Fatal(err)
	}
	x := Compare(h, old, changed)
	if x.Recorded.Started != 26 || x.Old.Started != 26 || x.Recorded.OperationsCompleted != 3 || x.Old.OperationsCompleted != 3 {
		t.Errorf("recorded %+v, again %+v", x.Recorded, x.Old)
	}
	if x.New.Started >= x.Old.Started || x.New.OperationsCompleted >= 3 {
		t.Errorf("with a limit: %+v", x.New)
	}
	for _, row := range x.Rows {
		if row.Pool == "b" && (row.Recorded.Started != 6 || row.Old.Started != 6 || row.New.Started != 6) {
			t.Errorf("b: %+v %+v %+v", row.Recorded, row.Old, row.New)
		}
		if diff := row.Recorded.Usage - row.Old.Usage; diff > 0.02 || diff < -0.02 {
			t.Errorf("%s used %v and again %v", row.Pool, row.Recorded.Usage, row.Old.Usage)
		}
	}
	if again, err := h.Run(t.Context(), Change{}); err != nil || fmt.Sprint(again.Pools) != fmt.Sprint(old.Pools) {
		t.Errorf("two runs differ: %v", err)
	}
	fewer, err := h.Run(t.Context(), Change{Without: []string{"node-1", "node-2"}})
	if err != nil {
		t.Fatal(err)
	}
	more, err := h.Run(t.Context(), Change{Add: []MoreNodes{{4, "node-0"}}})
	if err != nil {
		t.Fatal(err)
	}
	waits := func(r *outcome.Result) float64 { return r.Cluster.Waits.Mean }
	if !(waits(fewer) > waits(old) && waits(old) > waits(more)) || fewer.Cluster.Capacity[resource.CPU] >= old.Cluster.Capacity[resource.CPU] {
		t.Errorf("jobs wait %v s with fewer nodes, %v s as recorded, %v s with more", waits(fewer), waits(old), waits(more))
	}
	for _, wrong := range []Change{{Without: []string{"node-9"}}, {Add: []MoreNodes{{1, "node-9"}}}} {
		if _, err := h.Run(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), `no node "node-9"`) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestAJournalWithoutUpdatesCannotBeRunAgain(t *testing.T) {
	d := newDaemon(t)
	if _, err := Read(journal.NewPlayer(bytes.NewReader(d.file)), time.Time{}); err == nil || !strings.Contains(err.Error(), "no update") {
		t.Errorf("%v", err)
	}
}
