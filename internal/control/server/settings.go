package server

import (
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
)

// Settings are the numbers that govern a server. All may be changed while it leads.
type Settings struct {
	Core core.Settings
	// UpdatePeriod is how often fair shares are computed.
	UpdatePeriod time.Duration
	// LeaseTTL is how long a leader that does not renew its lease keeps it; it
	// renews it every RenewPeriod, or three times as often if that is zero.
	LeaseTTL    time.Duration
	RenewPeriod time.Duration
	// StandbyPoll is how often a standby looks for changes and for the lease.
	StandbyPoll time.Duration
	// ConfirmationTimeout is how long nodes of a predecessor have to report before
	// a new leader gives up them and their jobs.
	ConfirmationTimeout time.Duration
	// SnapshotPeriod is how often controllers are stored whose jobs have ended,
	// and SnapshotJobs after how many ends at the latest.
	SnapshotPeriod time.Duration
	SnapshotJobs   int64
	// ProgressPeriod is how often the progress of operations is shown and stored.
	ProgressPeriod time.Duration
	// HeartbeatPeriod and HeartbeatSplay are what nodes are told.
	HeartbeatPeriod time.Duration
	HeartbeatSplay  time.Duration
	// OfflineAfter is the silence after which a node is shown as offline; its jobs
	// are kept until Core.NodeTimeout. Zero means never before that.
	OfflineAfter time.Duration
	// SelfCheckPeriod is how often the invariants of the core are checked; a
	// check that takes long is made more rarely. Zero means never.
	SelfCheckPeriod time.Duration
	// MutationTTL is for how long answers to mutations are repeated.
	MutationTTL time.Duration
	// StallPatience is how long a commit may take before heartbeats are answered
	// without it and new requests are refused. Those who wait already are told a
	// lease period later that the outcome is not known.
	StallPatience time.Duration
	// SoftQueue is the number of waiting requests above which heartbeats report
	// without getting work; HardQueue is where other requests are refused.
	SoftQueue, HardQueue int
	// MaxBatch is the most requests that one commit serves.
	MaxBatch int
	// CommitWindow is how long a commit waits for more requests to share it.
	CommitWindow time.Duration
	// HistoryPeriod is how often the time series behind the charts are sampled.
	HistoryPeriod time.Duration
	// RetentionPeriod is how often old rows are deleted, by the rules of Retention.
	RetentionPeriod time.Duration
	Retention       store.Policy
	// JobStarts says whether starts of jobs are written to the event log.
	JobStarts bool
	// StarvationEvents says whether it is logged when pools and operations begin
	// and cease to starve.
	StarvationEvents bool
	// PoolChange says whether running operations may move to other pools.
	PoolChange bool
	// RequirePools says whether pools that operations name must be configured:
	// none are made for them.
	RequirePools bool
}

// DefaultSettings returns the defaults of the reference where it has them.
func DefaultSettings() Settings {
	memory := operation.DefaultMemoryConfig()
	inner := core.DefaultSettings()
	inner.Memory = &memory
	return Settings{
		Core:                inner,
		UpdatePeriod:        time.Second,
		LeaseTTL:            3 * time.Second,
		StandbyPoll:         300 * time.Millisecond,
		ConfirmationTimeout: 15 * time.Second,
		SnapshotPeriod:      5 * time.Minute,
		SnapshotJobs:        1000,
		ProgressPeriod:      time.Second,
		HeartbeatPeriod:     5 * time.Second,
		HeartbeatSplay:      time.Second,
		OfflineAfter:        time.Minute,
		SelfCheckPeriod:     time.Minute,
		MutationTTL:         5 * time.Minute,
		StallPatience:       time.Second,
		SoftQueue:           500,
		HardQueue:           20_000,
		MaxBatch:            1024,
		HistoryPeriod:       time.Second,
		RetentionPeriod:     time.Minute,
		Retention: store.Policy{
			OperationAge: 90 * 24 * time.Hour, JobAge: 14 * 24 * time.Hour, OutputAge: 7 * 24 * time.Hour,
			EventAge: 7 * 24 * time.Hour, Events: 1_000_000, AuditAge: 365 * 24 * time.Hour, Tombstones: 10_000,
		},
		JobStarts:        true,
		StarvationEvents: true,
		PoolChange:       true,
	}
}

// offlineAfter is the silence after which a node is offline, zero if it never is.
// A node that is given up is offline in any case.
func (s *Settings) offlineAfter() time.Duration {
	if s.OfflineAfter <= 0 || s.Core.NodeTimeout > 0 && s.Core.NodeTimeout < s.OfflineAfter {
		return s.Core.NodeTimeout
	}
	return s.OfflineAfter
}
