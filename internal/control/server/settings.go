package server

import (
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
)

// Settings configure a server. All of them may change while it leads.
type Settings struct {
	Core core.Settings
	// Templates have values for options that pool trees do not set.
	Templates pooltree.Templates
	// UpdatePeriod is the interval between fair-share updates.
	UpdatePeriod time.Duration
	// LeaseTTL is how long a leader keeps a lease that it does not renew. It renews
	// the lease every RenewPeriod; if that is zero, three times per LeaseTTL.
	LeaseTTL    time.Duration
	RenewPeriod time.Duration
	// StandbyPoll is how often a standby checks the store for changes and tries to
	// take the lease.
	StandbyPoll time.Duration
	// ConfirmationTimeout is how long a predecessor's nodes have to report before a
	// new leader gives them and their jobs up.
	ConfirmationTimeout time.Duration
	// SnapshotPeriod is how often controllers whose jobs have ended are stored;
	// SnapshotJobs is the number of ends after which a controller is stored at the
	// latest.
	SnapshotPeriod time.Duration
	SnapshotJobs   int64
	// ProgressPeriod is how often the progress of operations is shown.
	ProgressPeriod time.Duration
	// HeartbeatPeriod and HeartbeatSplay are sent to nodes.
	HeartbeatPeriod time.Duration
	HeartbeatSplay  time.Duration
	// OfflineAfter is the silence after which a node is shown as offline; its jobs
	// are kept until Core.NodeTimeout. Zero means not before that timeout.
	OfflineAfter time.Duration
	// SelfCheckPeriod is the interval between checks of the core's invariants; slow
	// checks run less often. Zero disables them.
	SelfCheckPeriod time.Duration
	// MutationTTL is how long the answer to a mutation is kept for repeated
	// requests.
	MutationTTL time.Duration
	// StallPatience is how long a commit may take before heartbeats are answered
	// without it and new requests are refused. Callers that already wait get
	// ErrUnknownOutcome one lease period later.
	StallPatience time.Duration
	// MaxNodes is the most nodes that a scheduler knows, including those that are gone.
	// Otherwise a token for any node could fill the memory with names.
	MaxNodes int
	// SoftQueue is the number of waiting requests above which heartbeats get no
	// work; HardQueue is the number above which other requests are refused.
	SoftQueue, HardQueue int
	// AnalysisWorkers is the number of questions that are answered at a time, and AnalysisCPU the
	// part of a core that they use together. QuestionsPerMinute is how many each user may ask.
	AnalysisWorkers    int
	AnalysisCPU        float64
	QuestionsPerMinute int
	// ForecastCPU is the part of a core that forecasts use; zero: there are none.
	ForecastCPU float64
	// MaxBatch is the maximum number of requests per commit.
	MaxBatch int
	// CommitWindow is how long a commit waits for more requests.
	CommitWindow time.Duration
	// HistoryPeriod is the sampling interval of the time series for the charts.
	HistoryPeriod time.Duration
	// RetentionPeriod is how often old rows are deleted, according to Retention.
	RetentionPeriod time.Duration
	Retention       store.Policy
	// MaxFileSize is the size limit of one file in the blob storage. FileQuota is how much each user may have there; zero
	// means no limit.
	MaxFileSize, FileQuota int64
	// CollectPeriod is how often contents that nothing uses are searched for. They are deleted when they have not been used
	// for ContentGrace.
	CollectPeriod, ContentGrace time.Duration
	// JobStarts reports whether job starts are written to the event log.
	JobStarts bool
	// StarvationEvents reports whether the event log records when pools and
	// operations start and stop starving.
	StarvationEvents bool
	// AccountingLabels are the annotations of operations by which reports can divide usage, in order.
	AccountingLabels []string
	// Prices are what usage costs, and Budgets how much of it the log warns of.
	Prices  ledger.PriceList
	Budgets []ledger.Budget
	// GuaranteePatience is how long a guarantee must be broken, or kept again, before the event log
	// says so.
	GuaranteePatience time.Duration
	// PoolChange reports whether running operations may move to other pools.
	PoolChange bool
	// RequirePools reports whether the pools that operations name must be
	// configured. If so, the scheduler creates no ephemeral pools for them.
	RequirePools bool
}

// DefaultSettings returns the defaults, equal to the reference's where it has them.
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
		MaxNodes:            100_000,
		SoftQueue:           500,
		HardQueue:           20_000,
		AnalysisWorkers:     1,
		AnalysisCPU:         defaultAnalysisCPU(),
		QuestionsPerMinute:  30,
		ForecastCPU:         0.05,
		MaxBatch:            1024,
		HistoryPeriod:       time.Second,
		RetentionPeriod:     time.Minute,
		Retention: store.Policy{
			OperationAge: 90 * 24 * time.Hour, JobAge: 14 * 24 * time.Hour, OutputAge: 7 * 24 * time.Hour,
			EventAge: 7 * 24 * time.Hour, Events: 1_000_000, AuditAge: 365 * 24 * time.Hour, Tombstones: 10_000,
		},
		MaxFileSize:       16 << 30,
		FileQuota:         100 << 30,
		CollectPeriod:     time.Hour,
		ContentGrace:      24 * time.Hour,
		JobStarts:         true,
		StarvationEvents:  true,
		GuaranteePatience: 5 * time.Minute,
		PoolChange:        true,
	}
}

// offlineAfter is the silence after which a node is offline, zero if it never is. A
// node that was given up is always offline.
func (s *Settings) offlineAfter() time.Duration {
	if s.OfflineAfter <= 0 || s.Core.NodeTimeout > 0 && s.Core.NodeTimeout < s.OfflineAfter {
		return s.Core.NodeTimeout
	}
	return s.OfflineAfter
}
