package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// Neighbours are the pods of a cluster by where they are, counted by what pods demand of each other. The counts follow
// every pod; a change of a node's labels or taints, or of a namespace's labels, counts all of them once more.
type Neighbours struct {
	nodes      map[string]*corev1.Node
	namespaces map[string]map[string]string
	pods       map[types.UID]neighbour
	repulsions map[string]*repulsion
	tallies    map[string]*tally // by the key of constraints
	stale      bool              // the counts are not those of the nodes and namespaces
}

// neighbour is a pod on a node.
type neighbour struct {
	pod  *corev1.Pod
	node string
	away []term
}

// repulsion is a term by which pods keep others away, and in which domains there are such pods.
type repulsion struct {
	term  term
	users int // pods, wherever they are
	count map[string]int
}

// domain is all nodes with one value of a label.
type domain struct{ key, value string }

// tally is how many pods there are of those that some constraints are about.
type tally struct {
	constraints *Constraints
	near, away  map[domain]int
	spreads     []map[string]int // by the value of the label; a domain without such pods has a zero
	least       []int            // of each of spreads; -1: not known
}

// NewNeighbours returns an empty cluster.
func NewNeighbours() *Neighbours {
	return &Neighbours{
		nodes: map[string]*corev1.Node{}, namespaces: map[string]map[string]string{}, pods: map[types.UID]neighbour{}, repulsions: map[string]*repulsion{},
		tallies: map[string]*tally{},
	}
}

// SetNode records a node as it is now. It reports whether that can matter.
func (n *Neighbours) SetNode(node *corev1.Node) bool {
	old := n.nodes[node.Name]
	n.nodes[node.Name] = node
	if old != nil && maps.Equal(old.Labels, node.Labels) && slices.EqualFunc(old.Spec.Taints, node.Spec.Taints, sameTaint) {
		return false
	}
	n.stale = true
	return n.isAsked()
}

// isAsked reports whether any pod demands something of others.
func (n *Neighbours) isAsked() bool { return len(n.tallies)+len(n.repulsions) > 0 }

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// DropNode records that a node is gone. Its pods count for nothing. It reports whether that can matter.
func (n *Neighbours) DropNode(name string) bool {
	delete(n.nodes, name)
	n.stale = true
	return n.isAsked()
}

// SetNamespace records the labels of a namespace; nil: it is gone. It reports whether that can matter.
func (n *Neighbours) SetNamespace(name string, labels map[string]string) bool {
	if maps.Equal(n.namespaces[name], labels) {
		return false
	}
	n.namespaces[name] = labels
	n.stale = true
	return n.isAsked()
}

// Put records that a pod is on a node. counts reports that some count has changed; terms that pods are kept away by others
// than before, so that constraints have to be read once more.
func (n *Neighbours) Put(pod *corev1.Pod, node string) (counts, terms bool) {
	old, there := n.pods[pod.UID]
	if there && old.node == node && sameForOthers(old.pod, pod) {
		return false, false
	}
	if there {
		counts, terms = n.Remove(pod.UID)
	}
	next := neighbour{pod: pod, node: node}
	next.away, _ = antiAffinityOf(pod) // what the API server takes is well-formed
	n.pods[pod.UID] = next
	for _, t := range next.away {
		r := n.repulsions[t.key]
		if r == nil {
			r = &repulsion{term: t, count: map[string]int{}}
			n.repulsions[t.key] = r
			terms = true
		}
		r.users++
	}
	return n.count(&next, 1) || counts, terms
}

// sameForOthers reports whether two states of a pod are the same for the pods around it. Affinity does not change.
func sameForOthers(a, b *corev1.Pod) bool {
	return maps.Equal(a.Labels, b.Labels) && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil)
}

// Remove records that a pod is on no node. The results are those of Put.
func (n *Neighbours) Remove(uid types.UID) (counts, terms bool) {
	old, there := n.pods[uid]
	if !there {
		return false, false
	}
	delete(n.pods, uid)
	counts = n.count(&old, -1)
	for _, t := range old.away {
		r := n.repulsions[t.key]
		if r.users--; r.users == 0 {
			delete(n.repulsions, t.key)
			terms = true
		}
	}
	return counts, terms
}

// count adds a pod to all counts, or takes it away. It reports whether one has changed.
func (n *Neighbours) count(pod *neighbour, by int) (changed bool) {
	if n.stale {
		return n.isAsked()
	}
	node := n.nodes[pod.node]
	if node == nil {
		return false
	}
	for _, t := range pod.away {
		if value, there := node.Labels[t.topology]; there {
			n.repulsions[t.key].count[value] += by
			changed = true
		}
	}
	for _, t := range n.tallies { // sums: the order does not matter
		changed = t.add(pod.pod, node, n.namespaces[pod.pod.Namespace], by) || changed
	}
	return changed
}

// add counts a pod on a node.
func (t *tally) add(pod *corev1.Pod, node *corev1.Node, namespace map[string]string, by int) (changed bool) {
	if matchesAll(t.constraints.near, pod, namespace) {
		for i := range t.constraints.near {
			changed = raise(t.near, t.constraints.near[i].topology, node, by) || changed
		}
	}
	for i := range t.constraints.away {
		if term := &t.constraints.away[i]; term.matches(pod, namespace) {
			changed = raise(t.away, term.topology, node, by) || changed
		}
	}
	if len(t.spreads) == 0 || pod.Namespace != t.constraints.namespace || pod.DeletionTimestamp != nil || !t.constraints.hasAllDomains(node) {
		return changed
	}
	for i := range t.spreads {
		s := &t.constraints.spreads[i]
		if !s.selector.Empty() && s.selector.Matches(labels.Set(pod.Labels)) && t.constraints.spreadsOver(s, node) {
			t.spreads[i][node.Labels[s.topology]] += by
			t.least[i] = -1
			changed = true
		}
	}
	return changed
}

// raise changes the count of a node's domain, which has no entry while it is zero.
func raise(counts map[domain]int, key string, node *corev1.Node, by int) bool {
	value, there := node.Labels[key]
	if !there {
		return false
	}
	d := domain{key, value}
	if counts[d] += by; counts[d] == 0 {
		delete(counts, d)
	}
	return true
}

// hasAllDomains reports whether a node is in a domain of every demand to spread; the others count for none.
func (c *Constraints) hasAllDomains(node *corev1.Node) bool {
	for i := range c.spreads {
		if _, there := node.Labels[c.spreads[i].topology]; !there {
			return false
		}
	}
	return true
}

// spreadsOver reports whether a node counts for a demand to spread.
func (c *Constraints) spreadsOver(s *spread, node *corev1.Node) bool {
	if s.byAffinity {
		if match, err := c.affinity.Match(node); !match || err != nil {
			return false
		}
	}
	if s.byTolerations {
		if _, found := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, c.tolerations, forbids, false); found {
			return false
		}
	}
	return true
}

// RepelledBy returns the keys of the terms by which pods keep a pod away, sorted.
func (n *Neighbours) RepelledBy(pod *corev1.Pod) (keys []string) {
	for key, r := range n.repulsions {
		if r.term.matches(pod, n.namespaces[pod.Namespace]) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Forget drops the counts of constraints that nobody has any more, by their key.
func (n *Neighbours) Forget(key string) { delete(n.tallies, key) }

// refresh counts everything once more if it must be.
func (n *Neighbours) refresh() {
	if !n.stale {
		return
	}
	n.stale = false
	constraints := make([]*Constraints, 0, len(n.tallies))
	for _, t := range n.tallies {
		constraints = append(constraints, t.constraints)
	}
	clear(n.tallies)
	for _, r := range n.repulsions {
		clear(r.count)
	}
	for _, c := range constraints { // one for each key
		n.tallies[c.Key] = n.newTally(c)
	}
	for _, pod := range n.pods {
		n.count(&pod, 1)
	}
}

// newTally returns the counts of constraints without any pod.
func (n *Neighbours) newTally(c *Constraints) *tally {
	t := &tally{constraints: c, near: map[domain]int{}, away: map[domain]int{}, spreads: make([]map[string]int, len(c.spreads)), least: make([]int, len(c.spreads))}
	for i := range c.spreads {
		t.spreads[i], t.least[i] = map[string]int{}, -1
		for _, node := range n.nodes {
			if c.hasAllDomains(node) && c.spreadsOver(&c.spreads[i], node) {
				t.spreads[i][node.Labels[c.spreads[i].topology]] = 0
			}
		}
	}
	return t
}

// tallyOf returns the counts of constraints.
func (n *Neighbours) tallyOf(c *Constraints) *tally {
	n.refresh()
	t := n.tallies[c.Key]
	if t == nil {
		t = n.newTally(c)
		for _, pod := range n.pods {
			if node := n.nodes[pod.node]; node != nil {
				t.add(pod.pod, node, n.namespaces[pod.pod.Namespace], 1)
			}
		}
		n.tallies[c.Key] = t
	}
	return t
}

// Refuse returns why the pods around a node keep another one away, which some terms repel ([Neighbours.RepelledBy]).
func (n *Neighbours) Refuse(c *Constraints, repelled []string, node *corev1.Node) Refusal {
	if c.relations.isEmpty() && len(repelled) == 0 {
		return Refusal{}
	}
	if !c.relations.isEmpty() {
		if r := n.tallyOf(c).refuse(node); r != (Refusal{}) {
			return r
		}
	}
	n.refresh()
	for _, key := range repelled {
		r := n.repulsions[key]
		if r == nil {
			continue // its last pod has left
		}
		if value, there := node.Labels[r.term.topology]; there && r.count[value] > 0 {
			return Refusal{CauseRepelled, r.term.topology}
		}
	}
	return Refusal{}
}

// refuse returns why a node does not meet what a pod demands of others.
func (t *tally) refuse(node *corev1.Node) Refusal {
	c := t.constraints
	for i := range c.spreads {
		s := &c.spreads[i]
		value, there := node.Labels[s.topology]
		if !there {
			return Refusal{CauseNoDomain, s.topology}
		}
		if t.spreads[i][value]+s.self-t.leastOf(i) > s.most {
			return Refusal{CauseSpread, fmt.Sprintf("%s, maxSkew %d", s.topology, s.most)}
		}
	}
	first := c.self && len(t.near) == 0 // nobody of them is there yet, and it is one of them
	for i := range c.near {
		key := c.near[i].topology
		value, there := node.Labels[key]
		if !there || !first && t.near[domain{key, value}] == 0 {
			return Refusal{CauseNear, key}
		}
	}
	for i := range c.away {
		key := c.away[i].topology
		if value, there := node.Labels[key]; there && t.away[domain{key, value}] > 0 {
			return Refusal{CauseAway, key}
		}
	}
	return Refusal{}
}

// leastOf returns how many pods the emptiest domain has.
func (t *tally) leastOf(i int) int {
	if len(t.spreads[i]) < t.constraints.spreads[i].domains {
		return 0
	}
	if t.least[i] < 0 {
		first := true
		for _, count := range t.spreads[i] { // a minimum: the order does not matter
			if first || count < t.least[i] {
				t.least[i] = count
			}
			first = false
		}
	}
	return t.least[i]
}
