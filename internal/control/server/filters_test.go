package server

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/value/document"
)

// withTag returns a machine whose agent has a tag.
func withTag(t *testing.T, name, tag string) *machine {
	m := newMachine(t, name, 4)
	description := m.session.Register().GetNode()
	description.Tags = []string{tag}
	m.session = nodeproto.NewNodeSession(description, 1, nil)
	return m
}

// filter sets the node filter of a tree, which it creates if it is not there.
func (s *scheduler) filter(name, filter string) {
	s.t.Helper()
	err := s.EditTrees(s.t.Context(), tester, func(trees *Trees) (*Trees, error) {
		tree, _, err := pooltree.FromValue(document.Map(document.Pair("nodes_filter", document.Text(filter))), pooltree.Options{KeepUnknown: true})
		return trees.Put(name, tree), err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// stored returns the filter of a tree's configuration.
func (s *scheduler) stored(name string) string {
	tree, _ := s.Trees().Find(name)
	return tree.Tree.Settings().NodesFilter.Value().String()
}

func (s *scheduler) treeOf(node string) string {
	n, _ := s.Node(node)
	return n.Tree
}

// Pool characteristics: "trees must not share nodes, the scheduler watches that filters are correct".
func TestFilterThatMakesTreesShareNodesIsStoredAndNotInForce(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.filter("cpu", "cpu")
	s.filter("gpu", "gpu")
	a, b := withTag(t, "node-1", "cpu"), withTag(t, "node-2", "gpu")
	a.beat(s)
	b.beat(s)

	s.filter("gpu", "gpu | cpu")
	if got := s.stored("gpu"); got != "gpu | cpu" {
		t.Errorf("the stored filter is %q", got)
	}
	alert := s.alert(AlertPoolConfig)
	for _, word := range []string{`"gpu | cpu"`, `pool tree "gpu"`, "not in force", `"gpu" stays in force`} {
		if !strings.Contains(alert, word) {
			t.Errorf("the alert is %q, want it to contain %s", alert, word)
		}
	}
	s.filter("late", "cpu") // a tree that never had a filter gets no nodes
	for node, tree := range map[string]string{"node-1": "cpu", "node-2": "gpu"} {
		if got := s.treeOf(node); got != tree {
			t.Errorf("%s is in tree %q, want %q", node, got, tree)
		}
	}
	s.stop()

	// The next leader has the same filters in force, also before its nodes have come back.
	s = lead(t, directory)
	if err := s.EditTrees(t.Context(), tester, func(trees *Trees) (*Trees, error) { return trees, nil }); err != nil {
		t.Fatal(err)
	}
	a, b = withTag(t, "node-1", "cpu"), withTag(t, "node-2", "gpu")
	a.beat(s)
	b.beat(s)
	for node, tree := range map[string]string{"node-1": "cpu", "node-2": "gpu"} {
		if got := s.treeOf(node); got != tree {
			t.Errorf("after a restart %s is in tree %q, want %q", node, got, tree)
		}
	}
	if got := s.stored("gpu"); got != "gpu | cpu" {
		t.Errorf("after a restart the stored filter is %q", got)
	}

	// Once the other trees leave the nodes, the stored filter is in force.
	s.filter("late", "none")
	s.filter("cpu", "none")
	s.eventually("the node is in the tree whose filter was stored", func() bool { a.beat(s); return s.treeOf("node-1") == "gpu" })
	s.eventually("the alert is gone", func() bool { return s.alert(AlertPoolConfig) == "" })
	s.stop()
}

func TestStoredFilterIsInForceOnceNoNodeIsInTheWay(t *testing.T) {
	s := lead(t, t.TempDir())
	s.filter("a", "red & !blue")
	s.filter("b", "blue")
	m := withTag(t, "node-1", "red")
	m.beat(s)
	s.filter("b", "blue | red")
	if s.alert(AlertPoolConfig) == "" {
		t.Fatal("there is no alert")
	}
	err := s.EditNode(t.Context(), tester, "node-1", func(n *NodeSettings) error { n.UserTags = []string{"blue"}; return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the stored filter is in force", func() bool { m.beat(s); return s.alert(AlertPoolConfig) == "" })
	if got := s.treeOf("node-1"); got != "b" {
		t.Errorf("the node is in tree %q", got)
	}
	s.stop()
}

// Pool characteristics: "the scheduler does not let a node register whose tags match several trees".
func TestNodeThatMatchesTwoTreesIsNotRegistered(t *testing.T) {
	s := lead(t, t.TempDir())
	s.filter("a", "red")
	s.filter("b", "blue")
	m := newMachine(t, "node-1", 4)
	description := m.session.Register().GetNode()
	description.Tags = []string{"red", "blue"}
	m.session = nodeproto.NewNodeSession(description, 1, nil)
	register := func() error {
		_, err := s.NodeService().Register(t.Context(), nodeproto.Peer{Node: nodeproto.AnyNode}, m.session.Register())
		return err
	}
	if err := register(); err == nil || !strings.Contains(err.Error(), "[a b]") {
		t.Errorf("registering: %v, want a refusal that names both trees", err)
	}
	node, _ := s.Node("node-1")
	if node.Online || node.Tree != "" {
		t.Errorf("the node is online: %v, in tree %q", node.Online, node.Tree)
	}
	if got := s.alert(AlertNodesRefused); !strings.Contains(got, "node-1") {
		t.Errorf("the alert is %q", got)
	}
	s.filter("b", "green")
	if err := register(); err != nil {
		t.Error(err)
	}
	s.eventually("the alert is gone", func() bool { return s.alert(AlertNodesRefused) == "" })
	s.stop()
}
