package picture

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Live connections go to the pod of a job that runs; otherwise they end with the reason.
func TestLiveConnectionsGoToThePodOfARunningJob(t *testing.T) {
	w := settled(t)
	output, shell := &nodev1.OpenStreamOrder_Output{Output: &nodev1.FollowOutput{}}, &nodev1.OpenStreamOrder_Shell{Shell: &nodev1.OpenShell{}}
	open := func(order *nodev1.OpenStreamOrder) *Stream {
		w.openStream(w.nodes["n1"], order)
		effects := w.Take(w.now)
		w.writes = append(w.writes, effects.Writes...)
		return &effects.Streams[0]
	}
	if s := open(&nodev1.OpenStreamOrder{Number: 1, What: output}); s.Refusal.GetReason() != nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB {
		t.Errorf("without a job: %+v", s)
	}
	w.start(1)
	if s := open(&nodev1.OpenStreamOrder{Number: 1, What: output}); s.Refusal.GetReason() != nodev1.StreamEndReason_STREAM_END_REASON_NOT_STARTED {
		t.Errorf("without a pod: %+v", s)
	}
	pod := w.created(w.took(Create)).DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}}}}
	w.see(pod)
	for _, order := range []*nodev1.OpenStreamOrder{{Number: 1, What: output}, {Number: 1, What: shell}} {
		if s := open(order); s.Refusal != nil || s.Namespace != "weir-jobs" || s.Pod != PodName(1) || s.Node != "n1" || s.Order != order {
			t.Errorf("%+v", s)
		}
	}
	w.options.NoShells = true
	if s := open(&nodev1.OpenStreamOrder{Number: 1, What: shell}); s.Refusal.GetReason() != nodev1.StreamEndReason_STREAM_END_REASON_FORBIDDEN {
		t.Errorf("shells are forbidden: %+v", s)
	}
	w.see(over(pod, 0, `{"exit_code": 0}`))
	if s := open(&nodev1.OpenStreamOrder{Number: 1, What: output}); s.Refusal != nil {
		t.Errorf("the output of a pod that has ended: %+v", s)
	}
	if s := open(&nodev1.OpenStreamOrder{Number: 1, What: shell}); s.Refusal.GetReason() != nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB {
		t.Errorf("a shell in a pod that has ended: %+v", s)
	}
}

func TestAShellHasItsOwnVariablesAndTheProgramsOfTheImage(t *testing.T) {
	for _, c := range []struct {
		wanted *nodev1.OpenShell
		want   []string
	}{
		{&nodev1.OpenShell{Arguments: []string{"ls", "-l"}}, []string{"/weir/weir-pod", "--session", "s", "--", "ls", "-l"}},
		{
			&nodev1.OpenShell{Command: "ls", Environment: []*nodev1.Variable{{Name: "A", Value: "b"}}},
			[]string{"/weir/weir-pod", "--session", "s", "--env", "A=b", "--", "/bin/sh", "-c", shellOf, "sh", "-c", "ls"},
		},
		{&nodev1.OpenShell{}, []string{"/weir/weir-pod", "--session", "s", "--", "/bin/sh", "-c", shellOf, "sh"}},
	} {
		if got := SessionCommand("s", c.wanted); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q", c.wanted, got)
		}
	}
	if got := SessionEnd("s"); !slices.Equal(got, []string{"/weir/weir-pod", "--end-session", "s"}) {
		t.Errorf("%q", got)
	}
}
