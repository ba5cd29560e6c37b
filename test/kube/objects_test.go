package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/control/manifest"
)

// objects are the custom resources of one kind.
type objects struct {
	t *testing.T
	dynamic.ResourceInterface
	kind string
}

func objectsOf(t *testing.T, plural, kind string) *objects {
	t.Helper()
	c, err := dynamic.NewForConfig(plane.config(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	return &objects{t, c.Resource(schema.GroupVersionResource{Group: manifest.Group, Version: manifest.Version, Resource: plural}), kind}
}

// put applies an object, given its spec as JSON, as kubectl does it: unknown fields are refused.
func (o *objects) put(name, spec string) error {
	o.t.Helper()
	text := fmt.Sprintf(`{"apiVersion": "weir.dev/v1alpha1", "kind": %q, "metadata": {"name": %q}, "spec": %s}`, o.kind, name, spec)
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), object); err != nil {
		o.t.Fatal(err)
	}
	_, err := o.Create(context.Background(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) {
		_, err = o.Patch(context.Background(), name, types.MergePatchType, []byte(fmt.Sprintf(`{"spec": %s}`, spec)), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	}
	return err
}

// accepted returns the condition Accepted of an object as "STATUS REASON".
func (o *objects) accepted(name string) string {
	object, err := o.Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		return err.Error()
	}
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range list {
		if c, ok := each.(map[string]any); ok && c["type"] == manifest.ConditionAccepted {
			return fmt.Sprint(c["status"], " ", c["reason"])
		}
	}
	return ""
}

func TestPoolsFollowObjects(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "objects-1", "8")
	ctx := context.Background()
	pools := objectsOf(t, manifest.Pools, "WeirPool")
	t.Cleanup(func() { // without a scheduler nothing would remove the finalizers
		for _, name := range []string{"child", "top"} {
			_, _ = pools.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			_ = pools.Delete(ctx, name, metav1.DeleteOptions{})
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(name, want string) {
		t.Helper()
		s.await(name+" is "+want, func() bool { return pools.accepted(name) == want })
	}
	there := func(path string) bool {
		found, err := s.Exists(ctx, path)
		return err == nil && found
	}
	// A child comes before its parent.
	must(pools.put("child", `{"parent": "top", "name": "the_child", "options": {"weight": 2}}`))
	is("child", "False UnknownParent")
	must(pools.put("top", `{"options": {"max_running_operation_count": 4}}`))
	is("child", "True Accepted")
	if !there("//sys/pool_trees/default/top/the_child") {
		t.Error("the pool is not there")
	}
	if err := s.Set(ctx, "//sys/pool_trees/default/top/the_child/@weight", 5, client.WriteOptions{}); err == nil || !strings.Contains(err.Error(), "weirpool/child") {
		t.Errorf("an edit beside the object: %v", err)
	}
	if err := s.Set(ctx, "//sys/pool_trees/default/users/@weight", 5, client.WriteOptions{}); err != nil {
		t.Errorf("a pool without an object: %v", err)
	}
	// What the schema refuses, and what only Weir can.
	if err := pools.put("wrong", `{"options": {"wieght": 2}}`); err == nil || !strings.Contains(err.Error(), "wieght") {
		t.Errorf("an unknown option: %v", err)
	}
	if err := pools.put("wrong", `{"options": {"mode": "lifo"}}`); err == nil || !strings.Contains(err.Error(), "fair_share") {
		t.Errorf("an unknown mode: %v", err)
	}
	must(pools.put("top", `{"parent": "the_child"}`))
	is("top", "False CyclicParent")
	if !there("//sys/pool_trees/default/top/the_child") {
		t.Error("the last valid tree does not stay")
	}
	must(pools.put("top", `{"parent": ""}`))
	is("top", "True Accepted")
	// A deleted pool stays while it has operations.
	id := s.begin(2, "sleep", map[string]any{"pool": "the_child"})
	s.await("the pods run", func() bool { return len(machine.running(t)) == 2 })
	must(pools.Delete(ctx, "child", metav1.DeleteOptions{}))
	must(pools.Delete(ctx, "top", metav1.DeleteOptions{}))
	is("child", "True InUse")
	must(s.AbortOperation(ctx, id, "enough"))
	is("child", "gone")
	is("top", "gone")
	if there("//sys/pool_trees/default/top") || !there("//sys/pool_trees/default/users") {
		t.Error("the pools of deleted objects are removed, and no others")
	}
}

func TestTreesFollowObjectsAndShareNoNode(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "trees-1", "8")
	ctx := context.Background()
	trees := objectsOf(t, manifest.Trees, "WeirTree")
	t.Cleanup(func() {
		_, _ = trees.Patch(ctx, "second", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		_ = trees.Delete(ctx, "second", metav1.DeleteOptions{})
	})
	s.await("the node is there", func() bool {
		list, err := s.ListNodes(ctx, client.NodeFilter{})
		return err == nil && len(list.Nodes) == 1
	})
	is := func(want string) {
		t.Helper()
		s.await("the tree is "+want, func() bool { return trees.accepted("second") == want })
	}
	put := func(spec string) {
		t.Helper()
		if err := trees.put("second", spec); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "elsewhere"}}}`)
	is("True Accepted")
	put(`{"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "trees-1"}}}`)
	is("False NodeInTwoTrees")
	put(`{"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": null, "team": "a"}}}`)
	is("False BadSelector")
	if err := trees.Delete(ctx, "second", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	is("gone")
	if found, err := s.Exists(ctx, "//sys/pool_trees/second"); err != nil || found {
		t.Errorf("the tree is still there: %v", err)
	}
}
