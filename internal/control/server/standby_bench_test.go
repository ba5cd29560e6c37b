package server

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/store"
)

// BenchmarkStandby measures one poll of a standby with ten thousand pools and five thousand
// operations: the first one, one after the leader's usual changes between two polls (progress of
// fifty operations), and one after a pool has changed.
func BenchmarkStandby(b *testing.B) {
	db, err := store.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "weir.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	lease, err := db.Acquire(b.Context(), "leader", "x", DefaultSettings().LeaseTTL)
	if err != nil {
		b.Fatal(err)
	}
	commit := func(rows store.Rows) {
		b.Helper()
		if _, err := db.Commit(b.Context(), lease, &store.Batch{Put: rows}); err != nil {
			b.Fatal(err)
		}
	}
	commit(manyRows(b))
	progress := func() (rows store.Rows) {
		for i := range 50 {
			rows.Operations = append(rows.Operations, operationOf(i))
		}
		return rows
	}
	for _, c := range []struct {
		name   string
		forget bool
		change func(i int) store.Rows
	}{
		{"at first", true, func(int) store.Rows { return progress() }},
		{"progress", false, func(int) store.Rows { return progress() }},
		{"a pool", false, func(i int) store.Rows {
			return store.Rows{Pools: []store.Pool{poolOf(5, 5, fmt.Sprint(i+1))}}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := New(Options{Store: db, Name: "standby", Log: slog.New(slog.DiscardHandler)})
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				if c.forget {
					s = New(Options{Store: db, Name: "standby", Log: slog.New(slog.DiscardHandler)})
				}
				commit(c.change(i))
				if i == 0 && !c.forget {
					if err := s.follow(b.Context()); err != nil {
						b.Fatal(err)
					}
					commit(c.change(i + 1))
				}
				b.StartTimer()
				if err := s.follow(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			if tree, there := s.Trees().Find("default"); !there || tree.Tree.Len() != 10_100 || len(s.Operations()) != 5000 {
				b.Fatal("the standby has read something else")
			}
		})
	}
}

func poolOf(i, j int, weight string) store.Pool {
	return store.Pool{Tree: "default", Name: fmt.Sprintf("p%d-%d", i, j), Parent: fmt.Sprintf("p%d", i),
		Attributes: []byte(fmt.Sprintf(`{"id":"1-2-3-%x","created":"2026-01-01T00:00:00Z","order":%d,"config":{"weight":%s}}`, 1000*i+j+1, 100+100*i+j, weight))}
}

func operationOf(i int) store.Operation {
	return store.Operation{Number: int32(i + 1), ID: fmt.Sprintf("1-2-3-%x", i+1), Type: "vanilla", User: "anna", State: "running",
		Pools: []store.TreePool{{Tree: "default", Pool: fmt.Sprintf("p%d-%d", i%100, i/100)}}, BriefSpec: []byte("{}"), RuntimeParameters: []byte("{}"), Events: []byte("[]")}
}

func manyRows(b *testing.B) (rows store.Rows) {
	rows.Trees = []store.Tree{{Name: "default", Config: []byte("{}"), Attributes: []byte(`{"id":"1-2-3-4","created":"2026-01-01T00:00:00Z","order":0}`)}}
	for i := range 100 {
		rows.Pools = append(rows.Pools, store.Pool{Tree: "default", Name: fmt.Sprintf("p%d", i),
			Attributes: []byte(fmt.Sprintf(`{"id":"1-2-4-%x","created":"2026-01-01T00:00:00Z","order":%d,"config":{}}`, i+1, i))})
		for j := range 100 {
			rows.Pools = append(rows.Pools, poolOf(i, j, "2"))
		}
	}
	specification := `{"tasks":{"t":{"job_count":10,"command":"` + strings.Repeat("x", 500) + `","cpu_limit":1,"memory_limit":1073741824}}}`
	for i := range 5000 {
		rows.Operations = append(rows.Operations, operationOf(i))
		rows.OperationSpecs = append(rows.OperationSpecs, store.OperationSpec{
			Operation: int32(i + 1), Provided: []byte(specification), Unrecognized: []byte("{}"), Resulting: []byte(specification),
		})
		rows.ControllerSnapshots = append(rows.ControllerSnapshots, store.ControllerSnapshot{Operation: int32(i + 1), Data: []byte(strings.Repeat("x", 2000))})
	}
	return rows
}
