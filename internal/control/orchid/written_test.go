package orchid

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/expected"
)

// leading starts a server on its own database and waits until it leads.
func leading(t testing.TB) *server.Server {
	t.Helper()
	db, err := store.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	settings := server.DefaultSettings()
	settings.UpdatePeriod, settings.StandbyPoll, settings.LeaseTTL = 10*time.Millisecond, 20*time.Millisecond, time.Minute
	s := server.New(server.Options{Store: db, Name: "here", Address: "here", Settings: settings, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, db.Close()); err != nil {
			t.Error(err)
		}
	})
	<-s.Led()
	return s
}

// putPools sets a tree and waits for the update that includes it.
func putPools(t testing.TB, s *server.Server, config *pooltree.Tree) {
	t.Helper()
	err := s.EditTrees(t.Context(), server.Caller{User: "root", Command: "test"}, func(trees *server.Trees) (*server.Trees, error) {
		return trees.Put("default", config), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !expected.Soon(func() bool { _, there := s.View().Tree("default"); return there }) {
		t.Fatal("no update has the tree")
	}
}

// Writing in pieces gives the same bytes as writing the whole value.
func TestAllPoolsAreWrittenAsTheirValueIs(t *testing.T) {
	s := leading(t)
	var pools []document.Entry
	for i := range 2*wire.EntriesAtOnce + 100 {
		pools = append(pools, document.Pair(fmt.Sprintf("p%d", i), document.Map(document.Pair("weight", document.Int(2)))))
	}
	config, _, err := pooltree.FromValue(document.Map(document.Pair("pools", document.Map(pools...))), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	putPools(t, s, config)
	state, err := stateOf(s)
	if err != nil {
		t.Fatal(err)
	}
	tree, there := state.Tree("default")
	if !there {
		t.Fatal("there is no tree")
	}
	for name, as := range map[string]wire.Format{
		"text": {}, "binary": {Flavour: yson.Binary}, "json": {JSON: true},
		"json in UTF-8":    {JSON: true, Options: yson.JSONOptions{UTF8: true}},
		"json with types":  {JSON: true, Options: yson.JSONOptions{AnnotateWithTypes: true, Stringify: true}},
		"json, plain":      {JSON: true, Options: yson.JSONOptions{Plain: true}},
		"json, cut":        {JSON: true, Options: yson.JSONOptions{StringLimit: 3}},
		"json, attributes": {JSON: true, Options: yson.JSONOptions{Attributes: yson.AttributesNever}},
	} {
		for _, fields := range [][]string{{"weight", "parent", "fair_share", "nonsense", "weight"}, {}} {
			if !as.Joins() {
				t.Fatalf("%s is not written in pieces", name)
			}
			want, err := as.Write(tree.allPools(poolFields.choose(fields)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tree.writtenPools(as, fields)
			if err != nil || !bytes.Equal(bytes.Join(got, nil), want) {
				t.Errorf("%s with fields %q: %d bytes, not %d; %v", name, fields, wire.Length(got), len(want), err)
			}
		}
	}
	if (wire.Format{JSON: true, Options: yson.JSONOptions{Pretty: true}}).Joins() || (wire.Format{Flavour: yson.Pretty}).Joins() ||
		(wire.Format{JSON: true, Options: yson.JSONOptions{Attributes: yson.AttributesAlways}}).Joins() {
		t.Error("what has more than entries is written in pieces")
	}
}

// A map is written once for all readers, is not cached if it is too long, and expires after a
// while.
func TestWrittenMapsAreSharedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var maps writtenMaps
		written := 0
		get := func(fields string, size int) {
			t.Helper()
			text, err := maps.get(writtenKey{fields: fields}, func() ([][]byte, error) {
				written++
				return [][]byte{make([]byte, size)}, nil
			})
			if err != nil || wire.Length(text) != size {
				t.Fatal(wire.Length(text), err)
			}
		}
		kept := func() int {
			maps.mutex.Lock()
			defer maps.mutex.Unlock()
			return maps.bytes + len(maps.texts)
		}
		for range 3 {
			get("a", 10)
		}
		if written != 1 {
			t.Errorf("it is written %d times", written)
		}
		get("b", writtenKept)
		get("b", writtenKept)
		if written != 3 || kept() != 10+1 {
			t.Errorf("what is too long is kept: %d bytes", kept())
		}
		<-time.After(writtenFor)
		synctest.Wait()
		if kept() != 0 {
			t.Error("something is kept for too long")
		}
		get("a", 10)
		if written != 4 {
			t.Errorf("it is written %d times", written)
		}
		<-time.After(writtenFor)
	})
}

// BenchmarkTenThousandPools measures the server's work for a reader of all pools, from the
// snapshot to the bytes.
func BenchmarkTenThousandPools(b *testing.B) {
	s := leading(b)
	var pools []document.Entry
	for i := range 10_000 {
		pools = append(pools, document.Pair(fmt.Sprintf("p%d", i), document.Map(document.Pair("weight", document.Int(int64(1+i%7))))))
	}
	config, _, err := pooltree.FromValue(document.Map(document.Pair("pools", document.Map(pools...))), pooltree.Options{})
	if err != nil {
		b.Fatal(err)
	}
	putPools(b, s, config)
	state, err := stateOf(s)
	if err != nil {
		b.Fatal(err)
	}
	request := &pathtree.Request{Context: b.Context(), Server: s, Command: "get", Parameters: wire.Parameters{Node: yson.Map()}}
	var out []byte
	for b.Loop() {
		n, err := state.Trees[0].poolsTable(request).Value(request)
		if err != nil {
			b.Fatal(err)
		}
		if out, err = yson.Append(nil, n, yson.Binary); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(out)))
}
