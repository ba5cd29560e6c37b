package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirhq/weir/internal/node/picture"
)

// Events that a pod gets.
const eventPreempted = "WeirPreempted"

// bind binds a pod to a node. The server refuses another UID, and a pod that has a node: then the pod is read, because an
// earlier attempt may have succeeded.
func (w *writer) bind(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	pods := w.client.CoreV1().Pods(write.Namespace)
	err := pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Name: write.Name, Namespace: write.Namespace, UID: write.UID, Annotations: map[string]string{picture.AnnotationJob: write.Annotation},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: write.Node},
	}, metav1.CreateOptions{})
	if err == nil {
		return &picture.Outcome{Kind: picture.Done}, nil
	}
	if apierrors.IsConflict(err) {
		pod, found := pods.Get(ctx, write.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(found) || found == nil && pod.UID != write.UID:
			return &picture.Outcome{Kind: picture.Missing, Message: err.Error()}, err
		case found != nil:
			return &picture.Outcome{Kind: picture.Temporary, Message: found.Error()}, found
		case pod.Spec.NodeName != "":
			return &picture.Outcome{Kind: picture.Done, Pod: pod}, nil
		}
		return &picture.Outcome{Kind: picture.Refused, Message: err.Error()}, err
	}
	return outcomeOf(err), err
}

// evict evicts a pod by the API that respects disruption budgets, and says why in the pod's conditions.
func (w *writer) evict(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	// A budget's refusal is an answer, not a reason for the client to wait and try again.
	err := w.client.CoreV1().RESTClient().Post().Namespace(write.Namespace).Resource("pods").Name(write.Name).SubResource("eviction").MaxRetries(0).
		Body(&policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Name: write.Name, Namespace: write.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &write.UID}},
		}).Do(ctx).Error()
	switch {
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return &picture.Outcome{Kind: picture.Protected, Message: wordsOf(err)}, nil // no trouble of the server
	case err == nil && write.Preempted:
		// The condition tells a preemption from other evictions. It comes late or not at all if the pod is gone already.
		w.patchConditions(ctx, write, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: write.Message,
		}, nil)
		w.announce(ctx, write, corev1.EventTypeNormal, eventPreempted, write.Message)
	}
	return outcomeOf(err), err
}

// wordsOf returns the words of the server with those of its causes, which name the budget.
func wordsOf(err error) string {
	text := err.Error()
	if status, ok := err.(apierrors.APIStatus); ok && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			text += " " + cause.Message
		}
	}
	return text
}

// explain sets the condition PodScheduled, and tells the same by an event.
func (w *writer) explain(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	err := w.patchConditions(ctx, write, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: write.Reason, Message: write.Message,
	}, &write.Node)
	if err == nil {
		w.announce(ctx, write, corev1.EventTypeWarning, write.Reason, write.Message)
	}
	return outcomeOf(err), err
}

// groups are the PodGroups of Kubernetes' own API, in the version that the cluster has.
type groups struct {
	dynamic.NamespaceableResourceInterface
	// condition is the type of the condition that states whether a group is scheduled.
	condition string
}

// scheduledCondition returns that type. Kubernetes 1.37 renamed it with its version of PodGroups.
func scheduledCondition(version string) string {
	if version == "v1alpha1" || version == "v1alpha2" {
		return "PodGroupScheduled"
	}
	return "PodGroupInitiallyScheduled"
}

// explainGroup sets the condition of a PodGroup.
func (w *writer) explainGroup(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	g := w.groups.Load()
	if g == nil {
		return &picture.Outcome{Kind: picture.Missing}, nil
	}
	c := metav1.Condition{Type: g.condition, Status: metav1.ConditionFalse, Reason: write.Reason, Message: write.Message, LastTransitionTime: metav1.Now()}
	if write.Scheduled {
		c.Status, c.Reason = metav1.ConditionTrue, "Scheduled"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": write.UID}, "status": map[string]any{"conditions": []metav1.Condition{c}}})
	if err == nil {
		_, err = g.Namespace(write.Namespace).Patch(ctx, write.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	return outcomeOf(err), err
}

// patchConditions sets a condition of the pod with this UID, and the node that it is nominated for.
func (w *writer) patchConditions(ctx context.Context, write *picture.Write, c corev1.PodCondition, nominated *string) error {
	c.LastTransitionTime = metav1.Now()
	status := map[string]any{"conditions": []corev1.PodCondition{c}}
	if nominated != nil && *nominated != "" {
		status["nominatedNodeName"] = *nominated
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": write.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Pods(write.Namespace).Patch(ctx, write.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// announce creates an event about a pod. Events are for people: a lost one is not missed.
func (w *writer) announce(ctx context.Context, write *picture.Write, kind, reason, message string) {
	const mostNote = 1024
	if message == "" {
		message = reason
	}
	_, _ = w.client.EventsV1().Events(write.Namespace).Create(ctx, &eventsv1.Event{ // best effort
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%.200s.%x", write.Name, time.Now().UnixNano()), Namespace: write.Namespace},
		EventTime:  metav1.NowMicro(), ReportingController: "weir.dev/scheduler", ReportingInstance: "weir", Action: "Scheduling", Type: kind,
		Reason: reason, Note: fmt.Sprintf("%.*s", mostNote, message),
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: write.Namespace, Name: write.Name, UID: write.UID},
	}, metav1.CreateOptions{})
}
