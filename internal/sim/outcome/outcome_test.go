package outcome

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/resource"
)

func small() *Result {
	r := &Result{
		Format: Format, Scenario: "small", Seed: 3, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Seconds: 20,
		Cluster: Cluster{Nodes: 2, Capacity: Vector{resource.CPU: 8}},
		Pools:   []Pool{{Tree: "default", Name: "<Root>"}, {Tree: "default", Name: "a", Parent: "<Root>", Depth: 1, Got: Vector{resource.CPU: 2.5}}},
		Operations: []Operation{
			{Name: "x", Pool: "a", State: "completed", Started: 1, Finished: 15},
		},
		Series:       Series{Step: 10, Pools: []PoolSeries{{Tree: "default", Name: "<Root>"}, {Tree: "default", Name: "a"}}},
		Expectations: []Expectation{{Where: "x.yaml:3", Subject: "pool a", Figure: "usage/cpu at 5m", Want: "3", Got: "2"}},
	}
	r.Series.Pools[1].Usage[resource.CPU] = []float64{1, 4}
	return r
}

func TestResultsSurviveBeingWritten(t *testing.T) {
	r := small()
	data, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse("small.json", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	again, _ := back.JSON()
	if !bytes.Equal(data, again) {
		t.Error("the bytes differ")
	}
}

func TestTheWallIsNotWritten(t *testing.T) {
	a, b := small(), small()
	b.Wall = time.Hour
	x, _ := a.JSON()
	y, _ := b.JSON()
	if !bytes.Equal(x, y) {
		t.Error("how long a run took is in its result")
	}
}

func TestWhatIsNoResultIsRefused(t *testing.T) {
	good, _ := small().JSON()
	tests := []struct{ text, want string }{
		{"", "not the result of a simulation"},
		{"[]", "not the result of a simulation"},
		{`{"nodes": []}`, "it has no format"},
		{`{"format": 7}`, "the result has the format 7; known is 1"},
		{strings.Replace(string(good), `"seed":3`, `"seeds":3`, 1), `unknown field "seeds"`},
		{strings.Replace(string(good), `"cpu":8`, `"cpus":8`, 1), `unknown resource "cpus"`},
		{strings.Replace(string(good), `"seconds":20`, `"seconds":-1`, 1), "the result has no duration"},
		{strings.Replace(string(good), `"pools":[{`, `"pools":[{"tree":"x","name":"y"},{`, 1), "the result has 3 pools and series of 2"},
	}
	for _, test := range tests {
		if _, err := Parse("r.json", []byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "r.json: ") {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

func TestFailedExpectationsSayWhatWasExpected(t *testing.T) {
	failed := small().Failed()
	if len(failed) != 1 || failed[0].String() != "x.yaml:3: usage/cpu at 5m of pool a is 2, expected 3" {
		t.Errorf("%v", failed)
	}
}

func TestRoundingKeepsSixDigits(t *testing.T) {
	for v, want := range map[float64]float64{
		0: 0, 1.23456789: 1.23457, 123456789: 123457000, 0.000123456789: 0.000123457, -2.5: -2.5, 999999.6: 1000000, 1e-310: 0,
	} {
		if got := Round(v); got != want {
			t.Errorf("%v becomes %v, want %v", v, got, want)
		}
	}
	if Round(math.NaN()) != 0 || Round(math.Inf(1)) != 0 {
		t.Error("what is no number is kept")
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(-1e18, 1e18).Draw(t, "v")
		if got := Round(v); math.Abs(got-v) > 1e-5*math.Abs(v)+1e-290 || Round(got) != got {
			t.Fatalf("%v becomes %v and then %v", v, got, Round(got))
		}
	})
}

func TestComplianceIsAPartOfTheTime(t *testing.T) {
	if c := (Compliance{}); c.Ratio() != 1 {
		t.Errorf("a guarantee that nobody asked for was kept %v", c.Ratio())
	}
	if c := (Compliance{DemandingSeconds: 100, BelowSeconds: 25}); c.Ratio() != 0.75 {
		t.Errorf("kept %v", c.Ratio())
	}
}

func FuzzParse(f *testing.F) {
	good, _ := small().JSON()
	f.Add(good)
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse("fuzz", data)
		if (r == nil) == (err == nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if r != nil {
			if _, err := r.JSON(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
