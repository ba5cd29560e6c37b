package picture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/workload"
)

// note is what the condition PodScheduled of a pod says.
type note struct {
	shown    workload.Problem
	shownAt  time.Time
	writing  *workload.Problem // on its way
	retryAt  time.Time
	attempts int
}

const (
	// showAfter is how long a pod waits before its condition says that a new node would help, or why it waits otherwise.
	showAfter = 3 * time.Second
	// showAgain is how long a message with the same reason stays at least.
	showAgain = 5 * time.Minute
	// notesPause is how often conditions are looked at.
	notesPause = 500 * time.Millisecond
	// preemptingFor is how long a pod waits for victims before a new node is asked for.
	preemptingFor = time.Minute
)

// read takes in what the condition says already.
func (n *note) read(pod *corev1.Pod) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			n.shown = workload.Problem{Reason: c.Reason, Message: c.Message}
		}
	}
}

// explain writes conditions of waiting pods that say something else than they should.
func (p *Picture) explain(now time.Time) {
	if p.blind || !p.guests.listed || now.Before(p.began.Add(settle)) || now.Sub(p.guests.notesAt) < notesPause {
		return
	}
	p.guests.notesAt = now
	demands := map[*class]string{} // that nodes do not meet
	list := p.guestList()
	p.explainGroups(now, list)
	for _, g := range list {
		n := &g.note
		if n.writing != nil || now.Before(n.retryAt) || !workload.Waits(g.pod) {
			continue
		}
		why := p.reasonOf(now, g)
		if why == nil || why.Reason == n.shown.Reason && now.Sub(n.shownAt) < showAgain {
			continue
		}
		if why.Reason == workload.ReasonUnschedulable && g.job == nil {
			k := g.task.class
			if _, known := demands[k]; !known {
				demands[k] = p.unmet(now, k)
			}
			why.Message += demands[k]
		}
		why.Message += "; kubectl weir explain pod/" + g.pod.Name
		if *why == n.shown {
			n.shownAt = now
			continue
		}
		nominated := ""
		if g.job != nil && why.Reason == workload.ReasonPreempting {
			nominated = g.job.node.name
		}
		n.writing = why
		p.effects.Writes = append(p.effects.Writes, Write{
			Kind: Explain, Namespace: g.pod.Namespace, Name: g.pod.Name, UID: g.pod.UID, Reason: why.Reason, Message: why.Message, Node: nominated,
		})
	}
}

// mostUnmet is how many demands a message names.
const mostUnmet = 5

// unmet says how many nodes do not meet which demand of a class, the most frequent first; empty if all meet all.
func (p *Picture) unmet(now time.Time, k *class) string {
	counts := map[workload.Refusal]int{}
	for _, n := range p.nodes {
		if n.object == nil {
			continue
		}
		if refusal := p.refusalOf(n, k, "", now); refusal != (workload.Refusal{}) {
			counts[refusal]++
		}
	}
	refusals := slices.SortedFunc(maps.Keys(counts), func(a, b workload.Refusal) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Detail, b.Detail))
	})
	var text strings.Builder
	for i, refusal := range refusals {
		if i == mostUnmet {
			fmt.Fprintf(&text, " and %d more reasons", len(refusals)-mostUnmet)
			break
		}
		separator := ","
		if i == 0 {
			separator = "; of all nodes"
		}
		fmt.Fprintf(&text, "%s %d %s", separator, counts[refusal], refusal)
	}
	return text.String()
}

// reasonOf returns why a pod waits, nil if there is nothing to say yet. Messages have no figures that change often.
func (p *Picture) reasonOf(now time.Time, g *guest) *workload.Problem {
	say := func(reason, text string) *workload.Problem { return &workload.Problem{Reason: reason, Message: text} }
	var op *external
	if g.task != nil {
		op = g.task.of
	}
	waited := now.Sub(g.seen)
	switch {
	case g.problem != nil:
		return say(g.problem.Reason, g.problem.Message)
	case op == nil:
		return nil
	case g.rejected != "":
		return say(workload.ReasonBindRejected, "the API server refuses to bind the pod: "+g.rejected)
	case op.problem != nil:
		return say(op.problem.Reason, op.problem.Message)
	case g.job != nil && g.job.phase == waiting:
		text := fmt.Sprintf("the pod waits on node %s until preempted pods have left", g.job.node.name)
		if now.Sub(g.job.since) >= preemptingFor {
			return say(workload.ReasonUnschedulable, text+", which takes long")
		}
		return say(workload.ReasonPreempting, text)
	case g.job != nil || waited < showAfter:
		return nil
	case op.place.GangSize > op.members():
		return say(workload.ReasonGang, fmt.Sprintf("fewer pods exist than the %d that the gang needs", op.place.GangSize))
	case op.why != nil:
		return say(op.why.Reason, op.why.Message)
	}
	return nil
}

// members returns how many pods the operation has.
func (op *external) members() (count int) {
	for _, t := range op.tasks {
		count += len(t.pods)
	}
	return count
}

// explained processes the outcome of a condition's write.
func (p *Picture) explained(now time.Time, w *Write, outcome *Outcome) {
	g := p.guests.pods[w.UID]
	if g == nil || g.note.writing == nil {
		return
	}
	n := &g.note
	if outcome.Kind == Temporary || outcome.Kind == Refused {
		n.attempts++
		n.retryAt = now.Add(backoff(n.attempts))
		n.writing = nil
		if outcome.Kind == Refused {
			n.retryAt = now.Add(time.Minute)
		}
		return
	}
	n.shown, n.shownAt, n.writing, n.attempts = *n.writing, now, nil, 0
}
