package kube

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/pretender"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// startUp starts weir up --kubernetes on a free port and waits until it is ready. stop ends it, once; the test's end does so
// as well.
func startUp(t *testing.T, c *config.Config, patience time.Duration) (w *client.Client, stop func()) {
	t.Helper()
	kubeconfig, err := plane.kubeconfigOf(adminToken)
	if err != nil {
		t.Fatal(err)
	}
	c.Up.Kubernetes, c.Up.Port = document.Some(true), document.Some(0)
	c.Scheduler.Kubernetes.Kubeconfig, c.Scheduler.TrustLoopback = document.Some(kubeconfig), document.Some(true)
	ctx, cancel := context.WithCancel(context.Background())
	up, err := app.NewUp(ctx, c, "test", slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ready := make(chan struct{})
	up.Ready = func() error { close(ready); return nil }
	var running sync.WaitGroup
	running.Go(func() {
		if err := up.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	select {
	case <-ready:
	case <-time.After(patience):
		t.Fatal("it is not ready")
	}
	if w, err = client.New(client.Options{Address: up.Scheduler.Address}); err != nil {
		t.Fatal(err)
	}
	return w, stop
}

// weir up --kubernetes --kwok 3 runs operations on nodes that it makes up, and leaves nothing behind.
func TestUpRunsOperationsOnPretendedNodes(t *testing.T) {
	if without != "" {
		t.Skipf("NO API SERVER HERE: %s", without)
	}
	c := config.Default()
	c.Up.Kwok = document.Some(3)
	c.Scheduler.Kubernetes.Namespace = document.Some("weir-up")
	c.Scheduler.Periods.FairShareUpdate = document.Some(50 * time.Millisecond)
	ctx := context.Background()
	w, stop := startUp(t, &c, expected.Patience)
	start := func(command string) string {
		id, err := w.StartOperation(ctx, "vanilla", map[string]any{"pool": "research", "tasks": map[string]any{"main": map[string]any{
			"job_count": 6, "command": command, "memory_limit": 64 << 20,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := start("sleep 0.1")
	if !expected.Soon(func() bool {
		operation, err := w.GetOperation(ctx, id)
		return err == nil && operation.State == client.Completed && operation.Jobs.Completed == 6
	}) {
		t.Error("the operation does not complete")
	}
	for job, err := range w.Jobs(ctx, id, client.JobFilter{}) {
		if err != nil || job.Node != pretender.NodeName(1) && job.Node != pretender.NodeName(2) && job.Node != pretender.NodeName(3) {
			t.Errorf("a job ran on %s: %v", job.Node, err)
		}
	}
	start("sleep 1000")
	pods := func() int {
		list, err := plane.admin.CoreV1().Pods("weir-up").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return -1
		}
		return len(list.Items)
	}
	if !expected.Soon(func() bool { return pods() == 6 }) {
		t.Errorf("%d pods", pods())
	}
	stop()
	if left := pods(); left != 0 {
		t.Errorf("%d pods are left", left)
	}
	for i := 1; i <= 3; i++ {
		if _, err := plane.admin.CoreV1().Nodes().Get(context.Background(), pretender.NodeName(i), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s is left: %v", pretender.NodeName(i), err)
		}
	}
}
