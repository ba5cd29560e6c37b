package workload

import (
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/value/resource"
)

var gpuNames = []string{"nvidia.com/gpu", "amd.com/gpu"}

func asking(amounts map[string]string) *corev1.Pod {
	pod := podBy("", nil)
	list := corev1.ResourceList{}
	for name, q := range amounts {
		list[corev1.ResourceName(name)] = apiresource.MustParse(q)
	}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list}}}
	return pod
}

func TestAmountsOfAPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := asking(map[string]string{"cpu": "1001m", "memory": "1Gi", "nvidia.com/gpu": "2", "example.com/fpga": "3", "ephemeral-storage": "5"})
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "sidecar", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse("1")}}},
		{Name: "init", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": apiresource.MustParse("3Gi")}}},
	}
	pod.Spec.Overhead = corev1.ResourceList{"memory": apiresource.MustParse("1Mi")}
	want := resource.Amounts{resource.CPU: 201, resource.Memory: 3<<30 + 1<<20, resource.UserSlots: 1, resource.GPU: 2}
	if got := Amounts(pod, gpuNames); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Extras(pod, gpuNames); len(got) != 2 || got[0] != (Extra{"ephemeral-storage", 5}) || got[1] != (Extra{"example.com/fpga", 3}) {
		t.Errorf("%v", got)
	}
	if got := Amounts(podBy("", nil), gpuNames); got != (resource.Amounts{resource.CPU: 1, resource.UserSlots: 1}) {
		t.Errorf("a pod that asks for nothing takes %v", got)
	}
}

// Sums of what pods take, rounded up, never exceed what a node offers, rounded down, unless they do in Kubernetes' units.
func TestRoundingNeverPromisesTooMuch(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		var units, sum int64
		for range 1 + random.IntN(5) {
			milli := random.Int64N(3000)
			units += milli
			sum += Amounts(asking(map[string]string{"cpu": apiresource.NewMilliQuantity(milli, apiresource.DecimalSI).String()}), nil)[resource.CPU]
		}
		if sum <= Hundredths(*apiresource.NewMilliQuantity(units-1, apiresource.DecimalSI)) {
			t.Fatalf("pods of %d thousandths fit into less", units)
		}
	}
}

func TestUnsupportedFieldsAreNamedWithTheirPath(t *testing.T) {
	for path, change := range map[string]func(*corev1.PodSpec){
		"spec.resourceClaims":                   func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} },
		"spec.volumes[0].persistentVolumeClaim": func(s *corev1.PodSpec) { s.Volumes = claims("unbound") },
		"spec.volumes[0].ephemeral": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		},
	} {
		pod := podBy("", nil)
		change(&pod.Spec)
		_, problem := ConstraintsOf(pod, gpuNames, storage(), NewNeighbours())
		if problem == nil || problem.Reason != ReasonUnsupported || !strings.HasPrefix(problem.Message, path) {
			t.Errorf("%s: %v", path, problem)
		}
	}
	pod := podBy("", nil)
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{}}}}
	if _, problem := ConstraintsOf(pod, gpuNames, storage(), NewNeighbours()); problem != nil {
		t.Errorf("preferences are no demands: %v", problem)
	}
}

func claims(names ...string) (list []corev1.Volume) {
	for _, name := range names {
		list = append(list, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	return list
}

// storage has the claims unbound, alone (ReadWriteOncePod) and zoned, whose volumes are in zone a.
func storage() *Storage {
	bound := func(mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv", AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}
	}
	all := map[string]*corev1.PersistentVolumeClaim{"unbound": {}, "alone": bound(corev1.ReadWriteOncePod), "zoned": bound(corev1.ReadWriteOnce)}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"},
		}}}}},
	}}}
	return &Storage{
		Claim:  func(_, name string) *corev1.PersistentVolumeClaim { return all[name] },
		Volume: func(string) *corev1.PersistentVolume { return volume },
	}
}

func constraintsOf(t *testing.T, pod *corev1.Pod) *Constraints {
	t.Helper()
	c, problem := ConstraintsOf(pod, gpuNames, storage(), NewNeighbours())
	if problem != nil {
		t.Fatal(problem)
	}
	return c
}

func TestOnWhichNodesAPodMayRun(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a", "disk": "ssd"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": apiresource.MustParse("8")}},
	}
	tolerates := []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	within := func(key, value string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}},
		}}}
	}
	for what, c := range map[string]struct {
		change func(*corev1.PodSpec)
		want   Cause
	}{
		"everything matches": {func(s *corev1.PodSpec) {
			s.NodeSelector, s.Affinity, s.Volumes = map[string]string{"disk": "ssd"}, within("zone", "a"), claims("zoned")
		}, ""},
		"another label":           {func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "hdd"} }, CauseAffinity},
		"another zone":            {func(s *corev1.PodSpec) { s.Affinity = within("zone", "b") }, CauseAffinity},
		"a taint":                 {func(s *corev1.PodSpec) { s.Tolerations = nil }, CauseTaint},
		"another value":           {func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "gpu", Value: "no"}} }, CauseTaint},
		"another maker's GPU":     {func(s *corev1.PodSpec) { s.Containers = asking(map[string]string{"amd.com/gpu": "1"}).Spec.Containers }, CauseGPU},
		"the volume is elsewhere": {func(s *corev1.PodSpec) { s.Volumes = claims("zoned"); node.Labels["zone"] = "b" }, CauseVolume},
	} {
		node.Labels["zone"] = "a"
		pod := podBy("", nil)
		pod.Spec.Tolerations = tolerates
		c.change(&pod.Spec)
		if got := constraintsOf(t, pod).Permits(node); got.Cause != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func TestWhatOtherPodsHaveTakenIsNotGivenTwice(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"example.com/fpga": apiresource.MustParse("3")}}}
	listening := func(address string) *corev1.Pod {
		pod := podBy("", nil)
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80, HostIP: address}, {ContainerPort: 5}}}}
		return pod
	}
	alone := podBy("", nil)
	alone.Spec.Volumes = claims("alone")
	for what, c := range map[string]struct {
		pod, other *corev1.Pod
		want       Cause
	}{
		"enough is left":                {asking(map[string]string{"example.com/fpga": "2"}), asking(map[string]string{"example.com/fpga": "1"}), ""},
		"too little is left":            {asking(map[string]string{"example.com/fpga": "2"}), asking(map[string]string{"example.com/fpga": "2"}), CauseExtras},
		"the node has none":             {asking(map[string]string{"hugepages-2Mi": "2Mi"}), podBy("", nil), CauseExtras},
		"the port is taken":             {listening("1.2.3.4"), listening("0.0.0.0"), CausePorts},
		"the port of another address":   {listening("1.2.3.4"), listening("1.2.3.5"), ""},
		"the volume of one pod at once": {alone, alone, CauseClaims},
	} {
		var taken Taken
		taken.Add(c.other, gpuNames)
		constraints := constraintsOf(t, c.pod)
		if got := constraints.Fits(node, &taken); got.Cause != c.want || !constraints.IsDynamic() {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func TestPodsThatAreAlikeShareATask(t *testing.T) {
	a, b := asking(map[string]string{"cpu": "1"}), asking(map[string]string{"cpu": "1000m"})
	task := func(pod *corev1.Pod) string { return TaskOf(Amounts(pod, nil), constraintsOf(t, pod), Priority(pod)) }
	if task(a) != task(b) {
		t.Error("equal amounts are different tasks")
	}
	ten := int32(10)
	for what, change := range map[string]func(*corev1.Pod){
		"priority":    func(p *corev1.Pod) { p.Spec.Priority = &ten },
		"selector":    func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
		"tolerations": func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "x"}} },
		"volumes":     func(p *corev1.Pod) { p.Spec.Volumes = claims("zoned") },
		"amounts":     func(p *corev1.Pod) { p.Spec.Containers = asking(map[string]string{"cpu": "2"}).Spec.Containers },
	} {
		other := a.DeepCopy()
		change(other)
		if task(other) == task(a) {
			t.Errorf("pods with another %s are of the same task", what)
		}
	}
}
