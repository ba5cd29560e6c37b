package kube

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/node/workload"
)

// Caller calls the scheduler, as an agent does.
type Caller interface {
	Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error)
	Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error)
	Stream(ctx context.Context, first *nodev1.NodeFrame) (nodeproto.NodeStream, error)
	FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error)
}

// Options configure a driver.
type Options struct {
	Client kubernetes.Interface
	Caller Caller
	// Figures asks kubelets how much pods use; nil: that is not known. FiguresAlert shows what administrators should know about
	// that; an empty message withdraws it.
	Figures      Figures
	FiguresAlert func(message string)
	// Exec runs shells in the containers of jobs; nil: there are none.
	Exec Exec
	// Term returns the epoch in which this scheduler leads, zero if it does not, and how much of its lease is left.
	Term func() (epoch uint64, left time.Duration)
	// Probe asks the API server whether it is there.
	Probe func(ctx context.Context) error
	// Picture are the settings of pictures; the driver fills in the epoch and the random numbers.
	Picture picture.Options
	// Guests makes the driver schedule pods of others; nil: it does not.
	Guests *Guests
	// MaxWrites is the greatest number of writes per second.
	MaxWrites float64
	// Alert shows what administrators should know; an empty message withdraws it.
	Alert func(message string)
	Log   *slog.Logger
}

const (
	probePeriod  = time.Second
	probeTimeout = 3 * time.Second
	// alertAfter is how long the API server may be away before administrators are told.
	alertAfter = 30 * time.Second
	// standingPause is how often figures of the picture are taken.
	standingPause = time.Second
	// termPause is how often a standby looks whether it leads.
	termPause = 100 * time.Millisecond
)

// Driver drives one Kubernetes cluster.
type Driver struct {
	Options
	pods, nodes cache.SharedIndexInformer
	lives       lives
	tally       *tally
	current     atomic.Pointer[term] // nil while this scheduler does not lead
	around      *surroundings        // nil without Guests
}

// New returns a driver. It does nothing until Run is called.
func New(o Options) (*Driver, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTransform(trim))
	d := &Driver{Options: o, tally: newTally(), pods: factory.Core().V1().Pods().Informer(), nodes: factory.Core().V1().Nodes().Informer()}
	for name, informer := range map[string]cache.SharedIndexInformer{"pods": d.pods, "nodes": d.nodes} {
		err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			d.Log.Debug("a watch of the API server ended", "resource", name, "error", err)
		})
		if err != nil {
			return nil, err
		}
	}
	if o.Guests != nil {
		d.around = newSurroundings(factory)
	}
	return d, nil
}

// trim drops what nobody reads, so that a pod costs little memory.
func trim(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
		if !workload.IsOurs(o) {
			o.Spec.Affinity, o.Spec.Tolerations, o.Spec.TopologySpreadConstraints = workload.Repelling(o.Spec.Affinity), nil, nil
		}
		o.Spec.Volumes = slices.DeleteFunc(o.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil && v.Ephemeral == nil })
		for _, list := range [][]corev1.Container{o.Spec.Containers, o.Spec.InitContainers} {
			for i := range list {
				c := &list[i]
				list[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy, ResizePolicy: c.ResizePolicy, Ports: c.Ports}
			}
		}
	case *corev1.Node:
		o.ManagedFields = nil
		o.Status.Images, o.Status.VolumesAttached, o.Status.VolumesInUse = nil, nil, nil
	}
	return object, nil
}

// Run drives the cluster whenever this scheduler leads, until ctx is cancelled.
func (d *Driver) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers.Go(func() { d.pods.RunWithContext(ctx) })
	workers.Go(func() { d.nodes.RunWithContext(ctx) })
	if d.around != nil {
		for _, informer := range d.around.all() {
			workers.Go(func() { informer.RunWithContext(ctx) })
		}
	}
	for ctx.Err() == nil {
		if epoch, _ := d.Term(); epoch != 0 {
			if err := d.lead(ctx, epoch); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(termPause):
		}
	}
	return nil
}

// term is one period in which this scheduler leads. One goroutine owns it; others post events.
type term struct {
	*Driver
	epoch   uint64
	picture *picture.Picture
	ctx     context.Context
	writer  *writer
	workers sync.WaitGroup
	calls   map[string]context.CancelFunc // the call in progress of each node
	// measuring has a place for each kubelet that is asked at a time; missing counts answers that failed, in a row.
	measuring chan struct{}
	missing   int
	owners    *owners

	mutex  sync.Mutex
	events []func(now time.Time)
	news   chan struct{}
}

// post queues an event for the owner.
func (t *term) post(event func(now time.Time)) {
	t.mutex.Lock()
	t.events = append(t.events, event)
	t.mutex.Unlock()
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// taken returns the events that have been posted.
func (t *term) taken() []func(now time.Time) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	events := t.events
	t.events = nil
	return events
}

// Pods returns the pods of others that Weir schedules: see [picture.Picture.Pods]. While this scheduler does not lead it
// knows none.
func (d *Driver) Pods(ctx context.Context, namespace, name string) ([]picture.Pod, error) {
	t := d.current.Load()
	if t == nil {
		return nil, nil
	}
	answer := make(chan []picture.Pod, 1)
	t.post(func(now time.Time) { answer <- t.picture.Pods(now, namespace, name) })
	select {
	case list := <-answer:
		return list, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.ctx.Done():
		return nil, nil
	}
}

// lead drives the cluster until the term ends.
func (d *Driver) lead(ctx context.Context, epoch uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	o := d.Picture
	o.Epoch, o.Random = epoch, rand.Float64
	t := &term{Driver: d, epoch: epoch, picture: picture.New(o, time.Now()), ctx: ctx, calls: map[string]context.CancelFunc{}, news: make(chan struct{}, 1), measuring: make(chan struct{}, measuring)}
	t.writer = newWriter(d.Client, d.Caller.FetchContent, d.MaxWrites, func() time.Duration {
		current, left := d.Term()
		if current != epoch {
			return 0
		}
		return left
	})
	defer t.workers.Wait()
	defer cancel()
	d.current.Store(t)
	defer d.current.Store(nil)
	defer d.tally.stands(picture.Standing{}) // of this leader
	t.writer.tally = d.tally
	t.workers.Go(func() { t.writer.run(ctx) })
	t.workers.Go(func() { t.probe(ctx) })
	t.workers.Go(func() { t.findFiles(ctx) })
	if d.Guests != nil {
		t.owners = newOwners(t)
		t.workers.Go(func() { t.owners.run(ctx) })
		t.workers.Go(func() { t.watchGroups(ctx) })
	}
	known, leave, err := t.watchAround()
	if err != nil {
		return err
	}
	defer leave()
	listed, stop, err := t.watch()
	if err != nil {
		return err
	}
	defer stop()
	synced := func() bool { return known() && listed() }
	t.Log.Info("driving Kubernetes", "epoch", epoch)
	t.loop(ctx, synced)
	return nil
}

// watch posts what the watches show: first everything there is. synced reports whether that is done.
func (t *term) watch() (synced func() bool, stop func(), err error) {
	nodes, err := t.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { t.nodeSeen(o) },
		UpdateFunc: func(_, o any) { t.nodeSeen(o) },
		DeleteFunc: func(o any) {
			if node, ok := last(o).(*corev1.Node); ok {
				t.post(func(now time.Time) { t.picture.NodeGone(now, node.Name) })
			}
		},
	})
	if err != nil {
		return nil, nil, err
	}
	pods, err := t.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { t.podSeen(o) },
		UpdateFunc: func(_, o any) { t.podSeen(o) },
		DeleteFunc: func(o any) {
			if pod, ok := last(o).(*corev1.Pod); ok {
				t.post(func(now time.Time) { t.picture.PodGone(now, pod) })
			}
		},
	})
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = t.nodes.RemoveEventHandler(nodes) // it fails only for a handler that was never added
		_ = t.pods.RemoveEventHandler(pods)
	}
	return func() bool { return nodes.HasSynced() && pods.HasSynced() }, stop, nil
}

// last returns the last known state of a deleted object: a watch that was cut may have missed its end.
func last(object any) any {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return object
}

func (t *term) nodeSeen(object any) {
	if node, ok := object.(*corev1.Node); ok {
		t.post(func(now time.Time) { t.picture.NodeSeen(now, node) })
	}
}

func (t *term) podSeen(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		t.post(func(now time.Time) { t.picture.PodSeen(now, pod) })
	}
}

// loop owns the picture until the term ends.
func (t *term) loop(ctx context.Context, synced func() bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var ticked, stood time.Time
	var sections uint64
	begun := false
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-t.news:
		case <-timer.C:
		}
		complete := synced() // before the events are taken: whatever it covers has been posted
		now := time.Now()
		for _, event := range t.taken() {
			event(now)
		}
		if complete && !begun {
			begun = true
			t.picture.Synced(now)
		}
		if now.Sub(ticked) >= picture.TickPeriod {
			ticked = now
			if epoch, _ := t.Term(); epoch != t.epoch {
				t.Log.Info("no longer driving Kubernetes", "epoch", t.epoch)
				return
			}
			if t.Guests != nil {
				if version := t.Guests.Operations.SectionsVersion(); version != sections {
					sections = version
					t.picture.TasksChanged()
				}
			}
			t.picture.Tick(now)
			if now.Sub(stood) >= standingPause {
				stood = now
				t.tally.stands(t.picture.Standing())
			}
		}
		t.carryOut(t.picture.Take(now))
		timer.Reset(t.picture.Pause())
	}
}

// carryOut does what the picture wants.
func (t *term) carryOut(effects picture.Effects) {
	for _, note := range effects.Notes {
		t.Log.Warn(note)
	}
	if len(effects.Waits) > 0 {
		t.tally.waited(effects.Waits)
	}
	for i := range effects.Writes {
		w := effects.Writes[i]
		t.writer.submit(w, func(outcome *picture.Outcome) {
			if outcome.Kind == picture.Temporary {
				t.Log.Debug("the API server did not carry out a write", "write", w.Kind, "pod", w.Name, "error", outcome.Message)
			}
			t.post(func(now time.Time) { t.picture.Written(now, &w, outcome) })
		})
	}
	for i := range effects.Calls {
		t.call(&effects.Calls[i])
	}
	if t.Figures != nil {
		for _, m := range effects.Measures {
			t.workers.Go(func() { t.measure(m) })
		}
	}
	for i := range effects.Streams {
		t.workers.Go(func() { t.serve(&effects.Streams[i]) })
	}
	if t.Guests == nil {
		return
	}
	if effects.Ask != nil {
		t.inquire(effects.Ask)
	}
	if len(effects.Why) > 0 {
		t.askWhy(effects.Why)
	}
	if owners := effects.Owners; len(owners) > 0 {
		t.workers.Go(func() {
			for _, a := range owners {
				select {
				case t.owners.asks <- a:
				case <-t.ctx.Done():
					return
				}
			}
		})
	}
}

// call sends a request of a virtual node to the scheduler, in place of the node's previous one.
func (t *term) call(c *picture.Call) {
	if cancel := t.calls[c.Node]; cancel != nil {
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.ctx, c.Timeout)
	t.calls[c.Node] = cancel
	register, heartbeat := c.Register, c.Heartbeat
	t.workers.Go(func() {
		defer cancel()
		if register != nil {
			response, err := t.Caller.Register(ctx, register)
			t.post(func(now time.Time) { t.picture.Registered(now, register, response, err) })
			return
		}
		response, err := t.Caller.Heartbeat(ctx, heartbeat)
		t.post(func(now time.Time) { t.picture.Reported(now, heartbeat, response, err) })
	})
}

// probe watches whether the API server is there.
func (t *term) probe(ctx context.Context) {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	var away time.Time
	for {
		t.tally.watched("pods", t.pods.LastSyncResourceVersion(), time.Now())
		t.tally.watched("nodes", t.nodes.LastSyncResourceVersion(), time.Now())
		asked, cancel := context.WithTimeout(ctx, probeTimeout)
		err := t.Probe(asked)
		cancel()
		if ctx.Err() != nil {
			return
		}
		switch now := time.Now(); {
		case err == nil && !away.IsZero():
			away = time.Time{}
			t.Log.Info("the API server of Kubernetes is back")
			t.Alert("")
			t.post(func(now time.Time) { t.picture.SetBlind(now, false) })
		case err != nil && away.IsZero():
			away = now
			t.Log.Warn("the API server of Kubernetes is away: nothing starts, and nothing is given up", "error", err)
			t.post(func(now time.Time) { t.picture.SetBlind(now, true) })
		case err != nil && now.Sub(away) >= alertAfter:
			t.Alert(fmt.Sprintf("the API server of Kubernetes has been away since %s: %v", away.UTC().Format(time.RFC3339), err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
