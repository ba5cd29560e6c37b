package agent

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/node/cache"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// Caller calls the scheduler; *nodeproto.Client implements it.
type Caller interface {
	Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error)
	Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error)
	Upload(ctx context.Context, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error)
	Stream(ctx context.Context, first *nodev1.NodeFrame) (nodeproto.NodeStream, error)
	FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error)
	UploadArtifacts(ctx context.Context, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error)
}

// Options configure an agent.
type Options struct {
	Caller      Caller
	Description *nodev1.NodeDescription
	// Directory holds all state that must survive the agent.
	Directory string
	// Proxy is the command that runs a job proxy; the agent appends the job's directory.
	Proxy []string
	// Supervisor is the command that runs the supervisor of all jobs; the agent appends its directory. Unset: each job
	// has a proxy of its own.
	Supervisor []string
	Isolation  Isolation
	GPUs       GPUs
	Images     Images
	Check      Check
	// Files are the directories whose files jobs may name in file_paths.
	Files []string
	// NoShells refuses shells in jobs to every user.
	NoShells bool
	// CacheSize is the most that the node keeps of the files of the tree that its jobs have used.
	CacheSize int64
	Driver    cgroup.Driver
	Rules     Rules
	// Watermark is memory that the node has beyond what its description offers. The scheduler does not allocate it, but
	// jobs may grow into it.
	Watermark int64
	// Pace overrides the scheduler's settings for reports; zero fields override nothing.
	Pace Pace
	Log  *slog.Logger
	// Replace takes over the node's name from another running agent.
	Replace bool
	// Alerts are reported to the scheduler, for example why there are no control groups.
	Alerts []string
	// MoreAlerts, if set, returns alerts that come and go.
	MoreAlerts func() []string
}

// Pace is how a node reports where it overrides the scheduler's settings.
type Pace struct {
	Period, Splay, BackoffMin, BackoffMax, CallTimeout time.Duration
	BackoffFactor                                      float64
}

// over applies the node's overrides to the scheduler's settings.
func (p *Pace) over(s nodeproto.Settings) nodeproto.Settings {
	prefer := func(own time.Duration, into *time.Duration) {
		if own > 0 {
			*into = own
		}
	}
	prefer(p.BackoffMin, &s.BackoffMin)
	prefer(p.BackoffMax, &s.BackoffMax)
	prefer(p.CallTimeout, &s.CallTimeout)
	if p.BackoffFactor >= 1 {
		s.BackoffFactor = p.BackoffFactor
	}
	if p.Period > 0 { // the scheduler's splay fits its own period
		s.HeartbeatPeriod, s.HeartbeatSplay = p.Period, p.Splay
	}
	s.BackoffMax = max(s.BackoffMax, s.BackoffMin)
	return s
}

// Rules are what the node does about jobs that use more than they were given.
type Rules struct {
	// Ahead is how far the request of a growing job is kept above its usage.
	Ahead int64
	// WatchdogPeriod is how often a proxy checks the memory of its job.
	WatchdogPeriod time.Duration
	// AdjustmentPeriod is the interval between checks whether jobs hold more than the node has; MemoryPatience and
	// CPUPatience are how long they may.
	AdjustmentPeriod            time.Duration
	MemoryPatience, CPUPatience time.Duration
	// AbortOnOverdraft aborts every job that uses more than its reserve, even if there is room.
	AbortOnOverdraft bool
	// IgnoreLimit lets jobs use more than the memory limit in their specifications.
	IgnoreLimit bool
	// OOMScoreAdj is the oom_score_adj of processes that use more than their reserves; zero leaves them as they are.
	OOMScoreAdj int
	// ProcessLimit bounds the processes of a job, threads included, per requested core; a started core counts as a
	// whole one.
	ProcessLimit int64
	// Disk sets when there is too little space for jobs.
	Disk DiskRules
	// KernelLimit lets the kernel kill a job whose memory grows by more than this above its limit before the proxy
	// notices.
	KernelLimit int64
}

// DefaultRules returns the defaults of the reference.
func DefaultRules() Rules {
	return Rules{
		Ahead: 100 << 20, WatchdogPeriod: time.Second, AdjustmentPeriod: 5 * time.Second,
		MemoryPatience: 5 * time.Minute, CPUPatience: 10 * time.Minute, ProcessLimit: 1000, KernelLimit: 256 << 20,
		Disk: DefaultDiskRules(),
	}
}

// processLimit is how many processes a job with this CPU limit, in hundredths of a core, may have: at least the limit
// of one core, and at most what the kernel can count.
func (r *Rules) processLimit(cpu int64) int64 {
	cores := max(1, (cpu+99)/100)
	if r.ProcessLimit > cgroup.MaxProcesses/cores {
		return cgroup.MaxProcesses
	}
	return r.ProcessLimit * cores
}

// Agent runs one node.
type Agent struct {
	Options
	root       string // of the job directories
	limits     resource.Amounts
	uids       *uidPool
	cache      *cache.Cache
	supervisor *jobproxy.Supervisor // nil without
	events     chan func()
	session    *nodeproto.NodeSession
	pace       nodeproto.Pace
	jobs       map[uint64]*job
	workers    sync.WaitGroup
	ctx        context.Context // is cancelled when the agent stops

	calling   *call     // the call to the scheduler in progress, nil if there is none
	hurried   time.Time // when the last report out of turn was sent
	failed    bool      // the last call failed: results wait for the next one
	next      time.Time // when the next call is due
	called    time.Time // when the last call started
	draining  bool
	queue     []queued // jobs that wait for room
	overSince overdrafts
	launches  chan struct{} // bounds how many proxies are being started
	uploads   chan struct{} // bounds how many jobs send large output
	health    health
	disk      diskWork
	gpus      gpuState
	checks    checkState
	streams   int // live connections to jobs
	images    imageState
	probing   time.Time   // when the disk probe in progress started; zero if none is
	heard     atomic.Bool // the scheduler answered the last call
	status    *nodev1.NodeStatus
}

// maxLaunches is how many proxies start at once: more only slow each other down.
const maxLaunches = 8

// New restores what the previous incarnation of the agent left: running jobs and results that are not acknowledged.
func New(ctx context.Context, o Options) (*Agent, error) {
	a := &Agent{
		Options: o, root: filepath.Join(o.Directory, "jobs"), limits: nodeproto.FromAmounts(o.Description.GetResources()),
		events: make(chan func(), 64), jobs: map[uint64]*job{}, launches: make(chan struct{}, maxLaunches),
		uploads: make(chan struct{}, maxUploads), uids: newUIDPool(o.Isolation.UIDs, sharedPlaces(o.Isolation.Level)),
		gpus: newGPUState(len(o.GPUs.Devices)),
	}
	a.Alerts = append(slices.Clip(a.Alerts), o.Isolation.alerts()...)
	if err := os.MkdirAll(a.root, 0o711); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	var err error
	if a.cache, err = cache.Open(filepath.Join(o.Directory, "files"), o.CacheSize); err != nil {
		return nil, err
	}
	id, err := agentID(filepath.Join(o.Directory, "agent"))
	if err != nil {
		return nil, err
	}
	o.Description.AgentId, o.Description.Isolation, o.Description.Streams = id, o.Isolation.message(), true
	incarnation, err := nextIncarnation(filepath.Join(o.Directory, "incarnation"))
	if err != nil {
		return nil, err
	}
	if len(o.Supervisor) > 0 {
		a.supervisor = jobproxy.NewSupervisor(o.Directory, o.Supervisor)
		ready, cancel := context.WithTimeout(ctx, supervisorPatience)
		defer cancel()
		if err := a.supervisor.Ensure(ready); err != nil { // before anything else touches the jobs
			return nil, err
		}
	}
	if err := a.openImages(); err != nil {
		return nil, err
	}
	restored, err := a.restore(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.clearRestored(); err != nil {
		return nil, err
	}
	a.session = nodeproto.NewNodeSession(o.Description, incarnation, restored)
	a.pace.Adopt(a.settings())
	return a, nil
}

// settings returns how the node reports: the scheduler's settings with the node's overrides.
func (a *Agent) settings() nodeproto.Settings { return a.Options.Pace.over(a.session.Settings()) }

// agentID returns the agent's name across restarts, which the agent chooses at its first start.
func agentID(name string) (string, error) {
	data, err := os.ReadFile(name)
	if id := strings.TrimSpace(string(data)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("agent id: %w", err)
	}
	var random [16]byte
	_, _ = cryptorand.Read(random[:]) // it never fails
	id := hex.EncodeToString(random[:])
	if err := os.WriteFile(name+".new", []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("agent id: %w", err)
	}
	return id, os.Rename(name+".new", name)
}

// nextIncarnation numbers this incarnation of the agent and stores the number.
func nextIncarnation(name string) (uint64, error) {
	var last uint64
	data, err := os.ReadFile(name)
	if err == nil {
		last, err = strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("incarnation: %w", err)
	}
	next := nodeproto.NextIncarnation(time.Now(), last)
	temporary := name + ".new"
	if err := os.WriteFile(temporary, []byte(strconv.FormatUint(next, 10)+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("incarnation: %w", err)
	}
	return next, os.Rename(temporary, name)
}

// Run runs the agent until ctx is cancelled. Jobs keep running.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.ctx = ctx
	for _, j := range a.jobs {
		if j.result == nil {
			a.watch(j)
		}
	}
	a.checkHealth()
	a.checkGPUs(time.Now())
	a.checkNode(time.Now())
	a.tendImages()
	a.tellNode()
	adjust := time.NewTicker(a.Rules.AdjustmentPeriod)
	defer adjust.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			a.workers.Wait()
			if a.supervisor != nil {
				a.supervisor.Close() // it ends when its last job has ended
			}
			return nil
		case event := <-a.events:
			event()
		case <-adjust.C:
			a.adjust(time.Now())
			a.checkHealth()
			a.checkGPUs(time.Now())
			a.checkNode(time.Now())
			a.tendImages()
			a.tellNode()
		case <-timer.C:
		}
		timer.Reset(a.exchange())
	}
}

// post queues an event for the loop. It drops the event when the agent stops.
func (a *Agent) post(event func()) {
	select {
	case a.events <- event:
	case <-a.ctx.Done():
	}
}

// work runs a blocking function outside the loop.
func (a *Agent) work(f func()) { a.workers.Go(f) }

// urgentPause is the minimum time between two reports out of turn: the second one has the results of all jobs that end
// in between.
const urgentPause = 5 * time.Millisecond

// call is a call to the scheduler.
type call struct {
	cancel context.CancelFunc
	// mayWait reports whether the scheduler may hold the answer until there are orders. The agent gives the call up
	// when it has something to report.
	mayWait bool
}

// long is a wait that events end.
const long = time.Hour

// exchange calls the scheduler if a call is due, and returns how long to wait before the next check.
func (a *Agent) exchange() time.Duration {
	if a.calling != nil && !a.calling.mayWait {
		return long
	}
	now := time.Now()
	wait := a.next.Sub(now)
	_, registered := a.session.Registered()
	urgent := registered && !a.failed && a.session.Urgent()
	if urgent {
		wait = min(wait, a.hurried.Add(urgentPause).Sub(now))
	}
	if wait > 0 {
		return wait
	}
	if urgent {
		a.hurried = now
	}
	if a.calling != nil {
		a.calling.cancel()
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.settings().CallTimeout)
	c := &call{cancel: cancel}
	a.calling, a.called = c, now
	if !registered {
		request := a.session.Register()
		request.Replace = a.Replace
		a.work(func() {
			defer cancel()
			response, err := a.Caller.Register(ctx, request)
			a.post(func() { a.registered(request, response, err) })
		})
		return long
	}
	request, err := a.session.Heartbeat()
	if err != nil {
		cancel()
		a.Log.Error("a heartbeat cannot be made", "error", err)
		a.answered(request.GetSequence(), err)
		return time.Until(a.next)
	}
	request.HoldUs = nodeproto.Micros(a.pace.Hold(rand.Float64()))
	if len(request.GetReport().GetResults()) == 0 && !request.GetMore() {
		c.mayWait, a.next = true, now.Add(long)
	}
	a.work(func() {
		defer cancel()
		response, err := a.Caller.Heartbeat(ctx, request)
		a.post(func() {
			if a.calling == c { // otherwise the agent has given it up, and the next answer repeats this one
				a.reported(request, response, err)
			}
		})
	})
	return long
}

func (a *Agent) registered(request *nodev1.RegisterRequest, response *nodev1.RegisterResponse, err error) {
	if err == nil {
		err = a.session.Welcome(response)
	}
	if err != nil {
		a.answered(request.GetSequence(), err)
		return
	}
	a.calling, a.failed = nil, false
	a.heard.Store(true)
	a.pace.Adopt(a.settings())
	a.next = time.Now().Add(a.pace.Succeeded(nil, rand.Float64()))
	a.Log.Info("registered", "tree", response.GetTree(), "epoch", response.GetSession().GetEpoch())
}

func (a *Agent) reported(request *nodev1.HeartbeatRequest, response *nodev1.HeartbeatResponse, err error) {
	if err != nil {
		a.answered(request.GetSequence(), err)
		return
	}
	orders, err := a.session.Receive(time.Now(), response)
	if err != nil {
		a.answered(request.GetSequence(), err)
		return
	}
	a.calling, a.failed = nil, false
	a.heard.Store(true)
	a.pace.Adopt(a.settings())
	a.next = time.Now().Add(a.pace.Succeeded(response, rand.Float64()))
	a.carryOut(&orders)
}

// answered records that a call failed. The next call comes after a pause, or at once if the scheduler asks for a
// registration.
func (a *Agent) answered(sequence uint64, err error) {
	a.calling, a.failed = nil, true
	a.heard.Store(false)
	a.session.Failed(sequence, err)
	var refused *nodeproto.RefusedError
	if errors.As(err, &refused) && refused.Reason == nodev1.RefusalReason_REFUSAL_REASON_OLD_INCARNATION {
		a.replaced(refused.Message)
	}
	var register *nodeproto.MustRegisterError
	if errors.As(err, &register) {
		a.failed = false
		a.next = time.Now()
		return
	}
	pause := a.pace.AfterError(err, rand.Float64())
	a.next = time.Now().Add(pause)
	if a.ctx.Err() == nil {
		a.Log.Warn("the scheduler did not answer", "error", err, "again_in", pause.Round(time.Millisecond))
	}
}

// replaced aborts all jobs: the scheduler gave them up when another agent took over this node's name.
func (a *Agent) replaced(message string) {
	for _, number := range slices.Sorted(maps.Keys(a.jobs)) {
		a.order(number, jobproxy.Order{Command: jobproxy.Abort, Reason: "node_offline", Message: message})
	}
}

// releasePause is the minimum time between two calls if the second only reports that a job holds less.
const releasePause = 500 * time.Millisecond

// tellRelease reports out of turn that resources became free.
func (a *Agent) tellRelease() {
	if a.failed {
		return
	}
	if soon := a.called.Add(releasePause); soon.Before(a.next) {
		a.next = soon
	}
}

// Heard reports whether the node is registered and the scheduler answered the last call. It is safe for concurrent use.
func (a *Agent) Heard() bool { return a.heard.Load() }

// Drain makes the node refuse new jobs, or accept them again.
func (a *Agent) Drain(draining bool) {
	a.post(func() {
		a.draining = draining
		a.tellNode()
	})
}
