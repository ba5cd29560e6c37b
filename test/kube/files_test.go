package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/podfiles"
)

// inPod returns the plan of the only running pod, with directories of this machine in place of the pod's: the sandbox, and
// what the kubelet would mount.
func inPod(t *testing.T, s *scheduler) *podfiles.Plan {
	t.Helper()
	s.await("the pod runs", func() bool { return len(machine.running(t)) == 1 })
	pod := machine.running(t)[0]
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name != podfiles.Variable {
			continue
		}
		plan, err := podfiles.Read(strings.ReplaceAll(v.Value, "$$", "$"))
		if err != nil {
			t.Fatal(err)
		}
		plan.Sandbox, plan.Mounted = t.TempDir(), t.TempDir()
		for _, volume := range pod.Spec.Volumes {
			if volume.ConfigMap == nil {
				continue
			}
			object, err := plane.admin.CoreV1().ConfigMaps(pod.Namespace).Get(context.Background(), volume.ConfigMap.Name, metav1.GetOptions{})
			if err != nil || object.Immutable == nil || !*object.Immutable {
				t.Fatalf("%v, %v", object, err)
			}
			for key, data := range object.BinaryData {
				if err := os.WriteFile(filepath.Join(plan.Mounted, key), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		return plan
	}
	t.Fatal("the pod has no files")
	return nil
}

// Files of a job come into its pod, and what it leaves is there in its next attempt: the pod's part runs here, against a
// real scheduler, with what the API server has of the pod.
func TestFilesAndCheckpointsOfAJobInAPod(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "files-1", "4")
	ctx := context.Background()
	large := bytes.Repeat([]byte("large "), 200_000)
	sum := sha256.Sum256(large)
	name := hex.EncodeToString(sum[:])
	if err := s.UploadFile(ctx, name, client.Content{Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(large)), nil }, Size: int64(len(large))}); err != nil {
		t.Fatal(err)
	}
	id := s.begin(1, "sleep", map[string]any{"tasks": map[string]any{"main": map[string]any{
		"job_count": 1, "command": "sleep", "memory_limit": 64 << 20, "artifact_paths": []any{"state"}, "restore_artifacts": true,
		"file_paths": []any{map[string]any{"file_name": "small", "content": "hello"}, map[string]any{"file_name": "deep/large", "sha256": name, "size": len(large)}},
	}}})
	plan := inPod(t, s)
	if err := plan.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"small": "hello", "deep/large": string(large)} {
		if text, err := os.ReadFile(filepath.Join(plan.Sandbox, file)); string(text) != want {
			t.Errorf("%s: %d bytes, %v", file, len(text), err)
		}
	}
	if err := os.WriteFile(filepath.Join(plan.Sandbox, "state"), []byte("step 7"), 0o644); err != nil {
		t.Fatal(err)
	}
	forged := *plan
	forged.Token = strings.Repeat("0", len(plan.Token))
	if kept := forged.Keep(ctx); kept.Failure == "" {
		t.Errorf("another token: %+v", kept)
	}
	if kept := plan.Keep(ctx); kept.Count != 1 || kept.Failure != "" {
		t.Fatalf("%+v", kept)
	}
	first := machine.running(t)[0].Name
	if err := plane.admin.CoreV1().Pods("weir-jobs").Delete(ctx, first, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("another attempt runs", func() bool {
		running := machine.running(t)
		return len(running) == 1 && running[0].Name != first
	})
	second := inPod(t, s)
	if err := second.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(second.Sandbox, "state")); string(text) != "step 7" {
		t.Errorf("the checkpoint: %q, %v", text, err)
	}
	if err := plan.Prepare(ctx); err == nil {
		t.Error("the token of a job that has ended still opens its files")
	}
	if err := s.AbortOperation(ctx, id, "enough"); err != nil {
		t.Fatal(err)
	}
}
