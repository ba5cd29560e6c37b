package sim

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/report"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
)

var reports = flag.String("reports", "", "directory into which reports of examples and traces are written, to look at them")

// load reads a scenario file; files that it names are beside it.
func load(t testing.TB, file string) *scenario.Scenario {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, warnings, err := scenario.Read(filepath.Base(file), data, func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(filepath.Dir(file), name))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Log(w)
	}
	return s
}

// written renders every output of a result twice and checks that both are the
// same.
func written(t *testing.T, name string, r *outcome.Result) {
	t.Helper()
	for _, output := range []struct {
		suffix string
		write  func(io.Writer) error
	}{
		{".txt", func(w io.Writer) error { return report.Summary(w, r, report.Primary(r)) }},
		{".csv", func(w io.Writer) error { return report.CSV(w, r) }},
		{".html", func(w io.Writer) error { return report.HTML(w, r) }},
		{".json", func(w io.Writer) error {
			data, err := r.JSON()
			w.Write(data)
			return err
		}},
	} {
		var first, second bytes.Buffer
		if err := output.write(&first); err != nil {
			t.Fatal(err)
		}
		if output.write(&second); first.Len() == 0 || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s%s is empty or differs from itself", name, output.suffix)
		}
		if *reports != "" {
			if err := os.WriteFile(filepath.Join(*reports, name+output.suffix), first.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// cut shortens a scenario and keeps the expectations that apply by then.
func cut(s *scenario.Scenario, most time.Duration) {
	s.Duration = document.Some(min(s.Duration.Or(most), most))
	s.Expectations = slices.DeleteFunc(s.Expectations, func(e scenario.Expectation) bool { return e.At > s.Duration.Value() })
}

// Every example can be read, run and reported; its first hours are enough to show it.
func TestExamplesRun(t *testing.T) {
	files, _ := filepath.Glob("../../examples/simulate/*.yaml")
	if len(files) < 3 {
		t.Fatalf("%d examples", len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			s := load(t, file)
			cut(s, 8*time.Hour)
			r, err := Run(context.Background(), s, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range r.Failed() {
				t.Error(e)
			}
			written(t, name, r)
			t.Logf("%s: %v on the wall, %d events, %d heartbeats", name, r.Wall, r.Cluster.Work.Events, r.Cluster.Work.Heartbeats)
		})
	}
}

// The figures of the integral-guarantees document: usage and demand of a burst pool and its volume over a day,
// with simulated jobs.
func TestABurstIsLivedThroughAsDrawn(t *testing.T) {
	r, err := Run(context.Background(), load(t, "../../examples/simulate/burst.yaml"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Expectations) != 13 {
		t.Errorf("%d expectations", len(r.Expectations))
	}
	for _, e := range r.Failed() {
		t.Error(e)
	}
}

func TestTwoRunsAreLaidSideBySide(t *testing.T) {
	file := "../../examples/simulate/starvation.yaml"
	a, err := Run(context.Background(), load(t, file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	calm := load(t, file)
	calm.Operations, calm.Expectations = calm.Operations[:1], nil
	b, err := Run(context.Background(), calm, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text, page bytes.Buffer
	labels := report.Labels{A: "two operations", B: "one operation"}
	if err := report.CompareText(&text, a, b, labels); err != nil {
		t.Fatal(err)
	}
	if err := report.CompareHTML(&page, a, b, labels); err != nil {
		t.Fatal(err)
	}
	if *reports != "" {
		os.WriteFile(filepath.Join(*reports, "compare.html"), page.Bytes(), 0o644)
		os.WriteFile(filepath.Join(*reports, "compare.txt"), text.Bytes(), 0o644)
	}
	preempted := fmt.Sprint(a.Cluster.Jobs.Preempted)
	for _, want := range []string{"A: two operations", "B: one operation", "jobs preempted", preempted, "-100 %"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}
