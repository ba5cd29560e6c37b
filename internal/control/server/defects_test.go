package server

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/value/guid"
)

// alert returns the message of an alert, empty if it is not raised.
func (s *scheduler) alert(kind AlertKind) string {
	for _, a := range s.Alerts() {
		if a.Kind == kind {
			return a.Message
		}
	}
	return ""
}

func TestBadRowsAreLeftOutAndTheServerLeads(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {good: {}, bad: {pools: {below: {}}}, wrong: {pools: {deep: {weight: 2}}}}}")
	s.stop()
	db, err := sql.Open("sqlite", filepath.Join(directory, "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`UPDATE pools SET attributes = '{' WHERE name = 'bad'`,
		`UPDATE pools SET attributes = replace(attributes, '"weight":2', '"weight":-2') WHERE name = 'deep'`,
		`INSERT INTO trees (name, config, attributes, revision) SELECT 'other', '[', attributes, revision FROM trees WHERE name = 'default'`,
		`INSERT INTO tokens (hash, user_name, name, created, last_used, expires, revoked, revision) VALUES ('no hash', 'root', 'x', 1, 0, 0, 0, 1)`,
	} {
		if result, err := db.Exec(statement); err != nil {
			t.Fatal(statement, err)
		} else if n, err := result.RowsAffected(); n != 1 || err != nil {
			t.Fatal(statement, n, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = lead(t, directory)
	tree, there := s.Trees().Find("default")
	if !there || len(s.Trees().List) != 1 {
		t.Fatalf("the trees are %+v, want default alone", s.Trees().List)
	}
	for name, want := range map[string]bool{"good": true, "wrong": true, "bad": false, "below": false, "deep": false} {
		if _, got := tree.Tree.Pool(name); got != want {
			t.Errorf("pool %s is there: %v, want %v; the alert says %s", name, got, want, s.alert(AlertPoolConfig))
		}
	}
	for _, word := range []string{"pool bad of", "pool below of", "pool deep of", "pool tree other"} {
		if got := s.alert(AlertPoolConfig); !strings.Contains(got, word) {
			t.Errorf("the alert says %q, want something about %q", got, word)
		}
	}
	if got := s.alert(AlertTokens); !strings.Contains(got, "root") {
		t.Errorf("the alert about tokens says %q, want the user's name", got)
	}
	if !s.Registry().HasTokens() {
		t.Error("a bad token opened the server")
	}
	s.stop()
}

func TestRemovedUserTagLeavesTheAgentsTag(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 4)
	description := m.session.Register().GetNode()
	description.Tags = []string{"ssd"}
	m.session = nodeproto.NewNodeSession(description, 1, nil)
	m.beat(s)
	for _, tags := range [][]string{{"ssd", "rack-1"}, {}} {
		if err := s.EditNode(t.Context(), tester, "node-1", func(n *NodeSettings) error { n.UserTags = tags; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	node, _ := s.Node("node-1")
	if want := []string{"node-1", "ssd"}; !slices.Equal(node.Tags, want) {
		t.Errorf("the node has tags %v, want %v", node.Tags, want)
	}
	s.stop()
}

func TestPoolsChangedIsEmittedForTreesThatChanged(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	s.pools("{nodes_filter: a, pools: {p: {}}}")
	first, _ := s.Trees().Find("default")
	for _, name := range []string{"other", "third"} {
		if err := s.EditTrees(t.Context(), tester, func(trees *Trees) (*Trees, error) { return trees.Put(name, first.Tree), nil }); err != nil {
			t.Fatal(err)
		}
	}
	events, _, err := s.Store().Events(t.Context(), store.EventFilter{Types: []string{"pools_changed"}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range events {
		count[e.Tree]++
	}
	if count["default"] != 2 || count["other"] != 1 || count["third"] != 1 {
		t.Errorf("pools_changed was emitted %v times, want 2 for default and 1 for others", count)
	}
	s.stop()
}

func TestAbortedJobRemembersItsMutation(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	s.start(fmt.Sprintf(small, "p", 1))
	s.eventually("a job runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	who := tester
	who.Mutation = "1-2-3-4"
	if err := s.AbortJob(t.Context(), who, guid.OfJob(m.some()), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store().Mutation(t.Context(), who.Mutation); err != nil {
		t.Errorf("the mutation is not stored: %v", err)
	}
	s.stop()
}
