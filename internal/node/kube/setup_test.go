package kube

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/weirhq/weir/internal/node/picture"
)

func TestReleaseTakesTheFinalizerOffPodsOfJobsOnly(t *testing.T) {
	job := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "weir-1", Namespace: "jobs", UID: "1", Labels: map[string]string{picture.LabelEpoch: "1"}, Finalizers: []string{picture.Finalizer, "other/one"},
	}}
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "jobs", UID: "2", Finalizers: []string{picture.Finalizer}}}
	client := fake.NewClientset(job, foreign)
	ctx := context.Background()
	for round, want := range []int{1, 0} {
		if released, err := Release(ctx, client, "jobs", false); err != nil || released != want {
			t.Errorf("round %d: %d, %v", round, released, err)
		}
	}
	got, err := client.CoreV1().Pods("jobs").Get(ctx, "weir-1", metav1.GetOptions{})
	if err != nil || len(got.Finalizers) != 1 || got.Finalizers[0] != "other/one" {
		t.Errorf("%v, %v", got.Finalizers, err)
	}
	got, err = client.CoreV1().Pods("jobs").Get(ctx, "x", metav1.GetOptions{})
	if err != nil || len(got.Finalizers) != 1 {
		t.Errorf("a pod that is no job's: %v, %v", got.Finalizers, err)
	}
}

func TestPrepareMayFindEverythingThere(t *testing.T) {
	client := fake.NewClientset()
	for range 2 {
		if err := Prepare(context.Background(), client, "jobs", "job"); err != nil {
			t.Fatal(err)
		}
	}
	account, err := client.CoreV1().ServiceAccounts("jobs").Get(context.Background(), "job", metav1.GetOptions{})
	if err != nil || *account.AutomountServiceAccountToken {
		t.Errorf("%+v, %v", account, err)
	}
}

func TestCallsAndWatchesAreCounted(t *testing.T) {
	tally, now := newTally(), time.Unix(1000, 0)
	tally.wrote(picture.Create, &picture.Outcome{Kind: picture.Done}, nil, 3*time.Millisecond, 200)
	tally.wrote(picture.Create, &picture.Outcome{Kind: picture.Temporary}, apierrors.NewTooManyRequests("", 1), time.Second, 100)
	tally.wrote(picture.Release, &picture.Outcome{Kind: picture.Done}, context.DeadlineExceeded, time.Second, 100)
	tally.wrote(picture.Evict, &picture.Outcome{Kind: picture.Protected}, nil, time.Second, 100)
	tally.wrote(picture.Resize, &picture.Outcome{Kind: picture.Done}, nil, time.Second, 100)
	tally.waited([]picture.Waited{{Tree: "default", Pool: "lab", For: time.Second}, {Tree: "default", Pool: "lab", For: 4 * time.Second}})
	tally.watched("pods", "7", now)
	tally.watched("pods", "7", now.Add(time.Minute))
	f := tally.counts(now.Add(2 * time.Minute))
	want := []WriteCount{{"create", "200", 2}, {"create", "429", 1}, {"patch", "200", 1}, {"patch", "none", 1}}
	if !slices.Equal(f.Writes, want) {
		t.Errorf("%+v", f.Writes)
	}
	if len(f.Binds) != 2 || f.Binds[0] != (ResultCount{"done", 1}) || f.Binds[1] != (ResultCount{"retried", 1}) || f.Rate != 100 {
		t.Errorf("%+v", f)
	}
	if f.BindTimes.Count != 2 || f.BindTimes.Counts[0] != 0 || f.BindTimes.Counts[1] != 1 || f.BindTimes.Sum != time.Second+3*time.Millisecond {
		t.Errorf("%+v", f.BindTimes)
	}
	if !slices.Equal(f.Evictions, []ResultCount{{"protected", 1}}) || !slices.Equal(f.Resizes, []ResultCount{{"done", 1}}) {
		t.Errorf("evictions %v, resizes %v", f.Evictions, f.Resizes)
	}
	if len(f.Waits) != 1 || f.Waits[0].Pool != "lab" || f.Waits[0].Count != 2 || f.Waits[0].Sum != 5*time.Second {
		t.Errorf("%+v", f.Waits)
	}
	if len(f.Watches) != 1 || f.Watches[0] != (WatchAge{"pods", 2 * time.Minute}) {
		t.Errorf("%+v", f.Watches)
	}
}
