package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/guid"
)

// Options configure a server.
type Options struct {
	Store *store.Store
	// Blobs keeps contents of files that are too large for the store. Without it, files are small.
	Blobs *blob.Store
	// Name identifies this process among all others. Address is where clients and
	// nodes reach it.
	Name    string
	Address string
	// Settings default to DefaultSettings if their UpdatePeriod is zero.
	Settings Settings
	// Derive computes the settings from what administrators have stored in the
	// registry. The server calls it when a term starts and when settings in the
	// registry have changed. It must not modify the registry. If it is nil,
	// Settings apply until Configure is called.
	Derive func(*Registry) Settings
	// TrustLoopback reports whether every process of this machine is root until the
	// first token exists. The server only warns about it.
	TrustLoopback bool
	// Recorder keeps journals of terms; nil: none is written.
	Recorder *recorder.Recorder
	// VaultKey seals secrets of operations in the store, VaultKeySize bytes. All schedulers of a cluster must have the same. Without it,
	// operations with secrets are refused.
	VaultKey []byte
	Log      *slog.Logger
}

// Server is a scheduler that leads or stands by. Its methods may be called from
// any goroutine.
type Server struct {
	store *store.Store
	blobs *blob.Store // nil if there is none
	// recorder keeps journals, nil if none is written.
	recorder *recorder.Recorder
	leases   leases // the store, for calls that only a leader makes
	name     string
	address  string
	log      *slog.Logger
	current  atomic.Pointer[Settings]
	derive   func(*Registry) Settings
	trusts   bool // see Options.TrustLoopback
	vaultKey []byte

	term          atomic.Pointer[term]
	leader        atomic.Pointer[store.Leader]
	standing      atomic.Pointer[string] // see Standing
	held          atomic.Pointer[[]HeldNode]
	managed       atomic.Pointer[Managed] // see SetManaged
	sections      atomic.Uint64           // see SectionsVersion
	began         time.Time
	leaseDeadline atomic.Int64  // nanoseconds after began; see Leading
	led           chan struct{} // closed when this server leads for the first time
	loaded        atomic.Bool   // see Loaded
	ledOnce       sync.Once
	epochFloor    int64 // the latest epoch that nodes have seen; only Run and its term use it

	editing       chan struct{} // full while a caller changes the configuration of pools
	charging      chan struct{} // full while a caller makes a user use a content
	fetching      chan struct{} // full while nodes fetch as many pieces as they may at a time
	artifacts     artifactUploads
	specs         map[int32]*readSpec // specifications that Run has read while it stood by; only Run uses them
	copied        *standbyCopy        // what Run has read while it stands by, nil if nothing; only Run uses it
	trees         atomic.Pointer[Trees]
	view          atomic.Pointer[View]
	operations    *directory[guid.ID, *Operation]
	numbers       *directory[core.OperationID, *Operation]
	aliases       *directory[string, *Operation]
	jobs          *directory[core.JobID, *Job]
	nodes         *directory[string, *Node]
	registrations *directory[string, []uint64]
	watchers      watchers
	live          liveBoard
	registry      *Registry
	chronicle     chronicle
	books         books
	budgets       atomic.Pointer[[]BudgetState] // as of the last minute; see BudgetParts
	alerts        alertBoard
	glass         glassCase
	past          past
	forecasts     forecasts
	analyses      *analyses
	counters      counters
}

// New returns a server. It does nothing until Run is called.
func New(o Options) *Server {
	s := &Server{
		store: o.Store, blobs: o.Blobs, recorder: o.Recorder, leases: o.Store, name: o.Name, address: o.Address, log: o.Log, derive: o.Derive, trusts: o.TrustLoopback, vaultKey: o.VaultKey, led: make(chan struct{}),
		began: time.Now(), editing: make(chan struct{}, 1), charging: make(chan struct{}, 1), fetching: make(chan struct{}, maxFetches), specs: map[int32]*readSpec{},
		operations: newDirectory[guid.ID, *Operation](), numbers: newDirectory[core.OperationID, *Operation](),
		aliases: newDirectory[string, *Operation](), jobs: newDirectory[core.JobID, *Job](),
		nodes: newDirectory[string, *Node](), registrations: newDirectory[string, []uint64](), registry: newRegistry(),
		forecasts: forecasts{wake: make(chan struct{}, 1)}, glass: glassCase{making: make(chan struct{}, 1)}, analyses: newAnalyses(),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if o.Settings.UpdatePeriod == 0 {
		o.Settings = DefaultSettings()
	}
	s.current.Store(&o.Settings)
	s.trees.Store(&Trees{})
	s.view.Store(&View{Picture: &core.Picture{}})
	s.leader.Store(&store.Leader{})
	return s
}

func (s *Server) settings() *Settings { return s.current.Load() }

// Settings returns the settings in force.
func (s *Server) Settings() Settings { return *s.settings() }

// Configure replaces the settings while the server runs. Requests served afterwards
// use the new ones.
func (s *Server) Configure(settings Settings) { s.current.Store(&settings) }

// obeySettings passes the settings to the core if they have changed.
func (t *term) obeySettings() {
	settings := t.server.settings()
	if settings == t.obeyed {
		return
	}
	t.obeyed = settings
	if err := t.apply(&core.SettingsInput{Settings: settings.Core}); err != nil {
		t.server.log.Error("the core refuses the settings and keeps the previous ones", "error", err)
	}
	t.obeyTemplates(settings.Templates)
}

// obeyTemplates changes the trees if other templates hold for them. Nothing is stored: templates are
// settings.
func (t *term) obeyTemplates(templates pooltree.Templates) {
	if t.trees == nil || pooltree.SameTemplates(t.trees.templates, templates) {
		return
	}
	trees, problems := t.trees.withTemplates(templates)
	named, err := t.slots.arrange(trees, t.hasOperations)
	if err == nil {
		err = t.apply(&core.TreesInput{Trees: named, Default: trees.knownDefault()})
	}
	if err != nil {
		t.server.log.Error("the core refuses the templates of pool trees and keeps the previous ones", "error", err)
		return
	}
	t.slots.commit(named)
	t.trees = trees
	t.open.published = append(t.open.published, func(store.Receipt) {
		t.server.trees.Store(trees)
		t.server.alerts.untemplated = problems
		t.server.alerts.alertTrees(trees)
	})
}

// Rederive recomputes the settings from the registry and applies them. Call it when Derive would return others.
func (s *Server) Rederive() {
	if s.derive != nil {
		s.Configure(s.derive(s.registry))
	}
}

// newID returns a random identifier.
func (s *Server) newID(kind guid.Kind) guid.ID {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	return guid.New(kind, binary.LittleEndian.Uint64(bytes[:8]), binary.LittleEndian.Uint64(bytes[8:]))
}

// Run leads and stands by in turn until ctx is cancelled.
func (s *Server) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		lease, err := s.leases.AcquireAbove(ctx, s.epochFloor, s.name, s.address, s.settings().LeaseTTL)
		var held *store.HeldError
		switch {
		case errors.As(err, &held):
			s.leader.Store(&held.Leader)
			s.standUp()
			s.alerts.reset() // they are the leader's now
			s.standBy(ctx, held.Leader.Remaining)
			continue
		case err != nil:
			if ctx.Err() != nil {
				return nil
			}
			s.standDown(fmt.Sprintf("the store does not report the leader: %v", err))
			s.log.Warn("cannot request the lease", "error", err)
			s.pause(ctx, s.settings().StandbyPoll)
			continue
		}
		s.lead(ctx, lease)
	}
	return nil
}

// pause waits.
func (s *Server) pause(ctx context.Context, period time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(period):
	}
}

// lead runs a term from start to end. It renews the lease from the start, because
// loading the state may take longer than the lease lasts.
func (s *Server) lead(ctx context.Context, lease store.Lease) {
	s.copied = nil
	s.leader.Store(&store.Leader{Holder: s.name, Address: s.address, Epoch: lease.Epoch, Alive: true})
	s.answerUntil(lease.Deadline)
	s.standUp()
	reign, end := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { s.renew(reign, lease, end) })
	began := time.Now()
	t, err := s.newTerm(reign, lease)
	if cause := context.Cause(reign); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		level := slog.LevelError
		if isTemporary(err) || errors.Is(err, store.ErrFenced) || ctx.Err() != nil {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "cannot start a term", "epoch", lease.Epoch, "error", err)
		s.alerts.raise(AlertRevival, err.Error())
	} else {
		s.log.Info("leading", "epoch", lease.Epoch, "operations", len(t.operations), "awaited_nodes", len(*s.held.Load()), "took", time.Since(began))
		err = t.run(reign)
		s.log.Info("no longer leading", "epoch", lease.Epoch, "reason", err)
	}
	end(err)
	renewing.Wait()
	if errors.Is(err, store.ErrFenced) {
		if s.holdsLease() {
			s.log.Error("the store has given the lease to another scheduler before it ended", "epoch", lease.Epoch)
		}
		return
	}
	if errors.Is(err, errLapsed) { // there is no lease to release, and the store does not answer
		s.pause(ctx, s.settings().StandbyPoll)
		return
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.settings().LeaseTTL)
	defer cancel()
	if err := s.leases.Release(release, lease); err != nil && !errors.Is(err, store.ErrFenced) {
		s.log.Warn("cannot release the lease", "error", err)
	}
	if ctx.Err() == nil {
		s.pause(ctx, s.settings().StandbyPoll)
	}
}

// standBy brings what readers see up to date, then waits for a poll period, or until the lease
// of the leader ends if that is sooner.
func (s *Server) standBy(ctx context.Context, remaining time.Duration) {
	began := time.Now()
	soon, cancel := context.WithTimeout(ctx, s.settings().LeaseTTL)
	revision, err := s.store.Revision(soon)
	cancel()
	if err == nil && revision != s.view.Load().Revision {
		err = s.follow(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot read the leader's changes", "error", err)
	}
	s.pause(ctx, max(min(s.settings().StandbyPoll, remaining-time.Since(began)), time.Millisecond))
}

// publishTerm makes the term visible to requests; nil means that there is none.
func (s *Server) publishTerm(t *term) {
	s.term.Store(t)
	if t == nil {
		s.watchers.notifyAll()
		s.live.endAll()
		return
	}
	s.ledOnce.Do(func() { close(s.led) })
}

// Led returns a channel that is closed when this server leads for the first time.
func (s *Server) Led() <-chan struct{} { return s.led }

// Leader returns the leader, as far as this server knows.
func (s *Server) Leader() store.Leader { return *s.leader.Load() }

// Loaded reports whether this server has state to read: it has led, or has a copy
// as a standby.
func (s *Server) Loaded() bool { return s.loaded.Load() }

// Store returns the store, for queries about ended operations and jobs.
func (s *Server) Store() *store.Store { return s.store }

// Address returns the address at which clients reach this server.
func (s *Server) Address() string { return s.address }

// Trees returns the current configuration of pool trees.
func (s *Server) Trees() *Trees { return s.trees.Load() }

// Nodes returns all known nodes, in no particular order.
func (s *Server) Nodes() []*Node { return s.nodes.all() }

// Node returns the node with this name.
func (s *Server) Node(name string) (*Node, bool) { return s.nodes.get(name) }

// Alerts returns the alerts that are raised now.
func (s *Server) Alerts() []Alert { return s.alerts.list() }

// SetAlert raises an alert about the process around the server, or clears it if the message is empty. A server that
// begins to stand by clears all alerts; repeat the call while the reason lasts.
func (s *Server) SetAlert(kind AlertKind, message string) { s.alerts.set(kind, message) }

func isTemporary(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull)
}
