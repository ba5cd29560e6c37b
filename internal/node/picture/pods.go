package picture

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pod is a pod of others that Weir schedules, as people ask about it.
type Pod struct {
	Namespace, Name string
	// State is waiting, starting (it is being bound, or waits on its node for room), running, leaving, completed or failed.
	State   string
	Node    string
	Created time.Time
	// Operation and Alias name its operation, Tree and Pool where that is; empty if the pod has none.
	Operation, Alias, Task, Tree, Pool string
	Cookie                             int32
	// Reason and Message are why it waits, as its condition has it or will have it; empty if there is nothing to say yet.
	Reason, Message string
}

// States of pods.
const (
	podWaiting   = "waiting"
	podStarting  = "starting"
	podRunning   = "running"
	podLeaving   = "leaving"
	podCompleted = "completed"
	podFailed    = "failed"
)

// Pods returns the pods of others that Weir schedules, sorted by namespace and name; only those of a namespace and with a
// name, unless these are empty.
func (p *Picture) Pods(now time.Time, namespace, name string) (list []Pod) {
	for _, g := range p.guests.pods {
		if (namespace == "" || g.pod.Namespace == namespace) && (name == "" || g.pod.Name == name) {
			list = append(list, p.describe(now, g))
		}
	}
	slices.SortFunc(list, func(a, b Pod) int {
		if a.Namespace != b.Namespace {
			return strings.Compare(a.Namespace, b.Namespace)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// Waited is how long a pod of others waited for a node.
type Waited struct {
	Tree, Pool string
	For        time.Duration
}

// Standing is figures of what there is now.
type Standing struct {
	// Pending are the pods of others that wait, in order of their fields.
	Pending []Pending
	// Classes is how many constraint classes are in use.
	Classes int
	// FiguresAge is how old the figures of kubelets are, those of the node with the oldest; zero if no node is measured.
	FiguresAge time.Duration
}

// Pending is how many pods of a pool wait for a reason: that of their condition, "none" if there is none yet. Pods without a
// place have no tree and no pool.
type Pending struct {
	Tree, Pool, Reason string
	Count              int
}

// Standing returns figures of what there is now.
func (p *Picture) Standing() Standing {
	counts := map[Pending]int{}
	for _, g := range p.guests.pods {
		if state := stateOf(g); state != podWaiting && state != podStarting || g.pod.Spec.NodeName != "" {
			continue
		}
		key := Pending{Reason: cmp.Or(g.note.shown.Reason, "none")}
		if t := g.task; t != nil {
			key.Tree, key.Pool = t.of.place.Tree, t.of.place.Pool
		}
		counts[key]++
	}
	s := Standing{Classes: len(p.guests.classes)}
	for _, n := range p.nodes {
		if !n.unmeasured.IsZero() {
			s.FiguresAge = max(s.FiguresAge, p.latest.Sub(n.unmeasured))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b Pending) int {
		return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Reason, b.Reason))
	}) {
		key.Count = counts[Pending{key.Tree, key.Pool, key.Reason, 0}]
		s.Pending = append(s.Pending, key)
	}
	return s
}

// waited notes how long a pod that is bound now waited.
func (p *Picture) waited(now time.Time, g *guest) {
	w := Waited{For: now.Sub(g.seen)}
	if t := g.task; t != nil {
		w.Tree, w.Pool = t.of.place.Tree, t.of.place.Pool
	}
	p.effects.Waits = append(p.effects.Waits, w)
}

func (p *Picture) describe(now time.Time, g *guest) Pod {
	d := Pod{Namespace: g.pod.Namespace, Name: g.pod.Name, Node: g.pod.Spec.NodeName, Created: g.pod.CreationTimestamp.Time, State: stateOf(g)}
	if t := g.task; t != nil {
		d.Operation, d.Alias, d.Task, d.Cookie = t.of.id, t.of.alias, t.name, g.cookie
		d.Tree, d.Pool = t.of.place.Tree, t.of.place.Pool
	}
	if d.Node == "" && g.job != nil && g.job.node != nil {
		d.Node = g.job.node.name
	}
	if d.State == podWaiting || d.State == podStarting {
		if why := p.reasonOf(now, g); why != nil {
			d.Reason, d.Message = why.Reason, why.Message
		}
	}
	return d
}

func stateOf(g *guest) string {
	switch pod := g.pod; {
	case pod.Status.Phase == corev1.PodSucceeded:
		return podCompleted
	case pod.Status.Phase == corev1.PodFailed:
		return podFailed
	case pod.DeletionTimestamp != nil:
		return podLeaving
	case pod.Status.Phase == corev1.PodRunning:
		return podRunning
	case pod.Spec.NodeName != "" || g.job != nil:
		return podStarting
	}
	return podWaiting
}
