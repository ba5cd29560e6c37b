package workload

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"

	"github.com/weirhq/weir/internal/value/resource"
)

// Hundredths returns an amount of CPU in hundredths of a core, rounded down.
func Hundredths(q apiresource.Quantity) int64 { return q.MilliValue() / 10 }

// hundredthsUp returns an amount of CPU in hundredths of a core, rounded up.
func hundredthsUp(q apiresource.Quantity) int64 { return (q.MilliValue() + 9) / 10 }

// Clamp returns an amount within what sums can hold.
func Clamp(v int64) int64 { return min(max(v, 0), resource.Unlimited) }

// requests returns what a pod takes on its node, by the names of Kubernetes: the largest of what it asks for and what it
// has. Init containers, sidecars, overhead and resizes that are under way are in it.
func requests(pod *corev1.Pod) corev1.ResourceList {
	return helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true})
}

// Amounts returns what a pod takes on its node. gpus are the extended resources that are GPUs.
func Amounts(pod *corev1.Pod, gpus []string) (a resource.Amounts) {
	list := requests(pod)
	a[resource.CPU] = Clamp(max(1, hundredthsUp(*list.Cpu())))
	a[resource.Memory] = Clamp(list.Memory().Value())
	a[resource.UserSlots] = 1
	for _, name := range gpus {
		q := list[corev1.ResourceName(name)]
		a[resource.GPU] = Clamp(a[resource.GPU] + q.Value())
	}
	return a
}

// Extra is an amount of a resource that Weir does not share out: it fits, or it does not.
type Extra struct {
	Name   corev1.ResourceName
	Amount int64
}

// Extras returns what a pod takes of resources beside CPU, memory, pods and GPUs, in the order of their names.
func Extras(pod *corev1.Pod, gpus []string) (list []Extra) {
	for name, q := range requests(pod) {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourcePods || slices.Contains(gpus, string(name)) || q.IsZero() {
			continue
		}
		list = append(list, Extra{name, Clamp(q.Value())})
	}
	slices.SortFunc(list, func(a, b Extra) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// gpusOf returns the names of the GPUs that a pod asks for, sorted.
func gpusOf(pod *corev1.Pod, gpus []string) (names []corev1.ResourceName) {
	list := requests(pod)
	for _, name := range gpus {
		if q := list[corev1.ResourceName(name)]; !q.IsZero() {
			names = append(names, corev1.ResourceName(name))
		}
	}
	slices.Sort(names)
	return names
}
