package picture

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/workload"
)

// ClassPending is the class of jobs of Weir's own tasks whose real class the scheduler does not have yet. All nodes deny it.
// It equals operation.ClassPending, which this floor does not import.
const ClassPending = 1

// TaskSection is what a task of an ordinary operation says about its pods, as start orders have it.
type TaskSection struct {
	Operation, Task string
	Extra           []byte
}

// Classification is the constraint class of the jobs of a task.
type Classification struct {
	Operation, Task string
	Class           int32
	Alone           bool
}

// ownTask is a task of an ordinary operation that says something about its pods.
type ownTask struct {
	TaskSection
	class  *class // nil if its pods demand nothing of their nodes
	judged bool   // class is known
	told   bool   // the scheduler has the class
}

// taskKey names a task of an operation.
type taskKey struct{ operation, task string }

// TasksChanged makes the picture ask which tasks say something about their pods.
func (p *Picture) TasksChanged() { p.tasksStale = true }

// listTasks takes in the tasks that there are. Tasks that are gone release their classes.
func (p *Picture) listTasks(list []TaskSection) {
	there := map[taskKey]bool{}
	for i := range list {
		key := taskKey{list[i].Operation, list[i].Task}
		there[key] = true
		if p.tasks[key] == nil {
			t := &ownTask{TaskSection: list[i]}
			p.tasks[key] = t
			p.judge(t)
		}
	}
	for _, key := range sortedTasks(p.tasks) {
		if !there[key] {
			p.release(p.tasks[key].class)
			delete(p.tasks, key)
		}
	}
}

// sortedTasks returns the names of tasks in a fixed order.
func sortedTasks(tasks map[taskKey]*ownTask) []taskKey {
	return slices.SortedFunc(maps.Keys(tasks), func(a, b taskKey) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.task, b.task))
	})
}

// judgeTasks finds the classes of all tasks again, after something around pods has changed.
func (p *Picture) judgeTasks() {
	for _, key := range sortedTasks(p.tasks) {
		p.judge(p.tasks[key])
	}
}

// judge finds the class of a task. If there are too many classes, the task waits.
func (p *Picture) judge(t *ownTask) {
	var next *class
	if c := p.demandsOf(&t.TaskSection); c != nil {
		if next = p.acquire(c); next == nil {
			p.note("task %s of operation %s waits: tasks and pods demand too many different things of nodes", t.Task, t.Operation)
			return
		}
	}
	if t.judged && t.class == next {
		p.release(next)
		return
	}
	p.release(t.class)
	t.class, t.judged, t.told = next, true, false
}

// demandsOf returns what the pods of a task demand of their nodes, nil for nothing. A section that cannot be read demands
// nothing: its jobs fail with the reason.
func (p *Picture) demandsOf(s *TaskSection) *workload.Constraints {
	own, err := readSection(s.Extra)
	if err != nil || !own.isChoosy() {
		return nil
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.options.Namespace, Labels: map[string]string{}},
		Spec:       corev1.PodSpec{NodeSelector: own.NodeSelector, Affinity: own.Affinity, Tolerations: p.options.tolerationsOf(&own)},
	}
	for key, value := range own.Labels {
		pod.Labels[key] = value
	}
	pod.Labels[LabelOperation], pod.Labels[LabelTask] = labelValue(s.Operation), labelValue(s.Task)
	for i := range own.Volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, own.Volumes[i].Volume)
	}
	c, problem := workload.ConstraintsOf(pod, p.options.GPUResources, p.storage(), p.guests.near)
	if problem != nil { // a claim without a volume: the kubelet waits for it
		pod.Spec.Volumes = nil
		c, problem = workload.ConstraintsOf(pod, p.options.GPUResources, p.storage(), p.guests.near)
	}
	if problem != nil {
		return nil
	}
	return c
}

// classifications returns the classes that the scheduler does not have yet, and takes them for told.
func (p *Picture) classifications() (list []Classification) {
	for _, key := range sortedTasks(p.tasks) {
		t := p.tasks[key]
		if !t.judged || t.told {
			continue
		}
		t.told = true
		c := Classification{Operation: t.Operation, Task: t.Task}
		if t.class != nil {
			c.Class, c.Alone = t.class.number, t.class.constraints.IsDynamic()
		}
		list = append(list, c)
	}
	return list
}

// untold forgets that the scheduler has classes: it may not have got them.
func (p *Picture) untold(list []Classification) {
	for i := range list {
		if t := p.tasks[taskKey{list[i].Operation, list[i].Task}]; t != nil {
			t.told = false
		}
	}
}

// closedTo returns why a node does not take a job of Weir's own now, empty if it does.
func (p *Picture) closedTo(n *node, j *job) string {
	t := p.tasks[taskKey{j.identity.GetOperationId(), j.identity.GetTaskName()}]
	if t == nil || t.class == nil {
		if why := p.options.obstacles(n.object); len(why) > 0 {
			return why[0]
		}
		return ""
	}
	if why := p.options.closed(n.object); len(why) > 0 {
		return why[0]
	}
	if refusal := p.refusalOf(n, t.class, "", p.latest); refusal != (workload.Refusal{}) {
		return "the node " + refusal.String()
	}
	return ""
}
