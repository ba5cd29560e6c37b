package pretender

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/value/resource"
)

// Label is on every pretended node, with the value "true". It is also the key of the taint that keeps other pods away.
const Label = picture.Prefix + "pretended"

// Tag is the tag of pretended nodes, if Label is among the labels that become tags.
const Tag = Label + "=true"

const nodePrefix = "weir-pretended-"

// NodeName returns the name of the pretended node with a number, from 1.
func NodeName(number int) string { return nodePrefix + strconv.Itoa(number) }

// NodeOf returns a node that is ready and has these resources. Its kubelet, if anything listens there, is at 127.0.0.1 and the port.
func NodeOf(name string, resources corev1.ResourceList, port int32) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Allocatable: resources, Capacity: resources,
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
		},
	}
}

// pretended adds to a node what tells it from a real one.
func pretended(node *corev1.Node) *corev1.Node {
	node.Labels[Label] = "true"
	node.Spec.Taints = []corev1.Taint{{Key: Label, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return node
}

// gpus is the extended resource of pretended GPUs.
const gpus corev1.ResourceName = "nvidia.com/gpu"

// quantities are amounts as Kubernetes writes them.
func quantities(a resource.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *apiresource.NewMilliQuantity(a[resource.CPU]*10, apiresource.DecimalSI),
		corev1.ResourceMemory: *apiresource.NewQuantity(a[resource.Memory], apiresource.BinarySI),
		corev1.ResourcePods:   *apiresource.NewQuantity(a[resource.UserSlots], apiresource.DecimalSI),
	}
	if a[resource.GPU] > 0 {
		list[gpus] = *apiresource.NewQuantity(a[resource.GPU], apiresource.DecimalSI)
	}
	return list
}
