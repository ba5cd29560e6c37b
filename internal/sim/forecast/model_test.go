package forecast

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/value/resource"
)

func facts(user, title string, jobs int) Facts {
	return Facts{User: user, Tree: "default", Pool: "p", Title: title, Tasks: []TaskFacts{{Name: "main", Jobs: jobs, Need: resource.Amounts{resource.CPU: 100}}}}
}

// median is the median of many draws for a job.
func median(m *Model, a sim.Attempt) float64 {
	laws := m.Laws(core.New(core.DefaultSettings()), time.Time{})
	var list []float64
	for i := range 201 {
		list = append(list, m.Replica(distribution.Seed(uint64(i)), laws)(a).Seconds())
	}
	return medianOf(list)
}

func medianOf(list []float64) float64 { r := ring{values: list}; return quantile(r.sorted(), 0.5) }

// ran runs an operation with equal jobs to its end.
func ran(m *Model, id core.OperationID, f Facts, d time.Duration) {
	m.Enter(id, f)
	for range f.Tasks[0].Jobs {
		m.Ended(id, 0, d, Completed)
	}
	m.Leave(id)
}

func TestTheNarrowestKeyWithEnoughSamplesDescribesAJob(t *testing.T) {
	m := NewModel()
	for i := range core.OperationID(8) {
		ran(m, i, facts("anna", fmt.Sprint("nightly ", i), 1), 100*time.Second)
		ran(m, 100+i, facts("anna", "fit", 1), 1000*time.Second)
		ran(m, 200+i, facts("boris", "", 1), 9*time.Second)
	}
	for _, c := range []struct {
		name string
		Facts
		from, to float64
	}{
		{"the same title but for its number", facts("anna", "nightly 17", 1), 80, 130},
		{"another title of the same user and pool", facts("anna", "other", 1), 90, 1100},
		{"a user with few jobs of another size", facts("boris", "", 64), 7, 12},
	} {
		m.Enter(1000, c.Facts)
		if d := median(m, sim.Attempt{Operation: 1000}); d < c.from || d > c.to {
			t.Errorf("%s: half of the draws are below %v s", c.name, d)
		}
		m.Leave(1000)
	}
	// Its own jobs tell more than all others.
	m.Enter(1001, facts("anna", "nightly 18", 40))
	for range 9 {
		m.Ended(1001, 0, 3*time.Second, Completed)
	}
	if d := median(m, sim.Attempt{Operation: 1001, Cookie: 12}); d < 2.7 || d > 3.4 {
		t.Errorf("own jobs: %v s", d)
	}
}

func TestJobsOfAnOperationAgreeAsMuchAsBefore(t *testing.T) {
	equal, different := NewModel(), NewModel()
	for i := range core.OperationID(300) {
		d := time.Duration(10*math.Exp(float64(i*7%10)/2)) * time.Second
		ran(equal, i, facts("anna", "", 4), d)
		different.Enter(i, facts("anna", "", 4))
		for j := range 4 {
			different.Ended(i, 0, time.Duration(10*math.Exp(float64((int(i)*7+j*3)%10)/2))*time.Second, Completed)
		}
		different.Leave(i)
	}
	if a := equal.Agreement(); a < 0.9 {
		t.Errorf("equal jobs agree by %v", a)
	}
	if a := different.Agreement(); a > 0.3 {
		t.Errorf("different jobs agree by %v", a)
	}
	// One completed job tells how long the others run.
	equal.Enter(1000, facts("anna", "", 4))
	equal.Ended(1000, 0, 271*time.Second, Completed)
	if d := median(equal, sim.Attempt{Operation: 1000, Cookie: 3}); d < 200 || d > 370 {
		t.Errorf("after a job of 271 s the next takes %v", d)
	}
}

func TestStoppedJobsCountAsCensoredAndLimitsCutTheTail(t *testing.T) {
	m := NewModel()
	for i := range core.OperationID(20) {
		f := facts("anna", "", 1)
		m.Enter(i, f)
		m.Ended(i, 0, 10*time.Second, Cut)
		m.Ended(i, 0, 60*time.Second, Completed)
		m.Leave(i)
	}
	m.Enter(100, facts("anna", "", 1))
	if d := median(m, sim.Attempt{Operation: 100}); d < 55 || d > 68 {
		t.Errorf("half of the jobs run for at most %v s, though all that were not stopped ran for 60", d)
	}
	limited := facts("anna", "", 1)
	limited.Tasks[0].Limit = 90 * time.Second
	m.Enter(101, limited)
	laws := m.Laws(core.New(core.DefaultSettings()), time.Time{})
	for i := range 500 {
		if d := m.Replica(distribution.Seed(uint64(i)), laws)(sim.Attempt{Operation: 101, Age: 80 * time.Second}); d > 90*time.Second || d <= 80*time.Second {
			t.Fatalf("a job with a limit of 90 s and an age of 80 s runs for %v", d)
		}
	}
}

func TestAModelKeepsABoundedNumberOfKeys(t *testing.T) {
	m := NewModel()
	for i := range core.OperationID(maxKeys) {
		ran(m, i, facts(fmt.Sprint("user", i), "", 1), time.Second)
	}
	if len(m.keys) > maxKeys || m.order.Len() != len(m.keys) || len(m.live) != 0 {
		t.Errorf("%d keys, %d in order, %d operations", len(m.keys), m.order.Len(), len(m.live))
	}
}

func TestASavedModelDrawsTheSame(t *testing.T) {
	m := NewModel()
	for i := range core.OperationID(50) {
		ran(m, i, facts("anna", "", 1+int(i)%3), time.Duration(1+i*i)*time.Second)
	}
	data, err := m.Save()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadModel(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Model{m, read} {
		m.Enter(100, facts("anna", "", 1))
	}
	a, b := median(m, sim.Attempt{Operation: 100}), median(read, sim.Attempt{Operation: 100})
	if math.Abs(a-b) > a/1000 || len(read.keys) != len(m.keys) || read.Agreement() != m.Agreement() {
		t.Errorf("half of the draws are below %v, then %v; %d keys, then %d", a, b, len(m.keys), len(read.keys))
	}
	for _, bad := range [][]byte{{1}, data[:len(data)/2]} {
		if _, err := ReadModel(bad); err == nil {
			t.Errorf("%d damaged bytes are a model", len(bad))
		}
	}
	if m, err := ReadModel(nil); err != nil || len(m.keys) != 0 {
		t.Errorf("no data: %v", err)
	}
}

func TestASavedForecastIsReadBack(t *testing.T) {
	k := NewKeeper()
	var raw Raw
	raw.Set(ByHistory, Quantiles{1, 2, 3})
	f, _ := k.Publish(Place{Tree: "default", Pool: "p", Size: "s"}, Finish, time.Unix(7, 0), 90*time.Second, raw)
	data, err := f.Save(12.5)
	if err != nil {
		t.Fatal(err)
	}
	read, outcome, known, err := ReadForecast("default", "p", Finish, time.Unix(7, 0), data)
	if err != nil || read != f || outcome != 12.5 || !known {
		t.Errorf("got %+v, %v, %v, %v, want %+v", read, outcome, known, err, f)
	}
	if _, _, known, _ := ReadForecast("default", "p", Finish, time.Unix(7, 0), must(f.Save(-1))); known {
		t.Error("an unknown outcome is known")
	}
	if _, _, _, err := ReadForecast("default", "p", Finish, time.Time{}, []byte(`{"method": 9}`)); err == nil {
		t.Error("an unknown method is read")
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}
