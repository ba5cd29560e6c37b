// Package app turns configurations into running processes: the scheduler, the agent of a node, a
// whole cluster on one machine. It opens stores and listeners, starts the rooms below and stops
// them in order. All decisions are theirs; app makes none.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/api"
	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/gate"
	"github.com/weirhq/weir/internal/control/notify"
	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/steward"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/store/history"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/kube"
	"github.com/weirhq/weir/internal/node/nodeproto"
)

// Scheduler is a scheduler with an open listener.
type Scheduler struct {
	Server *server.Server
	// Address is the address it listens at, URL the one that clients use.
	Address string
	URL     string
	// Key lets the nodes and the browser of this process's user act as root.
	Key *api.Key

	db       *store.Store
	blobs    *blob.Store
	http     *http.Server
	listener net.Listener
	local    net.Listener // nil if there is none
	log      *slog.Logger
	version  string
	begin    func() error // called when it leads for the first time
	reload   *reloader
	notifier *notify.Notifier
	kube     *kube.Driver     // nil without Kubernetes
	steward  *steward.Steward // nil without Kubernetes
	reviewer *kube.Reviewer   // nil if tokens of Kubernetes are not accepted
	// mayUse returns why a member of a group must not use a pool.
	mayUse func(ctx context.Context, name, group, tree, pool string) error
	// running is the configuration as it was read last.
	running atomic.Pointer[config.Scheduler]
}

// shutdownPatience is how long requests may take to end at shutdown.
const shutdownPatience = 5 * time.Second

// NewScheduler opens the store and the listener. Call Run to start it, or Close if it is not to be
// started. version is that of this program.
func NewScheduler(ctx context.Context, c *config.Scheduler, version string, log *slog.Logger) (*Scheduler, error) {
	url, err := storeURL(c)
	if err != nil {
		return nil, err
	}
	keys, err := openServerKeys(&c.TLS, c.DataDir.Value())
	if err != nil {
		return nil, err
	}
	vaultKey, err := openVaultKey(c)
	if err != nil {
		return nil, err
	}
	registries, err := registriesOf(&c.Images)
	if err != nil {
		return nil, err
	}
	targets, err := targetsOf(&c.Notifications)
	if err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	blobs, err := openBlobs(ctx, c, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("scheduler/files/storage: %w", err), db.Close())
	}
	listener, err := net.Listen("tcp", c.Listen.Value())
	if err != nil {
		return nil, errors.Join(err, blobs.Close(), db.Close())
	}
	s := &Scheduler{
		db: db, blobs: blobs, listener: listener, log: log, version: version, Address: listener.Addr().String(), Key: api.NewKey(), reload: newReloader(log),
	}
	if s.local, err = s.listenLocal(c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if c.TrustLoopback.Value() {
		log.Warn("trust_loopback is set: until the first token exists, every process on this machine, jobs included, acts as root")
	}
	s.running.Store(c)
	if keys != nil {
		s.reload.add("scheduler/tls", keys.read, keys.certificate, keys.key, keys.clientCA)
	}
	scheme := "http"
	if keys != nil {
		scheme = "https"
	}
	advertised := c.Advertise.Or(s.Address)
	s.URL = scheme + "://" + advertised
	recorder, err := s.openJournal(c)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Server = server.New(server.Options{
		Recorder: recorder, Store: db, Blobs: blobs, Name: holderName(s.Address, advertised), Address: advertised, Settings: settingsOf(c), Derive: s.derived,
		TrustLoopback: c.TrustLoopback.Value(), VaultKey: vaultKey, Log: log,
	})
	s.notifier = notify.New(targets, rulesOfNotifications(&c.Notifications), db, s.Server, log)
	if s.kube, err = s.openKubernetes(c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.http = gate.NewServer(s.handler(c, registries), keys.config(), nodeproto.Protocols(), log)
	return s, nil
}

// openJournal returns what keeps the journal, nil if none is kept.
func (s *Scheduler) openJournal(c *config.Scheduler) (*recorder.Recorder, error) {
	keep := c.Journal.Keep.Value()
	if keep == 0 {
		return nil, nil
	}
	return recorder.New(recorder.Options{
		Directory: filepath.Join(c.DataDir.Value(), "journal"), Build: s.version, Keep: keep, Size: c.Journal.Size.Value(), Log: s.log,
		Alert: func(message string) { s.Server.SetAlert(server.AlertJournal, message) },
	})
}

// listenLocal opens the socket for commands on this machine. A socket that the operator did not ask for is
// not worth a refusal to start: without it, everybody needs a token.
func (s *Scheduler) listenLocal(c *config.Scheduler) (net.Listener, error) {
	if path, given := c.Socket.Get(); given {
		listener, err := gate.ListenLocal(path)
		if err != nil {
			return nil, fmt.Errorf("scheduler/socket: %w", err)
		}
		return listener, nil
	}
	path := client.SocketPath(s.Address)
	listener, err := gate.ListenLocal(path)
	if err != nil {
		s.log.Warn("no socket: commands on this machine need a token", "error", err)
		return nil, nil
	}
	if err := gate.RemoveStale(filepath.Dir(path), time.Now()); err != nil {
		s.log.Warn("sockets of schedulers that were killed cannot be removed", "error", err)
	}
	return listener, nil
}

// holderName is the name under which this scheduler takes the lease. It is the same after a
// restart, so that a killed scheduler does not wait until its own lease expires: the process that
// listens at the address now is its only owner. If that is wrong, as with containers of equal
// names, the epoch still fences all but the last.
func holderName(listens, advertised string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.Join([]string{host, listens, advertised}, "/")
}

// storeURL is the address of the store; by default, SQLite in the data directory.
func storeURL(c *config.Scheduler) (string, error) {
	if url, given := c.Store.Get(); given {
		if file, given := c.StorePasswordFile.Get(); given {
			return withPassword(url, file)
		}
		return url, nil
	}
	directory := c.DataDir.Value()
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return "", fmt.Errorf("data_dir: %w", err)
	}
	return "sqlite:" + filepath.Join(directory, "weir.db"), nil
}

// openBlobs opens the blob storage; by default, a directory in the data directory. A scheduler whose store is elsewhere may
// have no data directory: it has no blob storage then.
func openBlobs(ctx context.Context, c *config.Scheduler, log *slog.Logger) (*blob.Store, error) {
	directory := c.DataDir.Value()
	if address, given := c.Files.Storage.Get(); given {
		return blob.Open(ctx, address, filepath.Join(directory, "uploads"))
	}
	blobs, err := blob.Directory(filepath.Join(directory, "blobs"))
	if err != nil && c.Store.IsSet() {
		log.Warn("no blob storage: files have at most 64 KiB", "error", err)
		return nil, nil
	}
	return blobs, err
}

// Run serves until ctx is cancelled, then stops in order: it releases the lease, waits for requests
// to end and closes the store.
func (s *Scheduler) Run(ctx context.Context) error {
	server.TradeMemory()
	leading, stopLeading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLeading()
	var workers sync.WaitGroup
	workers.Go(func() {
		s.reload.run(leading, func(wrong string) { s.Server.SetAlert(server.AlertFiles, wrong) })
	})
	workers.Go(func() { s.notify(leading) })
	workers.Go(func() {
		if err := s.Server.Run(leading); err != nil {
			s.log.Error("scheduler", "error", err)
		}
	})
	if s.kube != nil {
		workers.Go(func() { s.steward.Run(leading) })
		workers.Go(func() {
			if err := s.kube.Run(leading); err != nil {
				s.log.Error("kubernetes", "error", err)
			}
		})
	}
	served := make(chan error, 2)
	secure := s.http.TLSConfig != nil // serving sets it
	if s.local != nil {
		go func() { served <- s.http.Serve(s.local) }()
	}
	go func() {
		if secure {
			served <- s.http.ServeTLS(s.listener, "", "")
			return
		}
		served <- s.http.Serve(s.listener)
	}()
	if s.begin != nil {
		workers.Go(func() {
			select {
			case <-leading.Done():
			case <-s.Server.Led():
				if err := s.begin(); err != nil && leading.Err() == nil {
					s.log.Error("the cluster cannot be set up", "error", err)
				}
			}
		})
	}
	s.log.Info("listening", "address", s.Address, "url", s.URL)
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	stopLeading()
	workers.Wait()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
	defer cancel()
	if shutdown := s.http.Shutdown(patience); shutdown != nil {
		shutdown = errors.Join(shutdown, s.http.Close())
		s.log.Warn("requests did not end in time", "error", shutdown)
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.blobs.Close(), s.db.Close())
}

// Reload reads the files of keys again, and the configuration if there is a way to.
func (s *Scheduler) Reload() { s.reload.Reload() }

// OnReload sets the function that reads the configuration again when Reload is called. Settings that can
// change at run time do; if others have changed too, nothing does.
func (s *Scheduler) OnReload(read func() (*config.Scheduler, error)) {
	s.reload.add("the configuration", func() error {
		next, err := read()
		if err != nil {
			return err
		}
		changes, err := config.Runtime(&config.Config{Scheduler: *s.running.Load()}, &config.Config{Scheduler: *next})
		if err != nil {
			return err
		}
		for _, change := range changes {
			s.log.Info("a setting has changed", "setting", change.Option, "old", change.Old.String(), "new", change.New.String())
		}
		s.running.Store(next)
		s.Server.Rederive()
		return nil
	})
}

// onLead sets the function to call when the scheduler leads for the first time.
func (s *Scheduler) onLead(begin func() error) { s.begin = begin }

// Close closes what NewScheduler opened.
func (s *Scheduler) Close() error {
	problems := []error{s.listener.Close(), s.blobs.Close(), s.db.Close()}
	if s.local != nil {
		problems = append(problems, s.local.Close())
	}
	return errors.Join(problems...)
}

// settingsOf derives a server's settings from its configuration.
func settingsOf(c *config.Scheduler) server.Settings {
	s := server.DefaultSettings()
	s.Core.MaxOperations = c.Operations.MaxCount.Or(s.Core.MaxOperations)
	s.Core.HeartbeatPeriod = c.Nodes.HeartbeatPeriod.Or(s.Core.HeartbeatPeriod)
	s.Core.NodeTimeout = c.Nodes.UnseenToAbort.Or(s.Core.NodeTimeout)
	s.Core.OvercommitPatience = c.Nodes.OvercommitDuration.Or(s.Core.OvercommitPatience)
	s.Core.WaitTimeout = c.Nodes.WaitingTimeout.Or(s.Core.WaitTimeout)
	s.Core.NodeCheckPeriod = c.Periods.DemandSanityCheck.Or(s.Core.NodeCheckPeriod)
	stuck := &c.Operations.Stuck
	s.Core.StuckCheckPeriod = stuck.Period.Or(s.Core.StuckCheckPeriod)
	s.Core.Stuck.NoProgress = stuck.SafeTimeout.Or(s.Core.Stuck.NoProgress)
	s.Core.Stuck.LimitingAncestor = stuck.LimitingAncestorSafeTimeout.Or(s.Core.Stuck.LimitingAncestor)
	s.Core.Stuck.Attempts = uint64(stuck.MinAttempts.Or(int(s.Core.Stuck.Attempts)))
	if spare, given := c.Nodes.MinSpare.Get(); given {
		s.Core.MinSpare = spare.OrZero()
	}
	s.Core.Memory = memoryOf(&c.Memory)
	s.UpdatePeriod = c.Periods.FairShareUpdate.Or(s.UpdatePeriod)
	s.LeaseTTL = c.Leader.LeaseTTL.Or(s.LeaseTTL)
	s.RenewPeriod = c.Leader.RenewPeriod.Or(s.RenewPeriod)
	s.StandbyPoll = c.Leader.StandbyPollPeriod.Or(s.StandbyPoll)
	s.ConfirmationTimeout = c.Nodes.JobConfirmationTimeout.Or(s.ConfirmationTimeout)
	s.SnapshotPeriod = c.Periods.Snapshot.Or(s.SnapshotPeriod)
	s.ProgressPeriod = c.Periods.OperationsUpdate.Or(s.ProgressPeriod)
	s.HeartbeatPeriod = c.Nodes.HeartbeatPeriod.Or(s.HeartbeatPeriod)
	s.HeartbeatSplay = s.HeartbeatPeriod / 5
	s.OfflineAfter = c.Nodes.HeartbeatTimeout.Or(s.OfflineAfter)
	s.PoolChange = c.Operations.PoolChange.Or(s.PoolChange)
	s.RequirePools = c.Operations.RequirePools.Or(s.RequirePools)
	s.StarvationEvents = c.EventLog.DetailedStarvation.Or(s.StarvationEvents)
	s.AccountingLabels = slices.Sorted(slices.Values(c.Accounting.Labels.Value()))
	s.Prices, s.Budgets = c.Accounting.Prices.Value(), c.Accounting.Budgets.Value()
	s.GuaranteePatience = c.Accounting.GuaranteePatience.Or(s.GuaranteePatience)
	s.MaxBatch = c.Commit.MaxBatch.Or(s.MaxBatch)
	s.CommitWindow = c.Commit.Window.Or(s.CommitWindow)
	s.AnalysisWorkers = c.Analysis.Workers.Or(s.AnalysisWorkers)
	s.AnalysisCPU = c.Analysis.CPU.Or(s.AnalysisCPU)
	s.ForecastCPU = c.Analysis.Forecasts.Or(s.ForecastCPU)
	s.QuestionsPerMinute = c.Analysis.Questions.Or(s.QuestionsPerMinute)
	s.SoftQueue = c.Overload.SoftHeartbeats.Or(s.SoftQueue)
	s.Templates = c.Templates.Value()
	s.HardQueue = c.Overload.QueueLength.Or(s.HardQueue)
	s.RetentionPeriod = c.Retention.Period.Or(s.RetentionPeriod)
	s.Retention = store.Policy{
		OperationAge: c.Retention.Operations.Value(), JobAge: c.Retention.Jobs.Value(), OutputAge: c.Retention.Stderr.Value(),
		AuditAge: c.Retention.Audit.Value(), EventAge: c.EventLog.MaxAge.Value(), Events: int64(c.EventLog.MaxEvents.Value()),
		Tombstones: s.Retention.Tombstones,
		HistoryAge: map[history.Level]time.Duration{
			history.Seconds: c.History.Seconds.Value(), history.Minutes: c.History.Minutes.Value(), history.Hours: c.History.Hours.Value(),
		},
	}
	s.MaxFileSize = c.Files.MaxSize.Or(s.MaxFileSize)
	s.FileQuota = c.Files.Quota.Or(s.FileQuota)
	s.ContentGrace = c.Files.Grace.Or(s.ContentGrace)
	s.CollectPeriod = c.Files.Interval.Or(s.CollectPeriod)
	s.SelfCheckPeriod = c.SelfCheck.Period.Or(s.SelfCheckPeriod)
	if !c.SelfCheck.Enabled.Or(true) {
		s.SelfCheckPeriod = 0
	}
	return s
}

// memoryOf is the configuration of how memory reserves are learnt.
func memoryOf(c *config.MemoryDigest) *operation.MemoryConfig {
	m := operation.DefaultMemoryConfig()
	m.UserQuantile, m.ProxyQuantile = c.UserQuantile.Or(m.UserQuantile), c.ProxyQuantile.Or(m.ProxyQuantile)
	m.UserPrecision, m.OverdraftFactor = c.UserPrecision.Or(m.UserPrecision), c.OverdraftFactor.Or(m.OverdraftFactor)
	m.UserMultiplier, m.ProxyMultiplier = c.UserMultiplier.Or(m.UserMultiplier), c.ProxyMultiplier.Or(m.ProxyMultiplier)
	m.MultiplierFromSpec = c.MultiplierFromSpec.Or(m.MultiplierFromSpec)
	m.Footprint, m.ExecFootprint = c.Footprint.Or(m.Footprint), c.ExecFootprint.Or(m.ExecFootprint)
	if mode, given := c.OverdraftMode.Get(); given {
		_ = m.OverdraftMode.UnmarshalText([]byte(mode)) // configurations are validated earlier
	}
	return &m
}

// NewLog makes the logger of a process.
func NewLog(c *config.Log, to *os.File) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(c.Level.Value()))); err != nil {
		level = slog.LevelInfo // configurations are validated earlier
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format.Value() == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}
