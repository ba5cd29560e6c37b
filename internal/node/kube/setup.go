package kube

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/weirhq/weir/internal/node/picture"
)

// Prepare creates the namespace of jobs and their account, which may do nothing, if they are not there. The chart has the
// same two.
func Prepare(ctx context.Context, client kubernetes.Interface, namespace, account string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	mount := false
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: account}, AutomountServiceAccountToken: &mount,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("service account %s: %w", account, err)
	}
	return nil
}

// Release removes Weir's finalizer from the pods of jobs in a namespace, which hold the pods and the namespace when no
// scheduler is there. It returns how many pods had it. With remove it also deletes all pods of jobs.
func Release(ctx context.Context, client kubernetes.Interface, namespace string, remove bool) (released int, err error) {
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: picture.LabelEpoch})
	if err != nil {
		return 0, err
	}
	problems, done := make([]error, len(list.Items)), make([]bool, len(list.Items))
	workqueue.ParallelizeUntil(ctx, writers, len(list.Items), func(i int) {
		done[i], problems[i] = release(ctx, pods, &list.Items[i], remove)
	})
	for _, yes := range done {
		if yes {
			released++
		}
	}
	return released, errors.Join(append(problems, ctx.Err())...)
}

// release removes the finalizer from a pod, and reports whether the pod had it. With remove it also deletes the pod.
func release(ctx context.Context, pods typedcorev1.PodInterface, pod *corev1.Pod, remove bool) (released bool, err error) {
	isGone := func(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
	if remove {
		err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if isGone(err) {
			err = nil
		}
	}
	if !hasFinalizer(pod) {
		return false, err
	}
	_, patched := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(withoutFinalizer(pod.UID)), metav1.PatchOptions{})
	if isGone(patched) {
		return false, err
	}
	return patched == nil, errors.Join(err, patched)
}

func hasFinalizer(pod *corev1.Pod) bool {
	for _, name := range pod.Finalizers {
		if name == picture.Finalizer {
			return true
		}
	}
	return false
}

// withoutFinalizer is a patch that removes Weir's finalizer from the pod with this UID.
func withoutFinalizer(uid types.UID) string {
	return fmt.Sprintf(`{"metadata": {"uid": %q, "$deleteFromPrimitiveList/finalizers": [%q]}}`, uid, picture.Finalizer)
}
