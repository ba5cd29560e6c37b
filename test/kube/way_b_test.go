package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/control/manifest"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/test/expected"
)

// shop is a namespace with pods that Weir schedules.
type shop struct {
	t    *testing.T
	name string
}

// newShop returns a namespace that is empty at the end of the test.
func newShop(t *testing.T, name string) *shop {
	t.Helper()
	ctx := context.Background()
	if _, err := plane.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.admin.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &shop{t, name}
	t.Cleanup(func() {
		zero := int64(0)
		if !expected.Soon(func() bool {
			list := s.pods()
			for i := range list {
				_ = plane.admin.CoreV1().Pods(name).Delete(ctx, list[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &zero}) // the next round tries again
			}
			return len(list) == 0
		}) {
			t.Error("pods are left")
		}
	})
	return s
}

// podNamed returns a pod of one core.
func podNamed(name string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}, Spec: corev1.PodSpec{
		SchedulerName: workload.Scheduler, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
			Name: "main", Image: "any", Command: []string{"sleep"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse("1"), "memory": apiresource.MustParse("64Mi")}},
		}},
	}}
}

// pod creates a pod of one core.
func (s *shop) pod(name string, change func(*corev1.Pod)) {
	s.t.Helper()
	pod := podNamed(name)
	if change != nil {
		change(pod)
	}
	if _, err := plane.admin.CoreV1().Pods(s.name).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) pods() []corev1.Pod {
	list, err := plane.admin.CoreV1().Pods(s.name).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return []corev1.Pod{{}}
	}
	return list.Items
}

// running returns the names and UIDs of pods that run and are not being deleted.
func (s *shop) running() map[string]types.UID {
	found := map[string]types.UID{}
	list := s.pods()
	for i := range list {
		if p := &list[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			found[p.Name] = p.UID
		}
	}
	return found
}

// on returns the node of a pod.
func (s *shop) on(name string) string {
	pod, err := plane.admin.CoreV1().Pods(s.name).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return pod.Spec.NodeName
}

// reason returns the reason and the message of the condition PodScheduled of a pod.
func (s *shop) reason(name string) (reason, message string) {
	pod, err := plane.admin.CoreV1().Pods(s.name).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return "", err.Error()
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// in labels a pod with its pool.
func in(pool string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[workload.LabelPool] = pool }
}

// Pods of a Deployment are jobs of one external operation. A scheduler that is killed finds them again.
func TestPodsOfADeploymentAreBoundAndFoundAgain(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "deployed")
	machine.node(t, "deployed-1", "4")
	ctx := context.Background()
	yes := true
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	deployment, err := plane.admin.AppsV1().Deployments(shop.name).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replicas, err := plane.admin.AppsV1().ReplicaSets(shop.name).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: deployment.UID, Controller: &yes}}},
		Spec:       appsv1.ReplicaSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: replicas.UID, Controller: &yes}}
	}
	for i := range 3 {
		shop.pod(fmt.Sprint("web-", i), owned)
	}
	s.await("the pods run", func() bool { return len(shop.running()) == 3 })
	before := shop.running()
	list := shop.pods()
	for i := range list {
		if list[i].Spec.NodeName != "deployed-1" || list[i].Annotations[picture.AnnotationJob] == "" {
			t.Errorf("pod %s is on %q", list[i].Name, list[i].Spec.NodeName)
		}
	}
	alias := "*deployed/Deployment/web"
	operation := s.operation(alias)
	if operation.Type != "external" || operation.User != "namespace:deployed" || operation.Jobs.Running != 3 {
		t.Errorf("the operation is %+v", operation)
	}
	s.process.kill()
	s.start()
	s.await("the jobs are adopted", func() bool { o := s.operation(alias); return o.ID == operation.ID && o.Jobs.Running == 3 })
	shop.pod("web-3", owned)
	s.await("another pod runs", func() bool { return len(shop.running()) == 4 })
	for name, uid := range before {
		if shop.running()[name] != uid {
			t.Errorf("pod %s is gone", name)
		}
	}
	if err := plane.admin.CoreV1().Pods(shop.name).Delete(ctx, "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("its end is counted", func() bool { o := s.operation(alias); return o.Jobs.Running == 3 && o.Jobs.Aborted == 1 })
	machine.finish(true)
	s.await("all pods end", func() bool { o := s.operation(alias); return o.Jobs.Running == 0 && o.Jobs.Completed == 3 })
	machine.finish(false)
}

// Pods of a gang start together or not at all.
func TestAGangOfPodsStartsTogether(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "ringed")
	machine.node(t, "ringed-1", "2")
	member := func(p *corev1.Pod) {
		p.Labels[workload.LabelGroup], p.Annotations[workload.AnnotationGangSize] = "ring", "3"
	}
	shop.pod("ring-0", member)
	shop.pod("ring-1", member)
	s.await("too few exist", func() bool { reason, _ := shop.reason("ring-1"); return reason == workload.ReasonGang })
	shop.pod("ring-2", member)
	s.await("too few fit", func() bool { reason, _ := shop.reason("ring-2"); return reason == workload.ReasonUnschedulable })
	if n := len(shop.running()); n != 0 {
		t.Errorf("%d of the gang run", n)
	}
	machine.node(t, "ringed-2", "2")
	s.await("all of the gang run", func() bool { return len(shop.running()) == 3 })
}

// A PodGroup of Kubernetes itself is a gang, and its condition states whether it is scheduled, or why not.
func TestThePodGroupsOfKubernetesGetTheirConditions(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "grouped")
	machine.node(t, "grouped-1", "1")
	ctx := context.Background()
	groups := plane.admin.SchedulingV1alpha2().PodGroups(shop.name)
	if _, err := groups.Create(ctx, &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "ring"}, Spec: schedulingv1alpha2.PodGroupSpec{
		SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: 2}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	says := func() (status, reason, message string) {
		group, err := groups.Get(ctx, "ring", metav1.GetOptions{})
		if err != nil {
			return err.Error(), "", ""
		}
		for _, c := range group.Status.Conditions {
			if c.Type == schedulingv1alpha2.PodGroupScheduled {
				return string(c.Status), c.Reason, c.Message
			}
		}
		return "", "", ""
	}
	name := "ring"
	member := func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
	shop.pod("ring-0", member)
	shop.pod("ring-1", member)
	s.await("the group says why it waits", func() bool {
		status, reason, message := says()
		return status == "False" && reason == workload.ReasonUnschedulable && strings.HasPrefix(message, "0/1 nodes are available") && !strings.Contains(message, "kubectl")
	})
	machine.node(t, "grouped-2", "1")
	s.await("the group is scheduled", func() bool { status, reason, _ := says(); return status == "True" && reason == "Scheduled" })
	if n := len(shop.running()); n > 2 {
		t.Errorf("%d pods run", n)
	}
}

func has(s *shop, name string) bool { _, runs := s.running()[name]; return runs }

// A pool takes its guarantee back by evictions. A pod that a disruption budget protects runs on, and another one leaves.
func TestPreemptionRespectsDisruptionBudgets(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "budgeted")
	machine.node(t, "budgeted-1", "3")
	ctx := context.Background()
	s.await("there is a tree", func() bool {
		return s.Set(ctx, "//sys/pool_trees/default/@fair_share_starvation_timeout", "200ms", client.WriteOptions{}) == nil
	})
	for pool, options := range map[string]map[string]any{"rich": {"strong_guarantee_resources": map[string]any{"cpu": 2}}, "poor": {}} {
		if _, err := s.CreatePool(ctx, "default", "", pool, options); err != nil {
			t.Fatal(err)
		}
	}
	budget := func(label string) {
		least := intstr.FromInt32(1)
		_, err := plane.admin.PolicyV1().PodDisruptionBudgets(shop.name).Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: label},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": label}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	budget("dear") // nobody computes its status, so it permits nothing
	poor := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { in("poor")(p); p.Labels["app"] = app }
	}
	for i, name := range []string{"fair", "cheap", "dear"} { // the newest is the first victim; the oldest is within the pool's share
		shop.pod(name, poor(name))
		s.await("the next pod runs", func() bool { return len(shop.running()) == i+1 })
	}
	shop.pod("rich-0", in("rich"))
	shop.pod("rich-1", in("rich"))
	s.await("a guaranteed pod runs", func() bool { return !has(shop, "cheap") && (has(shop, "rich-0") || has(shop, "rich-1")) })
	if !has(shop, "dear") || !has(shop, "fair") {
		t.Error("a protected pod was evicted")
	}
	if !s.logged("is not preempted") {
		t.Error("the budget was never asked")
	}
	if _, err := plane.admin.CoreV1().Pods(shop.name).Get(ctx, "cheap", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the victim is there: %v", err)
	}
	s.await("the preemption is counted", func() bool {
		return s.operation("*budgeted/Pod/pods").Jobs.Aborted+s.operation("*budgeted/Pod/pods~2").Jobs.Aborted >= 1
	})
}

// Whatever keeps a pod waiting is told by its condition, with one typed reason; nothing is lost, and a change is acted upon.
func TestPodsThatCannotStartSayWhy(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "odd")
	machine.node(t, "odd-1", "4")
	shop.pod("nowhere", in("nowhere"))
	shop.pod("huge", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = apiresource.MustParse("400") })
	shop.pod("malformed", func(p *corev1.Pod) { p.Annotations[workload.AnnotationGangSize] = "many" })
	shop.pod("spread", func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
		}}
	})
	claim := "device"
	shop.pod("claiming", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
	})
	shop.pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "moon"} })
	for name, want := range map[string][2]string{
		"nowhere": {workload.ReasonPoolDenied, `there is no pool "nowhere" in tree "default"`}, "huge": {workload.ReasonUnschedulable, "insufficient cpu"},
		"malformed": {workload.ReasonUnsupported, `metadata.annotations[weir.dev/gang-size]: "many"`},
		"claiming":  {workload.ReasonUnsupported, "spec.resourceClaims is not supported"},
		"spread":    {workload.ReasonUnschedulable, "1 didn't have a label of the pod's topology spread constraints (zone)"},
		"elsewhere": {workload.ReasonUnschedulable, "0/1 nodes are available"},
	} {
		s.await(name+" says why", func() bool { reason, _ := shop.reason(name); return reason == want[0] })
		if _, message := shop.reason(name); !strings.Contains(message, want[1]) || !strings.HasSuffix(message, "kubectl weir explain pod/"+name) {
			t.Errorf("%s: %s", name, message)
		}
	}
	ctx := context.Background()
	s.await("the pool is created", func() bool { _, err := s.CreatePool(ctx, "default", "", "nowhere", nil); return err == nil })
	for name, patch := range map[string]string{
		"malformed": `{"metadata": {"annotations": {"weir.dev/gang-size": null}}}`, "nowhere": `{}`,
	} {
		if _, err := plane.admin.CoreV1().Pods(shop.name).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.await(name+" runs", func() bool { _, runs := shop.running()[name]; return runs })
	}
}

// A pool that lists namespaces takes pods of these alone; a change of the list is acted upon.
func TestAPoolIsForTheNamespacesThatItLists(t *testing.T) {
	s := newScheduler(t)
	lab, web := newShop(t, "ml-lab"), newShop(t, "web")
	machine.node(t, "listed-1", "4")
	s.await("there is a tree", func() bool {
		found, err := s.Exists(context.Background(), "//sys/pool_trees/default")
		return err == nil && found
	})
	pools := objectsOf(t, manifest.Pools, "WeirPool")
	t.Cleanup(func() { // without a scheduler nothing would remove the finalizer
		_, _ = pools.Patch(context.Background(), "listed", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		_ = pools.Delete(context.Background(), "listed", metav1.DeleteOptions{})
	})
	if err := pools.put("listed", `{"namespaces": ["ML"]}`); err == nil || !strings.Contains(err.Error(), "spec.namespaces[0]") {
		t.Errorf("a wrong pattern: %v", err)
	}
	if err := pools.put("listed", `{"namespaces": ["ml-*"]}`); err != nil {
		t.Fatal(err)
	}
	s.await("the pool is there", func() bool { return pools.accepted("listed") == "True Accepted" })
	lab.pod("train", in("listed"))
	web.pod("page", in("listed"))
	s.await("the pod of a listed namespace runs", func() bool { return has(lab, "train") })
	s.await("the other one is denied", func() bool { reason, _ := web.reason("page"); return reason == workload.ReasonPoolDenied })
	if _, message := web.reason("page"); !strings.HasPrefix(message, `pool "listed" of tree "default" is for other namespaces: ml-*`) {
		t.Error(message)
	}
	if err := pools.put("listed", `{"namespaces": ["ml-*", "web"]}`); err != nil {
		t.Fatal(err)
	}
	s.await("it runs after a change of the list", func() bool { return has(web, "page") })
}

// Pods that keep each other away run on different nodes. One that finds no node says so and starts when another one leaves.
func TestPodsThatKeepEachOtherAwayRunOnDifferentNodes(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "lonely")
	machine.node(t, "lonely-1", "4")
	machine.node(t, "lonely-2", "4")
	for i := range 3 {
		shop.pod(fmt.Sprint("db-", i), func(p *corev1.Pod) {
			p.Labels["app"] = "db"
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			}}}}
		})
	}
	s.await("two run", func() bool { return len(shop.running()) == 2 })
	waits := ""
	nodes := map[string]bool{}
	list := shop.pods()
	for i := range list {
		if list[i].Spec.NodeName == "" {
			waits = list[i].Name
		} else {
			nodes[list[i].Spec.NodeName] = true
		}
	}
	if len(nodes) != 2 {
		t.Errorf("they run on %v", nodes)
	}
	s.await("the third says why", func() bool { reason, _ := shop.reason(waits); return reason == workload.ReasonUnschedulable })
	if _, message := shop.reason(waits); !strings.Contains(message, "2 didn't match the pod's anti-affinity rules (kubernetes.io/hostname)") {
		t.Error(message)
	}
	for name := range shop.running() {
		if err := plane.admin.CoreV1().Pods(shop.name).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		break
	}
	s.await("the third runs", func() bool { return has(shop, waits) })
}
