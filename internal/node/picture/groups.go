package picture

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/workload"
)

// groupNote is how far the condition of a PodGroup has been written.
type groupNote struct {
	writing  bool
	retryAt  time.Time
	attempts int
}

// groupTally is what is known about the pods of a PodGroup.
type groupTally struct {
	bound int
	why   workload.Problem // of the first pod that waits and says so
}

// coreGroupOf returns the key of the PodGroup of Kubernetes' own API that a pod names, empty if it names none.
func coreGroupOf(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return workload.CoreGroups + " " + pod.Namespace + "/" + *g.PodGroupName
	}
	return ""
}

// stranger records a pod of a PodGroup that another scheduler has. Its group is not Weir's to judge.
func (p *Picture) stranger(pod *corev1.Pod, gone bool) {
	key := coreGroupOf(pod)
	if key == "" || workload.IsOurs(pod) {
		return
	}
	if gone {
		delete(p.guests.strangers[key], pod.UID)
		return
	}
	if p.guests.strangers[key] == nil {
		p.guests.strangers[key] = map[types.UID]bool{}
	}
	p.guests.strangers[key][pod.UID] = true
}

// explainGroups writes the conditions of PodGroups all of whose pods are Weir's: whether as many pods as the group needs have
// got nodes, or why not. Once they have, the condition stays.
func (p *Picture) explainGroups(now time.Time, list []*guest) {
	tallies := map[string]*groupTally{}
	for _, g := range list {
		key := coreGroupOf(g.pod)
		if group := p.guests.groups[key]; group == nil || group.Scheduled {
			continue
		}
		t := tallies[key]
		if t == nil {
			t = &groupTally{}
			tallies[key] = t
		}
		switch {
		case g.pod.Spec.NodeName != "":
			t.bound++
		case t.why == (workload.Problem{}):
			t.why = g.note.shown
		}
	}
	for _, key := range sortedKeys(tallies) {
		p.explainGroup(now, key, tallies[key])
	}
}

// explainGroup writes the condition of one PodGroup if it says something else.
func (p *Picture) explainGroup(now time.Time, key string, t *groupTally) {
	group, n := p.guests.groups[key], p.guests.groupNotes[key]
	if n == nil {
		n = &groupNote{}
		p.guests.groupNotes[key] = n
	}
	if n.writing || now.Before(n.retryAt) || len(p.guests.strangers[key]) > 0 {
		return
	}
	_, name, _ := strings.Cut(key, " ")
	w := Write{Kind: ExplainGroup, UID: group.UID, Scheduled: t.bound >= max(1, group.MinMember)}
	w.Namespace, w.Name, _ = strings.Cut(name, "/")
	if !w.Scheduled {
		if t.why.Reason == "" || t.why.Reason == group.Reason {
			return
		}
		w.Reason = t.why.Reason
		w.Message, _, _ = strings.Cut(t.why.Message, "; kubectl weir explain ")
	}
	n.writing = true
	p.effects.Writes = append(p.effects.Writes, w)
}

// groupExplained processes the outcome of the write of a PodGroup's condition.
func (p *Picture) groupExplained(now time.Time, w *Write, outcome *Outcome) {
	key := workload.CoreGroups + " " + w.Namespace + "/" + w.Name
	n := p.guests.groupNotes[key]
	if n == nil {
		return
	}
	n.writing = false
	switch outcome.Kind {
	case Done:
		n.attempts = 0
		if group := p.guests.groups[key]; group != nil && group.UID == w.UID { // until the watch shows the same
			group.Scheduled, group.Reason = w.Scheduled, w.Reason
		}
	case Temporary:
		n.attempts++
		n.retryAt = now.Add(backoff(n.attempts))
	default:
		n.retryAt = now.Add(time.Minute)
	}
}
