package client

import (
	"context"
	"fmt"
	"time"
)

// PodFilter selects pods. The zero value selects all.
type PodFilter struct {
	Namespace string `yson:"namespace"`
	Name      string `yson:"name"`
	State     string `yson:"state"`
	Text      string `yson:"filter"` // a part of the name
	Limit     int64  `yson:"limit"`
}

// Pod is a pod of Kubernetes that Weir schedules.
type Pod struct {
	Namespace string    `yson:"namespace"`
	Name      string    `yson:"name"`
	State     string    `yson:"state"` // waiting, starting, running, leaving, completed or failed
	Node      string    `yson:"node"`
	Created   time.Time `yson:"creation_time"`
	// OperationID and Alias name its operation; empty if it has none yet.
	OperationID string `yson:"operation_id"`
	Alias       string `yson:"alias"`
	Task        string `yson:"task_name"`
	Tree        string `yson:"pool_tree"` // empty for the default tree
	Pool        string `yson:"pool"`
	// Reason and Message are why it waits, as in its condition PodScheduled.
	Reason  string `yson:"reason"`
	Message string `yson:"message"`
	Raw     Value  `yson:"."`
}

// PodList is a list of pods.
type PodList struct {
	Pods       []Pod `yson:"pods"`
	Total      int64 `yson:"total"`
	Incomplete bool  `yson:"incomplete"`
	Raw        Value `yson:"."`
}

// ListPods returns the pods that match f, sorted by namespace and name.
func (c *Client) ListPods(ctx context.Context, f PodFilter) (*PodList, error) {
	return ask[PodList](ctx, c, "list_pods", f)
}

// GetPod returns a pod. The error is CodeResolve if Weir does not schedule such a pod.
func (c *Client) GetPod(ctx context.Context, namespace, name string) (*Pod, error) {
	list, err := c.ListPods(ctx, PodFilter{Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	if len(list.Pods) == 0 {
		return nil, &Error{Code: CodeResolve, Message: fmt.Sprintf("Weir does not schedule a pod %q in namespace %q", name, namespace)}
	}
	return &list.Pods[0], nil
}
