//go:build linux

package faults

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// cost is what one fault cost users and nodes.
type cost struct {
	kind       string
	noWrite    time.Duration   // the longest time without an acknowledged write
	untilWrite time.Duration   // from the end of the fault to the next one
	noStart    []time.Duration // for each healthy node, the longest time without a start
	untilStart []time.Duration // for each takeover and healthy node, the time to the first start
}

// figures are the costs of all faults of a campaign.
type figures struct{ costs []cost }

func (f *figures) add(s cost) { f.costs = append(f.costs, s) }

// spread is how a figure is distributed, in seconds.
type spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
}

func spreadOf(list []time.Duration) spread {
	if len(list) == 0 {
		return spread{}
	}
	slices.Sort(list)
	return spread{len(list), quantile(list, 0.5).Seconds(), quantile(list, 0.99).Seconds(), list[len(list)-1].Seconds()}
}

// String is the row of a table.
func (s spread) String() string {
	if s.Count == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f / %.2f / %.2f", s.P50, s.P99, s.Worst)
}

// row is the figures of one kind.
type row struct {
	Kind       string `json:"kind"`
	Faults     int    `json:"faults"`
	NoWrite    spread `json:"no_write"`
	UntilWrite spread `json:"healed_to_write"`
	NoStart    spread `json:"no_start"`
	UntilStart spread `json:"takeover_to_start"`
}

// rows returns the figures of each kind, and of all.
func (f *figures) rows() (list []row) {
	byKind := map[string][]cost{}
	for _, s := range f.costs {
		byKind[s.kind] = append(byKind[s.kind], s)
	}
	for kind, costs := range byKind {
		list = append(list, rowOf(kind, costs))
	}
	slices.SortFunc(list, func(a, b row) int { return cmp.Compare(a.Kind, b.Kind) })
	return append(list, rowOf("all", f.costs))
}

func rowOf(kind string, costs []cost) row {
	var noWrite, untilWrite, noStart, untilStart []time.Duration
	for _, s := range costs {
		noWrite, untilWrite = append(noWrite, s.noWrite), append(untilWrite, s.untilWrite)
		noStart, untilStart = append(noStart, s.noStart...), append(untilStart, s.untilStart...)
	}
	return row{kind, len(costs), spreadOf(noWrite), spreadOf(untilWrite), spreadOf(noStart), spreadOf(untilStart)}
}

// print shows the figures as a table and as JSON, which also goes to the file that WEIR_FAULTS_JSON names,
// with the name of the store before its ending.
func (f *figures) print(t *testing.T, store string, seed uint64) {
	t.Helper()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\ttimes\tno write, p50 / p99 / worst, s\tits end to a write\tno start on a healthy node\ttakeover to a start")
	for _, r := range f.rows() {
		fmt.Fprintf(w, "%s\t%d\t%v\t%v\t%v\t%v\n", r.Kind, r.Faults, r.NoWrite, r.UntilWrite, r.NoStart, r.UntilStart)
	}
	_ = w.Flush() // to memory
	data, err := json.Marshal(map[string]any{"store": store, "seed": seed, "faults": f.rows()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s:\n%s\n%s", store, table.String(), data)
	if path := os.Getenv("WEIR_FAULTS_JSON"); path != "" {
		if err := os.WriteFile(path+"."+strings.ToLower(store), data, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// judge compares the figures with what is promised.
func (f *figures) judge(t *testing.T, lease time.Duration) {
	t.Helper()
	for _, s := range f.costs {
		for _, d := range s.untilStart {
			if d > startsWithin {
				t.Errorf("%s: a free node was given work %v after a takeover", s.kind, d)
			}
		}
		if s.untilWrite > 2*lease {
			t.Errorf("%s: a write was acknowledged %v after its end", s.kind, s.untilWrite)
		}
	}
}
