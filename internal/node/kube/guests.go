package kube

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/node/workload"
)

// Operations is how pods of others become jobs of external operations.
type Operations interface {
	// Known returns the external operations that have not ended.
	Known(ctx context.Context) ([]picture.Known, error)
	// Open starts an operation. An error means that nobody knows whether it was started.
	Open(ctx context.Context, o *picture.Opening) (picture.Opened, error)
	// Offer adds pods that wait. gone are operations that have ended.
	Offer(ctx context.Context, offers []picture.Offer) (gone []string, err error)
	Withdraw(ctx context.Context, list []picture.Withdrawal) error
	// End ends an operation without pods.
	End(ctx context.Context, id string) error
	// Why returns why the pods of an operation wait, nil if there is nothing to say.
	Why(ctx context.Context, id string) (*workload.Problem, error)
	// SectionsVersion changes whenever the answer of Sections does. It does not block.
	SectionsVersion() uint64
	// Sections returns the tasks of ordinary operations that say something about their pods.
	Sections(ctx context.Context) ([]picture.TaskSection, error)
	// Classify sets the constraint classes of such tasks.
	Classify(ctx context.Context, list []picture.Classification) error
}

// Guests is what a driver needs to schedule pods of others.
type Guests struct {
	Operations Operations
	// Metadata reads owners of pods, Dynamic reads PodGroups, and Discovery says which kinds there are.
	Metadata  metadata.Interface
	Dynamic   dynamic.Interface
	Discovery discovery.DiscoveryInterface
}

// ConnectGuests returns clients for pods of others.
func ConnectGuests(config *rest.Config, d discovery.DiscoveryInterface, operations Operations) (*Guests, error) {
	owners, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Guests{Operations: operations, Metadata: owners, Dynamic: objects, Discovery: d}, nil
}

const (
	// askTimeout is how long the scheduler may take to answer.
	askTimeout = 10 * time.Second
	// openers is how many operations are started at once.
	openers = 16
	// lookPause is how often the driver asks which kinds of PodGroups there are.
	lookPause = 30 * time.Second
)

// surroundings are the informers of what is around pods. They run while this scheduler stands by, too.
type surroundings struct {
	namespaces, claims, volumes cache.SharedIndexInformer
}

func newSurroundings(factory informers.SharedInformerFactory) *surroundings {
	return &surroundings{
		namespaces: factory.Core().V1().Namespaces().Informer(), claims: factory.Core().V1().PersistentVolumeClaims().Informer(),
		volumes: factory.Core().V1().PersistentVolumes().Informer(),
	}
}

func (s *surroundings) all() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{s.namespaces, s.claims, s.volumes}
}

// watchAround posts what the watches of namespaces, claims and volumes show.
func (t *term) watchAround() (synced func() bool, stop func(), err error) {
	if t.around == nil {
		return func() bool { return true }, func() {}, nil
	}
	seen := func(object any, gone bool) {
		switch o := last(object).(type) {
		case *corev1.Namespace:
			labels := o.Labels
			if gone {
				labels = nil
			}
			t.post(func(time.Time) { t.picture.NamespaceSeen(o.Name, labels) })
		case *corev1.PersistentVolumeClaim:
			t.post(func(time.Time) { t.picture.ClaimSeen(o, gone) })
		case *corev1.PersistentVolume:
			t.post(func(time.Time) { t.picture.VolumeSeen(o, gone) })
		}
	}
	var registrations []cache.ResourceEventHandlerRegistration
	for _, informer := range t.around.all() {
		r, err := informer.AddEventHandler(handler(seen))
		if err != nil {
			return nil, nil, err
		}
		registrations = append(registrations, r)
	}
	synced = func() bool {
		for _, r := range registrations {
			if !r.HasSynced() {
				return false
			}
		}
		return true
	}
	stop = func() {
		for i, informer := range t.around.all() {
			_ = informer.RemoveEventHandler(registrations[i]) // it fails only for a handler that was never added
		}
	}
	return synced, stop, nil
}

// handler calls one function for all events of an informer.
func handler(seen func(object any, gone bool)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { seen(o, false) }, UpdateFunc: func(_, o any) { seen(o, false) }, DeleteFunc: func(o any) { seen(o, true) },
	}
}

// inquire carries out an Ask.
func (t *term) inquire(a *picture.Ask) {
	t.workers.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
		defer cancel()
		answer := t.answerTo(ctx, a)
		t.post(func(now time.Time) { t.picture.Answered(now, a, answer) })
	})
}

func (t *term) answerTo(ctx context.Context, a *picture.Ask) *picture.Answer {
	answer := &picture.Answer{}
	failed := func(err error) bool {
		if err != nil && ctx.Err() == nil {
			t.Log.Warn("the scheduler did not take pods", "error", err)
		}
		answer.Failed = answer.Failed || err != nil
		return err != nil
	}
	if t.Guests == nil {
		return answer
	}
	o := t.Guests.Operations
	if a.List {
		known, err := o.Known(ctx)
		failed(err)
		answer.Known = known
	}
	answer.Opened = t.open(ctx, a.Start)
	if len(a.Withdraw) > 0 && failed(o.Withdraw(ctx, a.Withdraw)) {
		return answer
	}
	if len(a.Offer) > 0 {
		gone, err := o.Offer(ctx, a.Offer)
		failed(err)
		answer.Gone = gone
	}
	for _, id := range a.End {
		failed(o.End(ctx, id))
	}
	if len(a.Classify) > 0 {
		failed(o.Classify(ctx, a.Classify))
	}
	if a.Tasks {
		tasks, err := o.Sections(ctx)
		failed(err)
		answer.Tasks = tasks
	}
	return answer
}

// open starts operations, several at once.
func (t *term) open(ctx context.Context, list []picture.Opening) []picture.Opened {
	opened := make([]picture.Opened, len(list))
	var workers sync.WaitGroup
	places := make(chan struct{}, openers)
	for i := range list {
		places <- struct{}{}
		workers.Go(func() {
			defer func() { <-places }()
			got, err := t.Guests.Operations.Open(ctx, &list[i])
			if err != nil {
				t.Log.Warn("an operation of pods was not started", "operation", list[i].Alias, "error", err)
			}
			opened[i] = got
		})
	}
	workers.Wait()
	return opened
}

// askWhy asks why pods of operations wait.
func (t *term) askWhy(ids []string) {
	t.workers.Go(func() {
		reasons := map[string]*workload.Problem{}
		for _, id := range ids {
			ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
			why, err := t.Guests.Operations.Why(ctx, id)
			cancel()
			if err != nil {
				t.Log.Debug("the scheduler did not explain an operation", "operation", id, "error", err)
				continue
			}
			reasons[id] = why
		}
		t.post(func(time.Time) { t.picture.Explained(reasons) })
	})
}

// owners reads the owners of pods as metadata, by one watch per kind. One goroutine uses it.
type owners struct {
	*term
	asks  chan picture.OwnerAsk
	kinds map[schema.GroupVersionKind]*ownerKind
}

// ownerKind is one kind of owners.
type ownerKind struct {
	informer  cache.SharedIndexInformer
	forbidden bool // it cannot be read
}

func newOwners(t *term) *owners {
	return &owners{term: t, asks: make(chan picture.OwnerAsk, 1024), kinds: map[schema.GroupVersionKind]*ownerKind{}}
}

func (o *owners) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-o.asks:
			o.answer(ctx, a)
		}
	}
}

// answer reads one owner. A kind that is unknown or forbidden ends the chain.
func (o *owners) answer(ctx context.Context, a picture.OwnerAsk) {
	gone := func() { o.post(func(time.Time) { o.picture.OwnerRead(a.UID, nil) }) }
	version, err := schema.ParseGroupVersion(a.APIVersion)
	if err != nil {
		gone()
		return
	}
	kind := o.kind(ctx, version.WithKind(a.Kind))
	if kind == nil || kind.forbidden {
		gone()
		return
	}
	for !kind.informer.HasSynced() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
		if kind.forbidden {
			gone()
			return
		}
	}
	object, there, err := kind.informer.GetStore().GetByKey(a.Namespace + "/" + a.Name)
	if !there || err != nil {
		gone()
		return
	}
	o.found(object, false)
}

// found posts an owner.
func (o *owners) found(object any, gone bool) {
	meta, ok := last(object).(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	owner := &workload.Owner{
		Kind: meta.Kind, Name: meta.Name, UID: meta.UID, Labels: meta.Labels, Annotations: meta.Annotations, Controller: metav1.GetControllerOf(meta),
	}
	if gone {
		owner = nil
	}
	o.post(func(time.Time) { o.picture.OwnerRead(meta.UID, owner) })
}

// kind returns the watch of a kind, nil if the cluster does not have the kind.
func (o *owners) kind(ctx context.Context, gvk schema.GroupVersionKind) *ownerKind {
	if kind := o.kinds[gvk]; kind != nil {
		return kind
	}
	name := o.resourceOf(gvk)
	if name == "" {
		return nil
	}
	resource := gvk.GroupVersion().WithResource(name)
	kind := &ownerKind{}
	o.kinds[gvk] = kind
	// Whether it may be read is asked first: a watch that is forbidden is tried again and again.
	if _, err := o.Guests.Metadata.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err != nil && !apierrors.IsServerTimeout(err) {
		o.Log.Info("owners of pods of this kind cannot be read: the chain of owners ends there", "kind", gvk, "error", err)
		kind.forbidden = true
		return kind
	}
	kind.informer = metadatainformer.NewFilteredMetadataInformer(o.Guests.Metadata, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	err := kind.informer.SetTransform(func(object any) (any, error) {
		if meta, ok := object.(*metav1.PartialObjectMetadata); ok {
			meta.ManagedFields = nil
			meta.SetGroupVersionKind(gvk)
		}
		return object, nil
	})
	if err == nil {
		_, err = kind.informer.AddEventHandler(handler(o.found))
	}
	if err != nil {
		kind.forbidden = true
		return kind
	}
	o.workers.Go(func() { kind.informer.RunWithContext(ctx) })
	return kind
}

// resourceOf returns the name of a kind in addresses, empty if there is none.
func (o *owners) resourceOf(gvk schema.GroupVersionKind) string {
	list, err := o.Guests.Discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return ""
	}
	for i := range list.APIResources {
		if r := &list.APIResources[i]; r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			return r.Name
		}
	}
	return ""
}

// watchGroups watches PodGroups of both API groups, in the newest version that the cluster has, as soon as it has one.
func (t *term) watchGroups(ctx context.Context) {
	watched := map[string]bool{}
	for ctx.Err() == nil {
		for _, group := range []string{workload.CoreGroups, workload.PluginsGroups} {
			if watched[group] {
				continue
			}
			if resource, there := t.podGroups(ctx, group); there {
				watched[group] = true
				t.watchGroup(ctx, group, resource)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookPause):
		}
	}
}

// groupVersions are the versions of PodGroups, newest first.
var groupVersions = map[string][]string{
	workload.CoreGroups: {"v1", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"}, workload.PluginsGroups: {"v1alpha1"},
}

// podGroups returns the newest PodGroups of a group that the cluster has and that may be read.
func (t *term) podGroups(ctx context.Context, group string) (schema.GroupVersionResource, bool) {
	for _, version := range groupVersions[group] {
		resource := schema.GroupVersionResource{Group: group, Version: version, Resource: "podgroups"}
		if _, err := t.Guests.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return resource, true
		}
	}
	return schema.GroupVersionResource{}, false
}

func (t *term) watchGroup(ctx context.Context, group string, resource schema.GroupVersionResource) {
	informer := dynamicinformer.NewFilteredDynamicInformer(t.Guests.Dynamic, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	_, err := informer.AddEventHandler(handler(func(object any, gone bool) {
		u, ok := last(object).(*unstructured.Unstructured)
		if !ok {
			return
		}
		var read *workload.PodGroup
		if !gone {
			read = readGroup(group, resource.Version, u)
		}
		t.post(func(time.Time) { t.picture.PodGroupSeen(group, u.GetNamespace(), u.GetName(), read) })
	}))
	if err != nil {
		t.Log.Warn("PodGroups cannot be watched", "group", group, "error", err)
		return
	}
	if group == workload.CoreGroups {
		t.writer.groups.Store(&groups{t.Guests.Dynamic.Resource(resource), scheduledCondition(resource.Version)})
	}
	t.workers.Go(func() { informer.RunWithContext(ctx) })
}

// readGroup reads what counts of a PodGroup.
func readGroup(group, version string, u *unstructured.Unstructured) *workload.PodGroup {
	g := &workload.PodGroup{Labels: u.GetLabels(), Annotations: u.GetAnnotations(), UID: u.GetUID()}
	number := func(fields ...string) int {
		n, _, err := unstructured.NestedInt64(u.Object, fields...)
		if err != nil {
			return 0
		}
		return int(n)
	}
	if group == workload.PluginsGroups {
		g.MinMember = number("spec", "minMember")
		return g
	}
	g.MinMember = number("spec", "schedulingPolicy", "gang", "minCount")
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions") // a malformed list says nothing
	for _, each := range conditions {
		if c, ok := each.(map[string]any); ok && c["type"] == scheduledCondition(version) {
			g.Scheduled = c["status"] == string(metav1.ConditionTrue)
			g.Reason, _ = c["reason"].(string)
		}
	}
	if mode, _, err := unstructured.NestedString(u.Object, "spec", "disruptionMode"); err == nil {
		g.Whole = mode == "PodGroup"
	}
	if _, all, err := unstructured.NestedMap(u.Object, "spec", "disruptionMode", "all"); err == nil && all {
		g.Whole = true
	}
	for _, name := range []string{"schedulingConstraints", "resourceClaims"} {
		if value, there, err := unstructured.NestedFieldNoCopy(u.Object, "spec", name); err == nil && there && value != nil {
			g.Unsupported = "spec." + name
		}
	}
	return g
}
