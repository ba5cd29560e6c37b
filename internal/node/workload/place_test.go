package workload

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is what is around the pods of a test.
type cluster struct {
	owners     map[types.UID]*Owner // nil: it cannot be read
	namespaces map[string]map[string]string
	groups     map[string]*PodGroup
	asked      []types.UID
}

func (c *cluster) around() *Around {
	return &Around{
		Owner: func(_ string, ref *metav1.OwnerReference) (*Owner, bool) {
			owner, known := c.owners[ref.UID]
			if !known {
				c.asked = append(c.asked, ref.UID)
			}
			return owner, known
		},
		Namespace: func(name string) (map[string]string, bool) { labels, known := c.namespaces[name]; return labels, known },
		PodGroup:  func(group, namespace, name string) *PodGroup { return c.groups[group+" "+namespace+"/"+name] },
	}
}

// by is a reference to the controller KIND/NAME.
func by(name string) *metav1.OwnerReference {
	yes := true
	kind, rest, _ := strings.Cut(name, "/")
	return &metav1.OwnerReference{Kind: kind, Name: rest, UID: types.UID(name), Controller: &yes}
}

// owner is an owner KIND/NAME below another one.
func owner(name, above string) *Owner {
	ref := by(name)
	o := &Owner{Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
	if above != "" {
		o.Controller = by(above)
	}
	return o
}

func podBy(name string, labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "shop", Labels: labels}, Spec: corev1.PodSpec{SchedulerName: Scheduler}}
	if name != "" {
		pod.OwnerReferences = []metav1.OwnerReference{*by(name)}
	}
	return pod
}

func busy() *cluster {
	c := &cluster{
		owners: map[types.UID]*Owner{
			"ReplicaSet/web-1": owner("ReplicaSet/web-1", "Deployment/web"), "Deployment/web": owner("Deployment/web", ""),
			"Job/nightly-1": owner("Job/nightly-1", "CronJob/nightly"), "Job/train-0": owner("Job/train-0", "JobSet/train"),
			"JobSet/train": owner("JobSet/train", ""), "Pod/driver": owner("Pod/driver", "SparkApplication/etl"), "SparkApplication/etl": nil,
			"A/a": owner("A/a", "A/b"), "A/b": owner("A/b", "A/a"),
		},
		namespaces: map[string]map[string]string{"shop": {}},
		groups: map[string]*PodGroup{
			CoreGroups + " shop/ring": {MinMember: 4, Whole: true}, PluginsGroups + " shop/ring": {MinMember: 3, Annotations: map[string]string{AnnotationWeight: "5"}},
			CoreGroups + " shop/rack": {MinMember: 2, Unsupported: "spec.schedulingConstraints"},
		},
	}
	return c
}

func TestTheOperationOfAPod(t *testing.T) {
	inGroup := func(name string) *corev1.Pod {
		pod := podBy("ReplicaSet/web-1", map[string]string{LabelGroup: "b", LabelPodGroup: "ring"})
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		return pod
	}
	for what, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"1: a PodGroup comes first":              {inGroup("ring"), "*shop/PodGroup/ring"},
		"2: then the label of Weir":              {podBy("ReplicaSet/web-1", map[string]string{LabelGroup: "b", LabelPodGroup: "ring"}), "*shop/Group/b"},
		"3: then the label of scheduler-plugins": {podBy("ReplicaSet/web-1", map[string]string{LabelPodGroup: "ring"}), "*shop/PodGroup/ring"},
		"4: the top owner":                       {podBy("ReplicaSet/web-1", nil), "*shop/Deployment/web"},
		"a run of a CronJob is an operation":     {podBy("Job/nightly-1", nil), "*shop/Job/nightly-1"},
		"all Jobs of a JobSet are one":           {podBy("Job/train-0", nil), "*shop/JobSet/train"},
		"a driver's pods are its application's, of which only the name is known": {podBy("Pod/driver", nil), "*shop/SparkApplication/etl"},
		"a cycle of owners ends somewhere":                                       {podBy("A/a", nil), "*shop/A/b"},
		"5: pods without an owner are together":                                  {podBy("", nil), "*shop/Pod/pods"},
	} {
		place, known, problem := PlaceOf(c.pod, busy().around())
		if !known || problem != nil || place.Alias(1) != c.want {
			t.Errorf("%s: %s, want %s (%v, %v)", what, place.Alias(1), c.want, known, problem)
		}
	}
	place := Place{Namespace: "shop", Kind: "Job", Name: "a"}
	if place.Alias(2) != "*shop/Job/a~2" {
		t.Error(place.Alias(2))
	}
}

func TestAPodWaitsUntilItsOwnersAndItsNamespaceAreRead(t *testing.T) {
	c := busy()
	delete(c.owners, "Deployment/web")
	if _, known, problem := PlaceOf(podBy("ReplicaSet/web-1", nil), c.around()); known || problem != nil || len(c.asked) != 1 || c.asked[0] != "Deployment/web" {
		t.Errorf("known %v, %v, asked for %v", known, problem, c.asked)
	}
	delete(c.namespaces, "shop")
	if _, known, _ := PlaceOf(podBy("", nil), c.around()); known {
		t.Error("the namespace has not been read")
	}
}

func TestThePoolOfAPod(t *testing.T) {
	for what, c := range map[string]struct {
		pod, owner, namespace string
		want                  string
		given                 bool
	}{
		"the pod's label":       {"a", "b", "c", "a", true},
		"the top owner's label": {"", "b", "c", "b", true},
		"the namespace's label": {"", "", "c", "c", true},
		"the namespace itself":  {"", "", "", "shop", false},
	} {
		around := busy()
		around.owners["Deployment/web"].Labels = map[string]string{LabelPool: c.owner, LabelTree: c.owner}
		around.namespaces["shop"] = map[string]string{LabelPool: c.namespace, LabelTree: c.namespace}
		place, _, problem := PlaceOf(podBy("ReplicaSet/web-1", map[string]string{LabelPool: c.pod, LabelTree: c.pod}), around.around())
		tree := c.want
		if !c.given {
			tree = ""
		}
		if problem != nil || place.Pool != c.want || place.Given != c.given || place.Tree != tree {
			t.Errorf("%s: %+v (%v)", what, place, problem)
		}
	}
}

func TestGangsWeightsAndPreemption(t *testing.T) {
	name := "ring"
	pod := podBy("ReplicaSet/web-1", nil)
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	never := corev1.PreemptNever
	pod.Spec.PreemptionPolicy = &never
	if place, _, _ := PlaceOf(pod, busy().around()); place.GangSize != 4 || !place.GangWhole || !place.FreeRoomOnly || place.Weight != 0 {
		t.Errorf("%+v", place)
	}
	if place, _, _ := PlaceOf(podBy("", map[string]string{LabelPodGroup: "ring"}), busy().around()); place.GangSize != 3 || place.GangWhole || place.Weight != 5 {
		t.Errorf("%+v", place)
	}
	around := busy()
	around.owners["Deployment/web"].Annotations = map[string]string{AnnotationGangSize: "8", AnnotationWeight: "2.5"}
	if place, _, _ := PlaceOf(podBy("ReplicaSet/web-1", nil), around.around()); place.GangSize != 8 || place.Weight != 2.5 || place.GangWhole {
		t.Errorf("%+v", place)
	}
}

func TestMalformedRequestsAreNamedWithTheirPath(t *testing.T) {
	for text, path := range map[string]string{
		AnnotationGangSize + "=many": "metadata.annotations[weir.dev/gang-size]", AnnotationGangSize + "=0": "metadata.annotations[weir.dev/gang-size]",
		AnnotationWeight + "=NaN": "metadata.annotations[weir.dev/weight]", AnnotationWeight + "=-1": "metadata.annotations[weir.dev/weight]",
	} {
		key, value, _ := strings.Cut(text, "=")
		pod := podBy("", nil)
		pod.Annotations = map[string]string{key: value}
		_, _, problem := PlaceOf(pod, busy().around())
		if problem == nil || problem.Reason != ReasonUnsupported || !strings.HasPrefix(problem.Message, path) || !strings.Contains(problem.Message, value) {
			t.Errorf("%s: %v", text, problem)
		}
	}
	for name, want := range map[string]string{"nowhere": "the PodGroup nowhere (scheduling.k8s.io) does not exist", "rack": "spec.schedulingConstraints of PodGroup rack is not supported"} {
		pod := podBy("", nil)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		if _, _, problem := PlaceOf(pod, busy().around()); problem == nil || problem.Message != want {
			t.Errorf("%s: %v", name, problem)
		}
	}
}

// In a FIFO pool weight is order: of two priorities the larger one always has the larger weight, as numbers of the store.
func TestFIFOWeightsGrowWithEveryPriority(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		a, b := int32(random.Uint32()), int32(random.Uint32())
		if b == math.MaxInt32 {
			continue
		}
		if FIFOWeight(b) >= FIFOWeight(b+1) || (a < b) != (FIFOWeight(a) < FIFOWeight(b)) {
			t.Fatalf("%d and %d: %v and %v", a, b, FIFOWeight(a), FIFOWeight(b))
		}
	}
	if FIFOWeight(math.MinInt32) <= 0 {
		t.Error("weights are above zero")
	}
}

func TestWhichPodsWait(t *testing.T) {
	now := metav1.Now()
	for what, change := range map[string]func(*corev1.Pod){
		"another scheduler's": func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" },
		"a gate":              func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
		"being deleted":       func(p *corev1.Pod) { p.DeletionTimestamp = &now },
		"placed":              func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"over":                func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
	} {
		pod := podBy("", nil)
		if !Waits(pod) {
			t.Fatal("a new pod waits")
		}
		change(pod)
		if Waits(pod) {
			t.Errorf("%s: it waits", what)
		}
	}
}
