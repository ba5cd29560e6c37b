package pretender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/weirhq/weir/internal/value/resource"
)

// Options configure a pretender.
type Options struct {
	Client kubernetes.Interface
	// Nodes is how many nodes there are, each with Resources.
	Nodes     int
	Resources resource.Amounts
	Log       *slog.Logger
}

const (
	// workers is how many calls of the API server are under way at a time.
	workers = 8
	// leaseTime is how long a node counts as alive without a sign of life, leasePeriod how often it gives one.
	leaseTime   = 80 * time.Second
	leasePeriod = 20 * time.Second
	// leaseNamespace is where Kubernetes expects the leases of nodes.
	leaseNamespace = "kube-node-lease"
)

// Pretender plays the kubelets of its nodes.
type Pretender struct {
	Options
	pods   cache.SharedIndexInformer
	queue  workqueue.TypedDelayingInterface[string]
	leases []*coordinationv1.Lease // of the nodes, as the API server last had them; nil if that is not known
}

// New creates the nodes that are not there yet and returns their pretender. Run starts it.
func New(ctx context.Context, o Options) (*Pretender, error) {
	err := together(ctx, o.Nodes, func(i int) error {
		name := NodeName(i + 1)
		if err := o.createNode(ctx, name); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p := &Pretender{
		Options: o, pods: informers.NewSharedInformerFactory(o.Client, 0).Core().V1().Pods().Informer(),
		queue: workqueue.NewTypedDelayingQueue[string](), leases: make([]*coordinationv1.Lease, o.Nodes),
	}
	_, err = p.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.seen,
		UpdateFunc: func(_, object any) { p.seen(object) },
	})
	return p, err
}

// createNode creates a node unless it exists, and sets its status.
func (o *Options) createNode(ctx context.Context, name string) error {
	node := pretended(NodeOf(name, quantities(o.Resources), 0))
	created, err := o.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = o.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	created.Status = node.Status
	_, err = o.Client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

// together calls a function for the numbers below n, several at a time, and returns the errors.
func together(ctx context.Context, n int, do func(i int) error) error {
	problems := make([]error, n)
	workqueue.ParallelizeUntil(ctx, workers, n, func(i int) { problems[i] = do(i) })
	return errors.Join(append(problems, ctx.Err())...)
}

// isMine reports whether a pod is on one of the nodes.
func (p *Pretender) isMine(pod *corev1.Pod) bool {
	digits, ours := strings.CutPrefix(pod.Spec.NodeName, nodePrefix)
	number, err := strconv.Atoi(digits)
	return ours && err == nil && number >= 1 && number <= p.Nodes
}

func (p *Pretender) seen(object any) {
	pod, ok := object.(*corev1.Pod)
	if ok && p.isMine(pod) {
		p.queue.Add(pod.Namespace + "/" + pod.Name)
	}
}

// Run plays the kubelets until ctx is cancelled.
func (p *Pretender) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { p.pods.RunWithContext(ctx) })
	all.Go(func() { p.live(ctx) })
	for range workers {
		all.Go(func() {
			for {
				key, end := p.queue.Get()
				if end {
					return
				}
				p.handle(ctx, key)
				p.queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	return nil
}

// handle does what is next with a pod. Whatever fails is tried again.
func (p *Pretender) handle(ctx context.Context, key string) {
	object, there, err := p.pods.GetStore().GetByKey(key)
	if err != nil || !there {
		return
	}
	pod := object.(*corev1.Pod)
	step := Next(pod, ScriptOf(pod), time.Now())
	if step.After > 0 {
		p.queue.AddAfter(key, step.After)
		return
	}
	if err := step.CarryOut(ctx, p.Client, pod); err != nil && ctx.Err() == nil {
		p.Log.Debug("a pretended kubelet tries again", "pod", key, "error", err)
		p.queue.AddAfter(key, time.Second)
	}
}

// CarryOut makes the API server show the step. Losing to another writer is no error: the pod's next version comes.
func (s Step) CarryOut(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	pods := client.CoreV1().Pods(pod.Namespace)
	var err error
	switch {
	case s.Remove:
		now := int64(0)
		err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	case s.Status != nil:
		next := pod.DeepCopy()
		next.Status = *s.Status
		_, err = pods.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// live renews the leases of the nodes, without which Kubernetes takes them for dead.
func (p *Pretender) live(ctx context.Context) {
	ticker := time.NewTicker(leasePeriod)
	defer ticker.Stop()
	for {
		for i := 0; i < p.Nodes && ctx.Err() == nil; i++ {
			if err := p.renew(ctx, i); err != nil && ctx.Err() == nil {
				p.Log.Debug("the lease of a pretended node", "node", NodeName(i+1), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renew renews the lease of the node with an index.
func (p *Pretender) renew(ctx context.Context, i int) (err error) {
	node, seconds, now := NodeName(i+1), int32(leaseTime/time.Second), metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &now}
	leases := p.Client.CoordinationV1().Leases(leaseNamespace)
	lease := p.leases[i]
	p.leases[i] = nil // after an error it is read again
	if lease == nil {
		lease, err = leases.Get(ctx, node, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: spec}, metav1.CreateOptions{})
	case err == nil:
		lease.Spec = spec
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		p.leases[i] = lease
	}
	return err
}

// Remove deletes the nodes, their leases and their pods. The pods need no time to end: no process runs for them.
func (p *Pretender) Remove(ctx context.Context) error {
	now := int64(0)
	list, err := p.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods := together(ctx, len(list.Items), func(i int) error {
		pod := &list.Items[i]
		if !p.isMine(pod) {
			return nil
		}
		err := p.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
	nodes := together(ctx, p.Nodes, func(i int) error {
		var problems []error
		for _, err := range []error{
			p.Client.CoreV1().Nodes().Delete(ctx, NodeName(i+1), metav1.DeleteOptions{}),
			p.Client.CoordinationV1().Leases(leaseNamespace).Delete(ctx, NodeName(i+1), metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				problems = append(problems, err)
			}
		}
		return errors.Join(problems...)
	})
	return errors.Join(pods, nodes)
}
