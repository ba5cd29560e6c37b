package picture

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/resource"
)

// networkUnits is what every node offers of the resource network, which Kubernetes does not count: as much as an agent
// offers by default.
const networkUnits = 100

// taintOutOfService is set by administrators on a node that will not come back: its jobs are given up at once.
const taintOutOfService = "node.kubernetes.io/out-of-service"

// leavingTaints are set on nodes that are drained or scaled down.
var leavingTaints = []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", corev1.TaintNodeUnschedulable}

// gpuResource returns the extended resource that is the GPUs of a node, empty if it has none.
func (o *Options) gpuResource(node *corev1.Node) corev1.ResourceName {
	for _, name := range o.GPUResources {
		if q, there := node.Status.Allocatable[corev1.ResourceName(name)]; there && !q.IsZero() {
			return corev1.ResourceName(name)
		}
	}
	return ""
}

// offered returns what a node has for pods.
func (o *Options) offered(node *corev1.Node) (a resource.Amounts) {
	list := node.Status.Allocatable
	a[resource.CPU] = workload.Clamp(workload.Hundredths(*list.Cpu()))
	a[resource.Memory] = workload.Clamp(list.Memory().Value())
	a[resource.UserSlots] = workload.Clamp(list.Pods().Value())
	a[resource.Network] = networkUnits
	if name := o.gpuResource(node); name != "" {
		q := list[name]
		a[resource.GPU] = workload.Clamp(q.Value())
	}
	return a
}

// requested returns what a pod takes on its node.
func (o *Options) requested(pod *corev1.Pod) resource.Amounts {
	return workload.Amounts(pod, o.GPUResources)
}

// isOver reports whether a pod has ended: it takes nothing on its node any more.
func isOver(pod *corev1.Pod) bool { return workload.IsOver(pod) }

// limitsOf returns what jobs may use of a node beside other pods.
func (o *Options) limitsOf(node *corev1.Node, others resource.Amounts) resource.Amounts {
	left := o.offered(node).Sub(others).Sub(o.Reserve)
	return left.Max(resource.Amounts{})
}

// tagsOf returns the tags of a node, sorted.
func (o *Options) tagsOf(node *corev1.Node) (tags []string) {
	for _, key := range o.TagLabels {
		if value, there := node.Labels[key]; there {
			tags = append(tags, key+"="+value)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// isReady reports whether the kubelet of a node answers, as its controller saw it last.
func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isOutOfService reports whether an administrator has declared that a node will not come back.
func isOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintOutOfService })
}

// isCondition reports whether a taint states a condition of its node, which is judged by the condition itself.
func isCondition(key string) bool {
	return key == corev1.TaintNodeUnschedulable || strings.HasPrefix(key, "node.kubernetes.io/") && key != taintOutOfService
}

// obstacles returns why a node gets no jobs, empty if it does.
func (o *Options) obstacles(node *corev1.Node) (why []string) {
	why = o.closed(node)
	for _, t := range node.Spec.Taints {
		forbids := t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		if forbids && !isCondition(t.Key) && !slices.Contains(leavingTaints, t.Key) && !slices.Contains(o.ToleratedTaints, t.Key) {
			why = append(why, fmt.Sprintf("the node has the taint %s (%s)", t.Key, t.Effect))
		}
	}
	return why
}

// closed returns why a node gets no pods at all, whatever they tolerate.
func (o *Options) closed(node *corev1.Node) (why []string) {
	if !isReady(node) {
		why = append(why, "the node is not ready")
	}
	if node.Spec.Unschedulable {
		why = append(why, "the node is cordoned")
	}
	for _, c := range node.Status.Conditions {
		pressure := c.Type == corev1.NodeMemoryPressure || c.Type == corev1.NodeDiskPressure || c.Type == corev1.NodePIDPressure
		if pressure && c.Status == corev1.ConditionTrue {
			why = append(why, "the node reports "+string(c.Type))
		}
	}
	for _, t := range node.Spec.Taints {
		if slices.Contains(leavingTaints, t.Key) && t.Key != corev1.TaintNodeUnschedulable {
			why = append(why, "the node is leaving: taint "+t.Key)
		}
	}
	return why
}

// statusOf returns what a virtual node reports about itself. A node that is gone offers nothing.
func (o *Options) statusOf(node *corev1.Node, others, usage resource.Amounts) *nodev1.NodeStatus {
	if node == nil {
		return &nodev1.NodeStatus{
			Limits: nodeproto.ToAmounts(resource.Amounts{}), Usage: nodeproto.ToAmounts(usage), JobsDisabled: true,
			Alerts: []string{"the node is no longer in the Kubernetes cluster"},
		}
	}
	why := o.obstacles(node)
	return &nodev1.NodeStatus{
		Limits: nodeproto.ToAmounts(o.limitsOf(node, others)), Usage: nodeproto.ToAmounts(usage), JobsDisabled: len(why) > 0, Alerts: why,
	}
}

// descriptionOf returns what a virtual node registers with.
func (o *Options) descriptionOf(name string, node *corev1.Node) *nodev1.NodeDescription {
	d := &nodev1.NodeDescription{
		Name: name, SoftwareVersion: o.Version, Cgroups: "kubernetes", AgentId: agentID,
		Isolation: &nodev1.Isolation{Level: "full", RunAs: "job"}, Resources: nodeproto.ToAmounts(resource.Amounts{}), Streams: true,
	}
	if node != nil {
		d.Resources, d.Tags, d.OperatingSystem = nodeproto.ToAmounts(o.offered(node)), o.tagsOf(node), node.Status.NodeInfo.OSImage
	}
	return d
}

// agentID is the id of the agent of every virtual node: a `weir node` of the same name is refused while Kubernetes has
// the node.
const agentID = "kubernetes"
