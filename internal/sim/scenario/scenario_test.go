package scenario

import (
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

func everything(t *testing.T) *Scenario {
	t.Helper()
	s, warnings, err := Read("everything.yaml", []byte(expected.Read(t, "testdata/everything.good.yaml")), nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return s
}

func TestAWholeScenarioIsReadAsItIsWritten(t *testing.T) {
	s := everything(t)
	if s.Name != "everything" || s.Seed != 42 || !s.Start.Equal(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)) ||
		s.Duration.Value() != 48*time.Hour || s.HeartbeatPeriod != 10*time.Second || s.UpdatePeriod != 2*time.Second ||
		s.Statistics != (Statistics{Period: 10 * time.Second, Samples: 100, Operations: 50}) {
		t.Errorf("%+v", s)
	}
	big := s.Nodes[1]
	if big.Name != "big" || big.Count != 1 || !big.Single || big.Resources[resource.UserSlots] != 64 || big.Resources[resource.GPU] != 8 {
		t.Errorf("big: %+v", big)
	}
	if len(s.Trees) != 2 || s.DefaultTree != "cpu" {
		t.Errorf("%d trees, default %q", len(s.Trees), s.DefaultTree)
	}
	if v := s.Volumes[0]; v.Pool != "research" || v.Kind.Value() != resource.CPU || v.Amount != 1000 {
		t.Errorf("volume %+v", v)
	}
	once := s.Operations[0]
	if once.User != "anna" || once.Options.Weight.Value() != 2 || !once.Options.IsGang.Value() || once.Arrival.Times[0] != time.Hour {
		t.Errorf("once: %+v", once)
	}
	if mean := s.Operations[6].Duration.Mean(); math.Abs(mean-300) > 1e-9 {
		t.Errorf("a lognormal law with a mean of 5m has the mean %v", mean)
	}
	if e := s.Events[2]; e.Every != 24*time.Hour || e.Action.(ChangeOperation).Pool.Value() != "nightly" || e.Where != "everything.yaml:51:5: events/2" {
		t.Errorf("%+v", e)
	}
}

func TestBoundsFollowTheirTolerance(t *testing.T) {
	s := everything(t)
	want := map[Figure]Bound{
		FairShare: {99, 101}, Usage: {90, 110}, Demand: {1 << 30, math.Inf(1)},
	}
	for _, c := range s.Expectations[0].Checks {
		if c.Bound != want[c.Figure] {
			t.Errorf("%s: %+v, want %+v", c.Figure, c.Bound, want[c.Figure])
		}
	}
	if e := s.Expectations[1]; e.From != 24*time.Hour || e.At != Forever || e.Checks[0].Bound != (Bound{47.5, 52.5}) {
		t.Errorf("%+v", e)
	}
}

func TestNodesWithoutMemoryAndSlotsGetUsualOnes(t *testing.T) {
	s, _, err := Read("x.yaml", []byte("nodes: [{resources: {cpu: 4}}, {name: b, resources: {cpu: 2, memory: 0, user_slots: 7}}]\noperations: {a: {duration: 1m}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Nodes[0].Resources; got[resource.UserSlots] != 4 || got[resource.Memory] != 16<<30 {
		t.Errorf("%v", got)
	}
	if got := s.Nodes[1].Resources; got[resource.UserSlots] != 7 || got[resource.Memory] != 0 {
		t.Errorf("%v", got)
	}
}

func TestATraceBringsItsNodesPoolsAndDate(t *testing.T) {
	s, warnings, err := Read("x.yaml", []byte(expected.Read(t, "testdata/trace-alone.good.yaml")), fromTestdata)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes) != 1 || s.Nodes[0].Count != 2 || !s.Start.Equal(time.Unix(749458803, 0)) {
		t.Errorf("nodes %+v, start %v", s.Nodes, s.Start)
	}
	pool, ok := s.Trees[0].Value.Pool("user-7")
	if !ok || pool.Effective().MaxOperationCount != math.MaxInt32 {
		t.Errorf("there is no pool for user 7: %v", pool)
	}
	if s.MaxOperations.Value() != math.MaxInt32 {
		t.Errorf("no more than %v operations of the trace are taken at once", s.MaxOperations)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Message, "1 records are left out: never ran") {
		t.Errorf("warnings %v", warnings)
	}
}

func TestAPoolThatNobodyConfiguredIsAWarning(t *testing.T) {
	_, warnings, err := Read("x.yaml", []byte("nodes: [{resources: {cpu: 4}}]\npools: {reports: {}}\noperations: {a: {pool: report, duration: 1m}}"), nil)
	if err != nil || len(warnings) != 1 || warnings[0].String() != `x.yaml: operations/a/pool: there is no pool "report", so that an ephemeral one is made; did you mean "reports"?` {
		t.Errorf("%v %v", err, warnings)
	}
}

func TestAnOperationInTheRootIsNoWarning(t *testing.T) {
	_, warnings, err := Read("x.yaml", []byte("nodes: [{resources: {cpu: 4}}]\noperations: {a: {pool: <Root>, duration: 1m}}"), nil)
	if err != nil || len(warnings) > 0 {
		t.Errorf("%v %v", err, warnings)
	}
}

func TestWhatNeverHappensIsAWarning(t *testing.T) {
	_, warnings, err := Read("x.yaml", []byte(`
duration: 1h
nodes: [{resources: {cpu: 4}}]
operations:
  - {name: in time, duration: 1m, arrival: [59m, 2h]}
  - {name: late, duration: 1m, arrival: 1h}
  - {name: lost, duration: 1m, pool_trees: [defualt]}
events:
  - {at: 1h, abort: late}
  - {at: 2h, abort: late}
`), nil)
	want := `x.yaml: operations/lost/pool_trees: there is no pool tree "defualt"; did you mean "default"?
x.yaml: operations/late/arrival: comes after the end of the run, which is at 1h
x.yaml:10:5: events/1: happens after the end of the run, which is at 1h`
	if got := warnings.Error(); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestSettingsOfTheSchedulerAreThoseThatAreGiven(t *testing.T) {
	s := everything(t)
	if s.MaxOperations.Value() != 100 || s.NodeTimeout.Value() != 10*time.Minute || s.OvercommitPatience.Value() != 30*time.Second || !s.LosesNodesSilently() {
		t.Errorf("%+v", s.Scheduler)
	}
	s, _, err := Read("x.yaml", []byte("nodes: [{resources: {cpu: 4}}]\noperations: {a: {duration: 1m}}"), nil)
	if err != nil || s.MaxOperations.IsSet() || s.NodeTimeout.IsSet() || s.OvercommitPatience.IsSet() || s.LosesNodesSilently() {
		t.Errorf("%v %+v", err, s)
	}
}

func TestJSONIsReadToo(t *testing.T) {
	_, _, err := Read("x.json", []byte(`{"nodes": [{"resources": {"cpu": 4}}], "operations": {"a": {"duration": "1m"}}}`), nil)
	if err != nil {
		t.Error(err)
	}
	_, _, err = Read("x.json", []byte("{\n\"nodes\": [{\"resources\": {\"cpu\": \"x\"}}],\n\"operations\": {\"a\": {\"duration\": \"1m\"}}}"), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "x.json:2:33: nodes/0/resources/cpu: ") {
		t.Error(err)
	}
}

// Reading any text returns either a scenario or problems, never both or neither,
// and never panics.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		f.Add([]byte(expected.Read(f, file)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := Read("fuzz.yaml", data, func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("; MaxProcs: 2\n1 0 -1 5 1 -1 -1 -1 -1 -1 1 1 1 1 1 1 1 1\n")), nil
		})
		if (s == nil) == (err == nil) {
			t.Fatalf("scenario %v, error %v", s, err)
		}
		if s == nil {
			return
		}
		nodes := 0
		for _, g := range s.Nodes {
			nodes += g.Count
		}
		if nodes == 0 || nodes > mostNodes || len(s.Trees) == 0 || s.HeartbeatPeriod <= 0 || s.UpdatePeriod <= 0 {
			t.Fatalf("not a scenario: %+v", s)
		}
	})
}
