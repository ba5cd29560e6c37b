// Command oracle says which nodes the filters of kube-scheduler refuse for pods. It reads clusters as JSON from its input, one
// after the other, and writes an answer to each. Tests compare Weir's own rules with it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// question is a cluster and pods that wait in it, each of which is asked about alone.
type question struct {
	Namespaces []*corev1.Namespace
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod // on nodes
	Waiting    []*corev1.Pod
}

// answer has, for each pod that waits and each node, the plugins that refuse it.
type answer struct {
	Refusals []map[string][]string
}

// filters are the plugins that are asked.
var filters = []struct {
	create func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)
	args   runtime.Object
}{
	{nodeaffinity.New, &config.NodeAffinityArgs{}},
	{tainttoleration.New, nil},
	{nodeports.New, nil},
	{noderesources.NewFit, &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{
		Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}},
	}}},
	{podtopologyspread.New, &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}},
	{interpodaffinity.New, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}},
}

func main() {
	metrics.Register() // plugins count what they do
	input, output := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var q question
		if err := input.Decode(&q); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fail(err)
		}
		a, err := answerTo(context.Background(), &q)
		if err != nil {
			fail(err)
		}
		if err := output.Encode(a); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func answerTo(ctx context.Context, q *question) (*answer, error) {
	snapshot := cache.NewSnapshot(q.Pods, q.Nodes)
	factory := informers.NewSharedInformerFactory(nil, 0) // never started: its stores are filled here
	for _, namespace := range q.Namespaces {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace); err != nil {
			return nil, err
		}
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		return nil, err
	}
	a := &answer{Refusals: make([]map[string][]string, len(q.Waiting))}
	for i := range a.Refusals {
		a.Refusals[i] = map[string][]string{}
	}
	for _, f := range filters {
		plugin, err := f.create(ctx, f.args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		if err != nil {
			return nil, err
		}
		for i, pod := range q.Waiting {
			if err := ask(ctx, plugin, snapshot, pod, a.Refusals[i]); err != nil {
				return nil, fmt.Errorf("pod %s: %s: %w", pod.Name, plugin.Name(), err)
			}
		}
	}
	return a, nil
}

// ask adds a plugin to the refusals of the nodes that it refuses for a pod.
func ask(ctx context.Context, plugin fwk.Plugin, snapshot *cache.Snapshot, pod *corev1.Pod, refusals map[string][]string) error {
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return err
	}
	state := framework.NewCycleState()
	var only *fwk.PreFilterResult
	all := false
	if before, ok := plugin.(fwk.PreFilterPlugin); ok {
		result, status := before.PreFilter(ctx, state, pod, nodes)
		if status.IsSkip() {
			return nil
		}
		if status.Code() == fwk.Error {
			return status.AsError()
		}
		only, all = result, !status.IsSuccess()
	}
	for _, node := range nodes {
		name := node.Node().Name
		refused := all || only != nil && !only.AllNodes() && !only.NodeNames.Has(name)
		if !refused {
			status := plugin.(fwk.FilterPlugin).Filter(ctx, state, pod, node)
			if status.Code() == fwk.Error {
				return status.AsError()
			}
			refused = !status.IsSuccess()
		}
		if refused {
			refusals[name] = append(refusals[name], plugin.Name())
		}
	}
	return nil
}
