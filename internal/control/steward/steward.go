package steward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/weirhq/weir/internal/control/manifest"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/notation"
)

// User is the author of all changes, for the audit.
const User = "kubernetes"

const (
	// absencePause is how often the steward looks whether the custom resources are installed.
	absencePause = 30 * time.Second
	// statusPeriod is how often statuses follow the figures.
	statusPeriod = 10 * time.Second
	// settlePause is how long the steward waits after a change for more of them.
	settlePause = 100 * time.Millisecond
	// termPause is how often a standby looks whether it leads.
	termPause = time.Second
	// callTimeout bounds every call.
	callTimeout = 5 * time.Second
)

// Options configure a steward.
type Options struct {
	Client dynamic.Interface
	Server *server.Server
	// Labels are the labels of nodes that are tags.
	Labels []string
	Log    *slog.Logger
}

// Steward applies custom resources to a server.
type Steward struct {
	Options
	// poolsSeen and treesSeen are the statuses that were written last, by name.
	poolsSeen map[string]written[manifest.PoolStatus]
	treesSeen map[string]written[manifest.TreeStatus]
}

// written is a status with the time when it was written.
type written[S any] struct {
	status S
	at     time.Time
}

// New returns a steward. Run starts it.
func New(o Options) *Steward { return &Steward{Options: o} }

func resourceOf(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: manifest.Group, Version: manifest.Version, Resource: plural}
}

// Run works whenever the server leads, until ctx is cancelled.
func (s *Steward) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := termPause
		if epoch, _ := s.Server.Term(); epoch != 0 {
			installed, err := s.isInstalled(ctx)
			switch {
			case err != nil:
				s.Log.Debug("custom resources", "error", err)
			case installed:
				s.lead(ctx, epoch)
			default:
				pause = absencePause
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// isInstalled reports whether both kinds are there and may be read.
func (s *Steward) isInstalled(ctx context.Context) (bool, error) {
	for _, plural := range []string{manifest.Pools, manifest.Trees} {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := s.Client.Resource(resourceOf(plural)).List(ctx, metav1.ListOptions{Limit: 1})
		cancel()
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// lead applies objects until the term ends.
func (s *Steward) lead(ctx context.Context, epoch uint64) {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	news := make(chan struct{}, 1)
	poke := func(any) {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(s.Client, 0)
	var stores []cache.Store
	var synced []cache.InformerSynced
	for _, plural := range []string{manifest.Trees, manifest.Pools} {
		informer := factory.ForResource(resourceOf(plural)).Informer()
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: poke, UpdateFunc: func(_, object any) { poke(object) }, DeleteFunc: poke,
		})
		if err != nil {
			s.Log.Error("custom resources", "error", err)
			return
		}
		stores, synced = append(stores, informer.GetStore()), append(synced, handler.HasSynced)
		workers.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	s.Log.Info("pools follow custom resources", "epoch", epoch)
	s.poolsSeen, s.treesSeen = map[string]written[manifest.PoolStatus]{}, map[string]written[manifest.TreeStatus]{}
	defer s.Server.SetManaged(nil)
	ticker := time.NewTicker(statusPeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if now, _ := s.Server.Term(); now != epoch {
			return
		}
		if err := s.round(ctx, listOf(stores[0]), listOf(stores[1])); err != nil && ctx.Err() == nil {
			s.Log.Warn("custom resources: the next round tries again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-news:
			select {
			case <-ctx.Done():
			case <-time.After(settlePause):
			}
		}
	}
}

// listOf returns the objects of a store, sorted by name.
func listOf(store cache.Store) (list []*unstructured.Unstructured) {
	for _, each := range store.List() {
		if object, ok := each.(*unstructured.Unstructured); ok {
			list = append(list, object)
		}
	}
	slices.SortFunc(list, func(a, b *unstructured.Unstructured) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	return list
}

// treeSpec and poolSpec are the specs of both kinds.
type treeSpec struct {
	NodeSelector manifest.Selector `json:"nodeSelector"`
	Options      json.RawMessage   `json:"options"`
}

type poolSpec struct {
	Tree    string          `json:"tree"`
	Parent  string          `json:"parent"`
	Name    string          `json:"name"`
	Options json.RawMessage `json:"options"`
	// Namespaces are the patterns of the namespaces that may use the pool.
	Namespaces []string `json:"namespaces"`
}

// specOf decodes the spec of an object.
func specOf(object *unstructured.Unstructured, into any) error {
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func treeOf(object *unstructured.Unstructured) (t manifest.Tree, err error) {
	var spec treeSpec
	if err := specOf(object, &spec); err != nil {
		return t, err
	}
	t = manifest.Tree{Name: object.GetName(), Selector: spec.NodeSelector, Deleted: object.GetDeletionTimestamp() != nil}
	if len(spec.Options) > 0 {
		t.Options, err = notation.ParseJSON("", spec.Options)
	}
	return t, err
}

func poolOf(object *unstructured.Unstructured) (p manifest.Pool, err error) {
	var spec poolSpec
	if err := specOf(object, &spec); err != nil {
		return p, err
	}
	p = manifest.Pool{Object: object.GetName(), Name: spec.Name, Tree: spec.Tree, Parent: spec.Parent, Deleted: object.GetDeletionTimestamp() != nil}
	if p.Name == "" {
		p.Name = p.Object
	}
	if p.Tree == "" {
		p.Tree = manifest.DefaultTree
	}
	if len(spec.Options) > 0 {
		p.Options, err = notation.ParseJSON("", spec.Options)
	}
	if _, twice := p.Options.Get("kubernetes"); twice && spec.Namespaces != nil {
		err = errors.Join(err, errors.New("spec.namespaces and spec.options.kubernetes say the same: set one of them"))
	}
	p.Namespaces = spec.Namespaces
	return p, err
}

// unreadable is the verdict of an object that the schema should have refused.
func unreadable(err error) manifest.Verdict {
	return manifest.Verdict{Reason: "Unreadable", Message: err.Error()}
}

// round applies all objects once and writes what has changed. Finalizers come first, so that no pool is made that nobody
// would remove.
func (s *Steward) round(ctx context.Context, treeObjects, poolObjects []*unstructured.Unstructured) error {
	var problems []error
	var trees []manifest.Tree
	var pools []manifest.Pool
	wrongTrees, wrongPools := map[string]manifest.Verdict{}, map[string]manifest.Verdict{}
	hold := func(plural string, object *unstructured.Unstructured) bool {
		if object.GetDeletionTimestamp() != nil {
			return slices.Contains(object.GetFinalizers(), manifest.Finalizer)
		}
		if slices.Contains(object.GetFinalizers(), manifest.Finalizer) {
			return true
		}
		err := s.setFinalizers(ctx, plural, object, append(slices.Clone(object.GetFinalizers()), manifest.Finalizer))
		problems = append(problems, err)
		return err == nil
	}
	for _, object := range treeObjects {
		tree, err := treeOf(object)
		if err != nil {
			wrongTrees[object.GetName()] = unreadable(err)
		} else if hold(manifest.Trees, object) {
			trees = append(trees, tree)
		}
	}
	for _, object := range poolObjects {
		pool, err := poolOf(object)
		if err != nil {
			wrongPools[object.GetName()] = unreadable(err)
		} else if hold(manifest.Pools, object) {
			pools = append(pools, pool)
		}
	}
	decision, err := s.apply(ctx, trees, pools)
	if err != nil {
		return errors.Join(append(problems, err)...)
	}
	for name, verdict := range wrongTrees { // each is independent
		decision.Trees[name] = verdict
	}
	for name, verdict := range wrongPools { // each is independent
		decision.Pools[name] = verdict
	}
	s.overlaps(decision)
	problems = append(problems, s.release(ctx, manifest.Pools, poolObjects, decision.ReleasedPools), s.release(ctx, manifest.Trees, treeObjects, decision.ReleasedTrees))
	problems = append(problems, s.writePools(ctx, poolObjects, pools, decision), s.writeTrees(ctx, treeObjects, decision))
	return errors.Join(problems...)
}

// apply puts into force what the objects mean.
func (s *Steward) apply(ctx context.Context, trees []manifest.Tree, pools []manifest.Pool) (*manifest.Decision, error) {
	decision := manifest.Decide(s.known(s.Server.Trees()), trees, pools)
	managed := &server.Managed{By: User, Pools: map[string]map[string]string{}}
	for place, object := range decision.Managed { // each is independent
		if managed.Pools[place.Tree] == nil {
			managed.Pools[place.Tree] = map[string]string{}
		}
		kind := "weirpool/"
		if place.Pool == "" {
			kind = "weirtree/"
		}
		managed.Pools[place.Tree][place.Pool] = kind + object
	}
	s.Server.SetManaged(managed)
	if len(decision.Put)+len(decision.Remove) == 0 {
		return decision, nil
	}
	asked, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	caller := server.Caller{User: User, Command: "apply_pools", Object: "//sys/pool_trees"}
	err := s.Server.EditTrees(asked, caller, func(now *server.Trees) (*server.Trees, error) {
		decision = manifest.Decide(s.known(now), trees, pools) // as of now, since edits follow each other
		next := now
		for _, name := range decision.Remove {
			next = next.Remove(name)
		}
		for _, put := range decision.Put {
			next = next.Put(put.Name, put.Tree)
		}
		if next.Default != decision.Default {
			changed := *next
			changed.Default = decision.Default
			next = &changed
		}
		return next, nil
	})
	if err == nil {
		s.Log.Info("pools were changed by custom resources", "trees", len(decision.Put), "removed", len(decision.Remove))
		return decision, nil
	}
	if errors.Is(err, server.ErrNotLeading) || errors.Is(err, server.ErrOverloaded) || ctx.Err() != nil {
		return nil, err
	}
	refused := manifest.Verdict{Reason: "Refused", Message: err.Error()}
	for _, t := range trees {
		decision.Trees[t.Name] = refused
	}
	for _, p := range pools {
		if decision.Pools[p.Object].Accepted {
			decision.Pools[p.Object] = refused
		}
	}
	decision.ReleasedPools, decision.ReleasedTrees = nil, nil
	return decision, nil
}

// known is what there is beside the objects.
func (s *Steward) known(trees *server.Trees) manifest.Known {
	view := s.Server.View()
	k := manifest.Known{Default: trees.Default, Labels: s.Labels, Reading: func(tree string) pooltree.Options { return trees.Options(tree) }}
	for i := range trees.List {
		k.Trees = append(k.Trees, manifest.Standing{Name: trees.List[i].Name, Tree: trees.List[i].Tree})
	}
	k.Operations = func(tree, pool string) int {
		if t, there := view.Tree(tree); there {
			if p, there := t.Pool(pool); there {
				return p.Operations
			}
		}
		return 0
	}
	return k
}

// overlaps says of trees whose filter is not in force that a node would be in two trees, and of the other tree too.
func (s *Steward) overlaps(decision *manifest.Decision) {
	trees := s.Server.Trees()
	for i := range trees.List {
		tree := &trees.List[i]
		if _, held := tree.HeldFilter(); !held {
			continue
		}
		stored := tree.Tree.Settings().NodesFilter.Value()
		for _, node := range sortedNodes(s.Server.Nodes()) {
			if node.Tree == tree.Name || node.Tree == "" || !stored.Matches(func(tag string) bool { return slices.Contains(node.Tags, tag) }) {
				continue
			}
			if _, has := decision.Managed[manifest.Place{Tree: tree.Name}]; has && decision.Trees[tree.Name].Accepted {
				decision.Trees[tree.Name] = manifest.Verdict{Reason: manifest.ReasonOverlap, Message: fmt.Sprintf(
					"the node %s is in the tree %q and would be in this one too, so this one keeps the nodes that it has", node.Name, node.Tree)}
			}
			if _, has := decision.Managed[manifest.Place{Tree: node.Tree}]; has && decision.Trees[node.Tree].Accepted {
				decision.Trees[node.Tree] = manifest.Verdict{Accepted: true, Reason: manifest.ReasonOverlap, Message: fmt.Sprintf(
					"the tree %q also chooses the node %s, which stays here", tree.Name, node.Name)}
			}
			break
		}
	}
}

func sortedNodes(list []*server.Node) []*server.Node {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *server.Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

// release removes the finalizer from objects.
func (s *Steward) release(ctx context.Context, plural string, objects []*unstructured.Unstructured, names []string) error {
	var problems []error
	for _, object := range objects {
		if object.GetDeletionTimestamp() == nil || !slices.Contains(names, object.GetName()) {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return name == manifest.Finalizer })
		problems = append(problems, s.setFinalizers(ctx, plural, object, left))
	}
	return errors.Join(problems...)
}

// setFinalizers replaces the finalizers of an object as it was read. Losing to another writer is no error: the object's next
// version brings another round.
func (s *Steward) setFinalizers(ctx context.Context, plural string, object *unstructured.Unstructured, names []string) error {
	if names == nil {
		names = []string{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": names}})
	if err != nil {
		return err
	}
	return s.patch(ctx, plural, object.GetName(), patch)
}

func (s *Steward) patch(ctx context.Context, plural, name string, patch []byte, subresources ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.Client.Resource(resourceOf(plural)).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// conditionsIn returns the conditions that an object has.
func conditionsIn(object *unstructured.Unstructured) (list []manifest.Condition) {
	status, _, _ := unstructured.NestedMap(object.Object, "status") // an unreadable one is replaced
	text, err := json.Marshal(status["conditions"])
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	return list
}

// writeStatus replaces the status of an object.
func (s *Steward) writeStatus(ctx context.Context, plural, name string, status any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return s.patch(ctx, plural, name, patch, "status")
}

func (s *Steward) writePools(ctx context.Context, objects []*unstructured.Unstructured, pools []manifest.Pool, decision *manifest.Decision) error {
	var problems []error
	view, now := s.Server.View(), time.Now()
	places := map[string]manifest.Pool{}
	for _, p := range pools {
		places[p.Object] = p
	}
	for _, object := range objects {
		verdict, judged := decision.Pools[object.GetName()]
		if !judged {
			continue
		}
		place := places[object.GetName()]
		tree, _ := view.Tree(place.Tree)
		var pool *core.Pool
		if tree != nil {
			pool, _ = tree.Pool(place.Name)
		}
		status := manifest.PoolStatusOf(tree, pool)
		status.Conditions = manifest.Conditions(verdict, warningOf(tree, pool), object.GetGeneration(), conditionsIn(object), now)
		last := s.poolsSeen[object.GetName()]
		if last.at.IsZero() || status.Differs(&last.status) && (now.Sub(last.at) >= statusPeriod || manifest.Differ(status.Conditions, last.status.Conditions)) {
			if err := s.writeStatus(ctx, manifest.Pools, object.GetName(), status); err != nil {
				problems = append(problems, err)
				continue
			}
			s.poolsSeen[object.GetName()] = written[manifest.PoolStatus]{status, now}
		}
	}
	return errors.Join(problems...)
}

func (s *Steward) writeTrees(ctx context.Context, objects []*unstructured.Unstructured, decision *manifest.Decision) error {
	var problems []error
	view, now := s.Server.View(), time.Now()
	for _, object := range objects {
		verdict, judged := decision.Trees[object.GetName()]
		if !judged {
			continue
		}
		tree, _ := view.Tree(object.GetName())
		status := manifest.TreeStatusOf(tree)
		var root *core.Pool
		if tree != nil {
			root = tree.Root()
		}
		status.Conditions = manifest.Conditions(verdict, warningOf(tree, root), object.GetGeneration(), conditionsIn(object), now)
		last := s.treesSeen[object.GetName()]
		if last.at.IsZero() || status.Differs(&last.status) && (now.Sub(last.at) >= statusPeriod || manifest.Differ(status.Conditions, last.status.Conditions)) {
			if err := s.writeStatus(ctx, manifest.Trees, object.GetName(), status); err != nil {
				problems = append(problems, err)
				continue
			}
			s.treesSeen[object.GetName()] = written[manifest.TreeStatus]{status, now}
		}
	}
	return errors.Join(problems...)
}

// warningOf returns the first problem that the last update had with a pool; with the root, any problem of the tree.
func warningOf(tree *core.Tree, pool *core.Pool) string {
	if tree == nil || pool == nil {
		return ""
	}
	for _, alert := range tree.Alerts {
		if pool == tree.Root() || slices.Contains(alert.Slots, pool.Slot) {
			return alert.Message
		}
	}
	return ""
}
