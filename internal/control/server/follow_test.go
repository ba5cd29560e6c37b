package server

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// shown returns as text what readers of a standby see.
func shown(t *testing.T, s *Server) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, "default", s.Trees().Default)
	for i := range s.Trees().List {
		tree := &s.Trees().List[i]
		text, err := tree.Tree.Document(document.ForPrograms).JSON("")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, tree.Name, tree.Object.ID, string(text))
		for pool := range tree.Tree.Pools() {
			fmt.Fprintln(&b, pool.Name(), tree.Pool(pool.Name()).ID)
		}
	}
	operations := s.Operations()
	slices.SortFunc(operations, func(a, b *Operation) int { return int(a.Number - b.Number) })
	for _, o := range operations {
		fmt.Fprintln(&b, o.ID, o.State, o.Suspended, o.Alias(), o.Places, o.Spec.Title.Value())
	}
	for _, u := range s.Registry().Users() {
		fmt.Fprintln(&b, u.Name)
	}
	document, there := s.Registry().Setting("stored")
	fmt.Fprintln(&b, string(document), there)
	return b.String()
}

// A standby that reads only changes shows the same as one that reads everything.
func TestAStandbyThatFollowsSeesWhatOneSeesThatReadsAll(t *testing.T) {
	settings := quickSettings()
	settings.UpdatePeriod = time.Hour
	s := leadWith(t, t.TempDir(), Options{Settings: settings})
	defer s.stop()
	quiet := slog.New(slog.DiscardHandler)
	following := New(Options{Store: s.Store(), Name: "following", Settings: quickSettings(), Log: quiet})
	edit := func(edits ...pooltree.Edit) {
		t.Helper()
		err := s.EditTrees(t.Context(), tester, func(trees *Trees) (*Trees, error) {
			tree, _, err := trees.List[0].Tree.With(edits...)
			if err != nil {
				return nil, err
			}
			next := trees.Put("default", tree)
			for _, e := range edits {
				if rename, ok := e.(pooltree.RenamePool); ok {
					next = next.Rename("default", rename.Pool, rename.Name)
				}
			}
			return next, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	registry := func(b store.Batch) {
		t.Helper()
		if err := s.EditRegistry(t.Context(), tester, func(*Registry) (*store.Batch, error) { return &b, nil }); err != nil {
			t.Fatal(err)
		}
	}
	var keys []OperationKey
	start := func() {
		t.Helper()
		keys = append(keys, OperationKey{ID: s.start(fmt.Sprintf("{pool: p, alias: '*a%d', title: x, tasks: {t: {job_count: 1, command: x}}}", len(keys)))})
	}
	steps := []struct {
		name string
		do   func()
	}{
		{"pools", func() { s.pools("{pools: {p: {weight: 2, pools: {q: {}}}, r: {}}}") }},
		{"operations", func() { start(); start() }},
		{"nothing", func() {}},
		{"an option", func() { edit(pooltree.SetPoolOption{Pool: "q", Option: "weight", Value: document.Int(7)}) }},
		{"a new pool", func() { edit(pooltree.AddPool{Pool: "new", Parent: "p"}) }},
		{"another name", func() { edit(pooltree.RenamePool{Pool: "p", Name: "p2"}, pooltree.RenamePool{Pool: "p2", Name: "p"}) }},
		{"a renamed parent", func() { edit(pooltree.RenamePool{Pool: "r", Name: "s"}) }},
		{"another parent", func() { edit(pooltree.MovePool{Pool: "q", Parent: "s"}) }},
		{"no pool", func() { edit(pooltree.RemovePool{Pool: "s", Recursive: true}) }},
		{"a suspended operation", func() {
			if err := s.SuspendOperation(t.Context(), tester, keys[0], false); err != nil {
				t.Fatal(err)
			}
		}},
		{"an operation that has ended", func() {
			if err := s.AbortOperation(t.Context(), tester, keys[1], ""); err != nil {
				t.Fatal(err)
			}
		}},
		{"the registry", func() {
			registry(store.Batch{Put: store.Rows{Users: []store.User{{Name: "anna"}}, Settings: []store.Setting{{Name: "stored", Document: []byte("{}")}}}})
		}},
		{"less in the registry", func() { registry(store.Batch{Delete: store.Rows{Settings: []store.Setting{{Name: "stored"}}}}) }},
		{"another tree", func() {
			err := s.EditTrees(t.Context(), tester, func(trees *Trees) (*Trees, error) {
				tree, _, err := pooltree.FromValue(expected.Document(t, "{nodes_filter: gpu, pools: {z: {}}}"), pooltree.Options{})
				next := trees.Put("other", tree)
				next.Default = "other"
				return next, err
			})
			if err != nil {
				t.Fatal(err)
			}
		}},
		{"no other tree", func() {
			if err := s.EditTrees(t.Context(), tester, func(trees *Trees) (*Trees, error) {
				next := trees.Remove("other")
				next.Default = "default"
				return next, nil
			}); err != nil {
				t.Fatal(err)
			}
		}},
		{"one more operation", start},
	}
	for _, step := range steps {
		step.do()
		// The leader may write in between, so compare when both are at the same revision.
		for fresh := following; fresh.copied == nil || fresh == following || fresh.copied.revision != following.copied.revision; {
			fresh = New(Options{Store: s.Store(), Name: "fresh", Settings: quickSettings(), Log: quiet})
			for _, standby := range []*Server{following, fresh} {
				if err := standby.follow(t.Context()); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
			}
			if diff := cmp.Diff(shown(t, fresh), shown(t, following)); diff != "" && fresh.copied.revision == following.copied.revision {
				t.Errorf("%s: who follows sees (+) other than who reads all (-):\n%s", step.name, diff)
			}
		}
	}
	if len(following.specs) != 2 || following.copied == nil || len(following.Operations()) != 2 {
		t.Errorf("%d specifications, %d operations", len(following.specs), len(following.Operations()))
	}
}
