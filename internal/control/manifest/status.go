package manifest

import (
	"fmt"
	"math"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Condition is a condition of an object, as everywhere in Kubernetes.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
}

// Types of conditions.
const (
	ConditionAccepted = "Accepted"
	ConditionFeasible = "Feasible"
)

// Shares are parts of a tree's dominant resource, for columns.
type Shares struct {
	Usage      string `json:"usage,omitempty"`
	Demand     string `json:"demand,omitempty"`
	FairShare  string `json:"fairShare,omitempty"`
	Guaranteed string `json:"guaranteed,omitempty"`
}

// PoolStatus is the status of a WeirPool.
type PoolStatus struct {
	Usage             map[string]string `json:"usage,omitempty"`
	Demand            map[string]string `json:"demand,omitempty"`
	FairShare         map[string]string `json:"fairShare,omitempty"`
	Guaranteed        map[string]string `json:"guaranteed,omitempty"`
	DominantResource  string            `json:"dominantResource,omitempty"`
	Shares            Shares            `json:"shares"`
	Volume            string            `json:"volume,omitempty"`
	Operations        int               `json:"operations"`
	RunningOperations int               `json:"runningOperations"`
	RunningJobs       int64             `json:"runningJobs"`
	PendingJobs       int64             `json:"pendingJobs"`
	Starving          bool              `json:"starving"`
	Conditions        []Condition       `json:"conditions,omitempty"`

	// figures are the numbers by which changes are judged.
	figures []float64
}

// TreeStatus is the status of a WeirTree.
type TreeStatus struct {
	Nodes             int               `json:"nodes"`
	Pools             int               `json:"pools"`
	Total             map[string]string `json:"total,omitempty"`
	Usage             map[string]string `json:"usage,omitempty"`
	RunningOperations int               `json:"runningOperations"`
	Conditions        []Condition       `json:"conditions,omitempty"`

	figures []float64
}

func amounts(a resource.Amounts) map[string]string {
	m := map[string]string{}
	for k := range resource.KindCount {
		if a[k] != 0 && a[k] < resource.Unlimited {
			m[resource.Kind(k).String()] = resource.FormatAmount(resource.Kind(k), a[k])
		}
	}
	return m
}

func percent(v float64) string { return fmt.Sprintf("%.1f%%", v*100) }

// PoolStatusOf is the status of a pool, without conditions; that of a pool that is not there yet is empty.
func PoolStatusOf(tree *core.Tree, p *core.Pool) PoolStatus {
	if tree == nil || p == nil {
		return PoolStatus{}
	}
	dominant := p.Shares.Dominant
	fair := p.Share.Total
	s := PoolStatus{
		Usage: amounts(p.Usage), Demand: amounts(p.Demand), FairShare: amounts(fair.Of(tree.Total)), Guaranteed: amounts(p.InferredGuarantee),
		DominantResource: dominant.String(),
		Shares: Shares{
			Usage: percent(p.UsageShare[dominant]), Demand: percent(p.Demand.Share(tree.Total)[dominant]),
			FairShare: percent(fair[dominant]), Guaranteed: percent(p.StrongGuarantee[dominant]),
		},
		Operations: p.Operations, RunningOperations: p.RunningOperations, RunningJobs: int64(p.RunningJobs), PendingJobs: int64(p.WaitingJobs),
		Starving: p.Starvation != scheduling.NonStarving,
	}
	if p.CapacityRatio > 0 {
		s.Volume = (time.Duration(p.VolumeRatio) * time.Second).String()
	}
	for k := range resource.KindCount {
		s.figures = append(s.figures, p.UsageShare[k], fair[k], p.Demand.Share(tree.Total)[k], p.StrongGuarantee[k])
	}
	s.figures = append(s.figures, p.VolumeRatio/86400)
	return s
}

// TreeStatusOf is the status of a tree, without conditions.
func TreeStatusOf(tree *core.Tree) TreeStatus {
	if tree == nil {
		return TreeStatus{}
	}
	root := tree.Root()
	s := TreeStatus{
		Nodes: tree.NodeCount, Pools: tree.PoolCount() - 1, Total: amounts(tree.Total), Usage: amounts(root.Usage), RunningOperations: root.RunningOperations,
	}
	for k := range resource.KindCount {
		s.figures = append(s.figures, root.UsageShare[k], float64(tree.Total[k]))
	}
	return s
}

// least is the smallest change of a figure that is worth a write: one per cent.
const least = 0.01

// moved reports whether one of the figures differs by more than one per cent of the whole, or of the larger one beyond it.
func moved(a, b []float64) bool {
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > least*max(1, math.Abs(a[i]), math.Abs(b[i])) {
			return true
		}
	}
	return false
}

// Differs reports whether a status is worth writing after another one.
func (s *PoolStatus) Differs(old *PoolStatus) bool {
	return moved(s.figures, old.figures) || s.Operations != old.Operations || s.RunningOperations != old.RunningOperations || s.Starving != old.Starving ||
		s.RunningJobs != old.RunningJobs && moved([]float64{float64(s.RunningJobs)}, []float64{float64(old.RunningJobs)}) ||
		s.PendingJobs != old.PendingJobs && moved([]float64{float64(s.PendingJobs)}, []float64{float64(old.PendingJobs)}) ||
		Differ(s.Conditions, old.Conditions)
}

// Differs reports whether a status is worth writing after another one.
func (s *TreeStatus) Differs(old *TreeStatus) bool {
	return moved(s.figures, old.figures) || s.Nodes != old.Nodes || s.Pools != old.Pools || s.RunningOperations != old.RunningOperations ||
		Differ(s.Conditions, old.Conditions)
}

// Differ reports whether conditions differ in more than their times.
func Differ(a, b []Condition) bool {
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		x, y := a[i], b[i]
		x.LastTransitionTime, y.LastTransitionTime = "", ""
		if x != y {
			return true
		}
	}
	return false
}

// Conditions returns the conditions of an object after a decision: the time of one whose status is as before stays.
func Conditions(v Verdict, warning string, generation int64, before []Condition, now time.Time) []Condition {
	status := map[bool]string{true: "True", false: "False"}
	message := v.Message
	if message == "" {
		message = "it is in force"
	}
	list := []Condition{{Type: ConditionAccepted, Status: status[v.Accepted], Reason: v.Reason, Message: message, ObservedGeneration: generation}}
	if v.Accepted {
		feasible := Condition{Type: ConditionFeasible, Status: "True", Reason: "Feasible", Message: "the nodes can keep all promises", ObservedGeneration: generation}
		if warning != "" {
			feasible.Status, feasible.Reason, feasible.Message = "False", "PromisesExceedNodes", warning
		}
		list = append(list, feasible)
	}
	for i := range list {
		list[i].LastTransitionTime = now.UTC().Format(time.RFC3339)
		for _, old := range before {
			if old.Type == list[i].Type && old.Status == list[i].Status {
				list[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return list
}
