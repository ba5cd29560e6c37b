package picture

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// denied reports whether a node denies a class, as it was told last.
func (w *world) denied(node string, class int32) bool {
	bits := w.nodes[node].exchange.status.GetDeniedClasses()
	return int(class/8) < len(bits) && bits[class/8]&(1<<(class%8)) != 0
}

// orderTask has the scheduler start a job of a task.
func (w *world) orderTask(node string, number uint64, s *TaskSection) *nodev1.JobIdentity {
	id := identity(number)
	id.OperationId, id.TaskName = s.Operation, s.Task
	w.order(node, func(session *nodeproto.Session) {
		spec := spec()
		spec.Extra = s.Extra
		if err := session.Start(id, spec, nil, nil); err != nil {
			w.Fatal(err)
		}
	})
	return id
}

// The pods of a task run only on nodes that it selects and whose taints it tolerates. Its class is released with it.
func TestTasksChooseTheirNodes(t *testing.T) {
	w := open(t)
	zoned := machine("n2", "4", "8Gi")
	zoned.Labels = map[string]string{"zone": "b"}
	zoned.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	w.NodeSeen(w.now, zoned)
	w.pass(time.Second)
	if !w.denied("n1", ClassPending) || !w.denied("n2", ClassPending) {
		t.Error("a node permits jobs whose class is not known yet")
	}
	choosy := TaskSection{"1-2-3-4", "train", []byte(`{"kubernetes": {"node_selector": {"zone": "b"}, "tolerations": [{"key": "gpu", "value": "yes"}]}}`)}
	plain := TaskSection{"1-2-3-4", "plain", []byte(`{"kubernetes": {"service_account": "a"}}`)}
	wrong := TaskSection{"1-2-3-4", "wrong", []byte(`{"kubernetes": {"node_selector": 3}}`)}
	w.shop.tasks = []TaskSection{choosy, plain, wrong}
	w.TasksChanged()
	w.pass(time.Second)
	class := w.shop.classes[taskKey{"1-2-3-4", "train"}].Class
	if len(w.shop.classes) != 3 || class <= ClassPending || w.shop.classes[taskKey{"1-2-3-4", "plain"}].Class != 0 || w.shop.classes[taskKey{"1-2-3-4", "wrong"}].Class != 0 {
		t.Fatalf("the classes are %+v", w.shop.classes)
	}
	if !w.denied("n1", class) || w.denied("n2", class) || !w.denied("n2", 0) {
		t.Errorf("n1 denies the class: %v; n2: %v; n2 denies other jobs: %v", w.denied("n1", class), w.denied("n2", class), w.denied("n2", 0))
	}
	w.orderTask("n2", 1, &choosy)
	pod := w.took(Create).Pod
	if pod.Spec.NodeName != "n2" || pod.Spec.NodeSelector["zone"] != "b" || len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0].Key != "gpu" {
		t.Errorf("the pod is %+v", pod.Spec)
	}
	w.orderTask("n1", 2, &choosy) // the node's report and the order have crossed
	w.orderTask("n2", 3, &plain)
	for number, want := range map[uint64]string{
		2: "the node didn't match the pod's node selector or node affinity (zone=b)", 3: "the node has the taint gpu (NoSchedule)",
	} {
		if r := w.results[number]; r == nil || r.GetState() != nodev1.JobState_JOB_STATE_ABORTED || r.GetStarted() || r.GetError().GetMessage() != want {
			t.Errorf("job %d ends with %v, want %s", number, r, want)
		}
	}
	w.shop.tasks = nil
	w.TasksChanged()
	w.pass(time.Second)
	if len(w.guests.classes) != 0 || len(w.tasks) != 0 {
		t.Errorf("%d classes and %d tasks are left", len(w.guests.classes), len(w.tasks))
	}
}

// A class that the scheduler did not get is sent again; one that changes with a volume is sent once more.
func TestClassesOfTasksFollowTheirVolumes(t *testing.T) {
	w := open(t)
	s := TaskSection{"1-2-3-4", "train", []byte(`{"kubernetes": {"volumes": [{"name": "data", "mount_path": "/data", "persistentVolumeClaim": {"claimName": "data"}}]}}`)}
	w.shop.tasks, w.shop.fails = []TaskSection{s}, 2
	w.TasksChanged()
	w.pass(5 * time.Second)
	before, told := w.shop.classes[taskKey{"1-2-3-4", "train"}]
	if !told || w.denied("n1", before.Class) {
		t.Fatalf("a claim without a volume: %+v, %v", before, told)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
	}}}}
	w.VolumeSeen(volume, false)
	w.ClaimSeen(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}, false)
	w.pass(time.Second)
	if after := w.shop.classes[taskKey{"1-2-3-4", "train"}]; after.Class == before.Class || !w.denied("n1", after.Class) {
		t.Errorf("a claim with a volume elsewhere: %+v", after)
	}
}
