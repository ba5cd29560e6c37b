package app

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/resource"
)

// Unschedulable makes autoscalers add nodes, so it is said only where a node would help.
func TestWhyPodsWait(t *testing.T) {
	now := time.Unix(1000, 0)
	aside := core.GangExplanation{}
	aside.Aside = now.Add(time.Minute)
	for what, c := range map[string]struct {
		blocker       why.Blocker
		reason, words string
	}{
		"no room":            {why.Blocker{Code: why.NodeResources, Nodes: 3, Resource: resource.Memory}, workload.ReasonUnschedulable, "0/5 nodes are available: 3 had insufficient memory; pool \"p\" of tree \"t\" may have more"},
		"no node matches":    {why.Blocker{Code: why.NodeConstraints, Nodes: 5}, workload.ReasonUnschedulable, "5 didn't match"},
		"larger than a node": {why.Blocker{Code: why.JobLargerThanAnyNode, Nodes: 5, Resource: resource.CPU}, workload.ReasonUnschedulable, "5 had insufficient cpu"},
		"others come first":  {why.Blocker{Code: why.TurnSatisfaction}, workload.ReasonUnschedulable, "given to others first"},
		"a pool's limit":     {why.Blocker{Code: why.Limit, Pool: "above", Resource: resource.GPU}, workload.ReasonPoolLimit, `pool "above" of tree "t" has reached its limit of gpu`},
		"its own limit":      {why.Blocker{Code: why.Limit}, workload.ReasonPoolLimit, "the operation of the pod has reached"},
		"too many":           {why.Blocker{Code: why.CountLimit, Pool: "above"}, workload.ReasonOperationLimit, `pool "above"`},
		"suspended":          {why.Blocker{Code: why.OperationSuspended}, workload.ReasonOperationLimit, "operation_suspended"},
		"a gang aside":       {why.Blocker{Code: why.Gang, Gang: aside}, workload.ReasonGang, "steps aside"},
		"a gang without":     {why.Blocker{Code: why.Gang}, workload.ReasonUnschedulable, "0/5 nodes"},
	} {
		x := &why.Operation{AsOf: now, Blockers: []why.Blocker{c.blocker}}
		x.Facts.Trees = []core.TreeExplanation{{Tree: "t", Pool: "p", Nodes: 5}}
		if got := reasonOf(x); got == nil || got.Reason != c.reason || !strings.Contains(got.Message, c.words) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for _, code := range []why.Code{why.SchedulerReviving, why.NoWaitingJobs} {
		x := &why.Operation{Blockers: []why.Blocker{{Code: code}}}
		x.Facts.Trees = []core.TreeExplanation{{}}
		if got := reasonOf(x); got != nil {
			t.Errorf("%v: %+v", code, got)
		}
	}
}

func TestNodesDenyTheClassThatTheEngineCallsPending(t *testing.T) {
	if picture.ClassPending != int32(operation.ClassPending) {
		t.Errorf("nodes deny %d, jobs have %d", picture.ClassPending, operation.ClassPending)
	}
}

func TestTheSpecificationOfPods(t *testing.T) {
	opening := &picture.Opening{Alias: "*shop/PodGroup/ring", Place: workload.Place{
		Namespace: "shop", Kind: "PodGroup", Name: "ring", Pool: "p", GangSize: 4, GangWhole: true, FreeRoomOnly: true,
	}}
	spec, err := specOfPods(opening, "t", workload.FIFOWeight(-5))
	if err != nil {
		t.Fatal(err)
	}
	e := spec.Spec.External.Value()
	if !spec.Spec.IsExternal() || spec.Spec.Alias.Value() != opening.Alias || e.GangSize.Value() != 4 || !e.GangWhole.Value() || !e.FreeRoomOnly.Value() {
		t.Errorf("%+v", spec.Spec)
	}
}
