package picture

import (
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
