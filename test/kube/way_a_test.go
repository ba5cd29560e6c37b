package kube

import (
	"context"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/picture"
)

func TestAnOperationRunsAsPods(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "run-1", "4")
	id := s.begin(6, "exit 0", nil)
	s.await("the operation ends", func() bool { return s.operation(id).State.Ended() })
	if o := s.operation(id); o.State != client.Completed || o.Jobs.Completed != 6 {
		t.Errorf("%v, %+v: %v", o.State, o.Jobs, o.Err())
	}
	for _, job := range s.jobs(id) {
		text, err := s.JobStderr(context.Background(), job.ID)
		if err != nil || !strings.HasPrefix(string(text), "output of weir-") || job.Node != "run-1" {
			t.Errorf("job %s on %s: %q, %v", job.ID, job.Node, text, err)
		}
	}
	s.await("the pods are removed", func() bool { return len(machine.pods(t)) == 0 })
}

func TestAFailedPodIsAFailedJobThatRunsAgain(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "fail-1", "4")
	id := s.begin(1, "exit 3", map[string]any{"max_failed_job_count": 2})
	s.await("the operation ends", func() bool { return s.operation(id).State.Ended() })
	jobs := s.jobs(id)
	if o := s.operation(id); o.State != client.Failed || len(jobs) != 2 || !strings.Contains(o.Err().Error(), "code 3") {
		t.Errorf("%v, %d jobs: %v", o.State, len(jobs), o.Err())
	}
}

func TestAPodThatTheAPIServerRefusesFailsItsJobWithItsWords(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "refuse-1", "4")
	id := s.begin(1, "exit 0", map[string]any{"max_failed_job_count": 1, "tasks": map[string]any{"main": map[string]any{
		"job_count": 1, "command": "exit 0", "kubernetes": map[string]any{"security_context": map[string]any{"allowPrivilegeEscalation": true}},
	}}})
	s.await("the operation ends", func() bool { return s.operation(id).State.Ended() })
	if err := s.operation(id).Err(); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("%v", err)
	}
}

func TestAbortingAnOperationDeletesItsPods(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "abort-1", "4")
	id := s.begin(3, "sleep", nil)
	s.await("the pods run", func() bool { return len(machine.running(t)) == 3 })
	if err := s.AbortOperation(context.Background(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	s.await("the pods are removed", func() bool { return len(machine.pods(t)) == 0 })
	if o := s.operation(id); o.State != client.Aborted {
		t.Errorf("%v", o.State)
	}
}

// A pool with a guarantee gets its room from pods of others, which run again later.
func TestPreemptionDeletesPodsAndTheyRunAgain(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "preempt-1", "4")
	ctx := context.Background()
	if err := s.Set(ctx, "//sys/pool_trees/default/@fair_share_starvation_timeout", "200ms", client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for pool, options := range map[string]map[string]any{"rich": {"strong_guarantee_resources": map[string]any{"cpu": 2}}, "poor": {}} {
		if _, err := s.CreatePool(ctx, "default", "", pool, options); err != nil {
			t.Fatal(err)
		}
	}
	poor := s.begin(4, "sleep", map[string]any{"pool": "poor"})
	s.await("the first operation has the node", func() bool { return len(machine.running(t)) == 4 })
	rich := s.begin(2, "exit 0", map[string]any{"pool": "rich"})
	s.await("the guaranteed operation ends", func() bool { return s.operation(rich).State.Ended() })
	s.await("the first operation has the node again", func() bool { return len(machine.running(t)) == 4 })
	preempted := 0
	for _, job := range s.jobs(poor) {
		if job.AbortReason == "preemption" {
			preempted++
		}
	}
	if o := s.operation(rich); o.State != client.Completed || preempted == 0 {
		t.Errorf("%v, %d preempted", o.State, preempted)
	}
}

// A scheduler that is killed finds its pods again: running ones run on, and what has ended meanwhile is not lost.
func TestAKilledSchedulerLosesNeitherPodsNorResults(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "kill-1", "4")
	id := s.begin(4, "sleep", nil)
	s.await("the pods run", func() bool { return len(machine.running(t)) == 4 })
	before := map[types.UID]bool{}
	for _, pod := range machine.running(t) {
		before[pod.UID] = true
	}
	s.process.kill()
	s.start()
	s.await("the jobs are adopted", func() bool {
		jobs := s.jobs(id)
		running := 0
		for _, job := range jobs {
			if job.State == "running" {
				running++
			}
		}
		return running == 4
	})
	for _, pod := range machine.running(t) {
		if !before[pod.UID] {
			t.Errorf("pod %s is new", pod.Name)
		}
	}
	s.process.kill()
	machine.finish(true)
	s.await("the pods end while there is no scheduler", func() bool { return len(machine.running(t)) == 0 })
	if left := len(machine.pods(t)); left != 4 {
		t.Errorf("%d pods are there: their finalizers keep the results", left)
	}
	s.start()
	s.await("the operation ends", func() bool { return s.operation(id).State.Ended() })
	if o := s.operation(id); o.State != client.Completed || o.Jobs.Completed != 4 || o.Jobs.Aborted != 0 {
		t.Errorf("%v, %+v", o.State, o.Jobs)
	}
	machine.finish(false)
}

// While the API server is away, jobs are not given up, and what happens meanwhile counts afterwards.
func TestAnOutageOfTheAPIServerLosesNothing(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "outage-1", "4")
	id := s.begin(2, "sleep", nil)
	s.await("the pods run", func() bool { return len(machine.running(t)) == 2 })
	var second string
	plane.outage(t, func() {
		second = s.begin(1, "exit 0", nil)
		s.await("the driver notices", func() bool { return s.logged("the API server of Kubernetes is away") })
		if o := s.operation(id); o.Jobs.Running != 2 || o.Jobs.Aborted != 0 {
			t.Errorf("%+v", o.Jobs)
		}
	})
	s.await("the second operation ends", func() bool { return s.operation(second).State.Ended() })
	machine.finish(true)
	s.await("the first operation ends", func() bool { return s.operation(id).State.Ended() })
	machine.finish(false)
	for _, name := range []string{id, second} {
		if o := s.operation(name); o.State != client.Completed || o.Jobs.Aborted != 0 {
			t.Errorf("%v, %+v", o.State, o.Jobs)
		}
	}
}

func TestAPodThatAUserDeletesRunsAgain(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "user-1", "4")
	id := s.begin(1, "sleep", nil)
	ctx := context.Background()
	pods := plane.admin.CoreV1().Pods("weir-jobs")
	for round, remove := range []func(name string) error{
		func(name string) error { return pods.Delete(ctx, name, metav1.DeleteOptions{}) },
		func(name string) error { // with force
			zero := int64(0)
			return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		},
		func(name string) error { // with force, and without the finalizer
			zero := int64(0)
			if _, err := pods.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
				return err
			}
			return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		},
		func(name string) error { // with another annotation
			if _, err := pods.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+picture.AnnotationJob+`": "?"}}}`), metav1.PatchOptions{}); err != nil {
				return err
			}
			return pods.Delete(ctx, name, metav1.DeleteOptions{})
		},
	} {
		s.await("the pod runs", func() bool { return len(machine.running(t)) == 1 })
		name := machine.running(t)[0].Name
		if err := remove(name); err != nil {
			t.Fatal(err)
		}
		s.await("another pod runs", func() bool {
			running := machine.running(t)
			return len(running) == 1 && running[0].Name != name
		})
		s.await("the end of the first one is counted", func() bool { return s.operation(id).Jobs.Aborted == int64(round+1) })
		if o := s.operation(id); o.Jobs.Failed != 0 {
			t.Errorf("round %d: %+v", round, o.Jobs)
		}
	}
}

func TestJobsOfADeletedNodeRunElsewhere(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "gone-1", "4")
	id := s.begin(2, "sleep", nil)
	s.await("the pods run", func() bool { return len(machine.running(t)) == 2 })
	if err := plane.admin.CoreV1().Nodes().Delete(context.Background(), "gone-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	machine.node(t, "gone-2", "4")
	s.await("the pods run on the other node", func() bool {
		count := 0
		for _, pod := range machine.running(t) {
			if pod.Spec.NodeName == "gone-2" {
				count++
			}
		}
		return count == 2
	})
	s.await("the ends of the first ones are counted", func() bool { return s.operation(id).Jobs.Aborted == 2 })
	if o := s.operation(id); o.Jobs.Failed != 0 {
		t.Errorf("%+v", o.Jobs)
	}
}

// Tasks choose nodes by labels and tolerate taints, under the first leader and under the next one. A section that is wrong
// fails its job with the path.
func TestTasksRunOnTheNodesThatTheyChoose(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "chosen-1", "4")
	machine.node(t, "chosen-2", "4")
	patch := []byte(`{"metadata": {"labels": {"disk": "fast"}}, "spec": {"taints": [{"key": "reserved", "value": "training", "effect": "NoSchedule"}]}}`)
	if _, err := plane.admin.CoreV1().Nodes().Patch(context.Background(), "chosen-2", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	section := map[string]any{
		"affinity": map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
			"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "disk", "operator": "Exists"}}}},
		}}},
		"tolerations": []any{map[string]any{"key": "reserved", "operator": "Equal", "value": "training"}},
	}
	task := func(jobs int, section map[string]any) map[string]any {
		return map[string]any{"job_count": jobs, "command": "sleep", "memory_limit": 64 << 20, "kubernetes": section}
	}
	id := s.begin(1, "sleep", map[string]any{"max_failed_job_count": 1, "tasks": map[string]any{
		"chosen": task(2, section), "plain": task(2, map[string]any{"evictable": true}), "nowhere": task(1, map[string]any{"node_selector": map[string]any{"disk": "slow"}}),
	}})
	nodes := func() map[string]int {
		found := map[string]int{}
		for _, job := range s.jobs(id) {
			if job.State == "running" {
				found[job.Task+" on "+job.Node]++
			}
		}
		return found
	}
	want := map[string]int{"chosen on chosen-2": 2, "plain on chosen-1": 2}
	s.await("both tasks run where they may", func() bool { return maps.Equal(nodes(), want) })
	s.await("the third one waits", func() bool { return strings.Contains(s.weir("explain", id), "constraints") })
	s.process.kill()
	s.start()
	s.await("the jobs are adopted", func() bool { return maps.Equal(nodes(), want) })
	again := s.begin(1, "sleep", map[string]any{"tasks": map[string]any{"more": task(1, section)}})
	s.await("another job goes to the same node", func() bool {
		jobs := s.jobs(again)
		return len(jobs) == 1 && jobs[0].Node == "chosen-2" && jobs[0].State == "running"
	})
	wrong := s.begin(1, "sleep", map[string]any{"max_failed_job_count": 1, "tasks": map[string]any{"wrong": task(1, map[string]any{"tolerations": []any{map[string]any{"operator": "Like"}}})}})
	s.await("the wrong one fails", func() bool { return s.operation(wrong).State.Ended() })
	if text := s.weir("op", "get", wrong); !strings.Contains(text, "kubernetes/tolerations/0/operator: want Exists or Equal") {
		t.Errorf("weir op get: %s", text)
	}
}
