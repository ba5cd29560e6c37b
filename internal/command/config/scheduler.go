package config

import (
	"time"

	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Scheduler is the section of `weir scheduler`. After Load every setting that has a default has a
// value.
type Scheduler struct {
	Listen            opt[string]
	Advertise         opt[string]
	DataDir           opt[string]
	VaultKeyFile      opt[string]
	Store             opt[string]
	StorePasswordFile opt[string]
	TLS               ServerTLS
	Log               Log
	Pprof             opt[bool]
	OpenMetrics       opt[bool]
	Socket            opt[string]
	TrustLoopback     opt[bool]

	Leader     Leader
	Commit     Commit
	Retention  Retention
	History    History
	EventLog   EventLog
	Accounting Accounting
	SelfCheck  SelfCheck
	Overload   Overload
	Analysis   Analysis
	Journal    Journal
	Files      Files
	Images     Images

	Kubernetes Kubernetes

	Periods    Periods
	Nodes      NodeRules
	Operations OperationRules
	Memory     MemoryDigest
	Templates  opt[pooltree.Templates]

	Notifications Notifications

	// Extras are options of YTsaurus's scheduler that have no effect here, and unknown options from
	// a patch.
	Extras document.Extras
}

// ServerTLS configures how a process authenticates and whom it trusts.
type ServerTLS struct {
	Certificate, Key, ClientCA opt[string]
	SelfSigned                 opt[bool]
}

func serverTLS() *group[ServerTLS] {
	return newGroup([]row[ServerTLS]{
		fixed("certificate", "File with the certificate in PEM, followed by its chain. Without it the scheduler speaks plain HTTP.",
			func(c *ServerTLS) *opt[string] { return &c.Certificate }, document.Words).common(),
		fixed("key", "File with the private key in PEM.",
			func(c *ServerTLS) *opt[string] { return &c.Key }, document.Words).common(),
		fixed("client_ca", "File with the authorities, in PEM, whose certificates nodes may present instead of a token.",
			func(c *ServerTLS) *opt[string] { return &c.ClientCA }, document.Words).common(),
		fixed("self_signed", "Create a key and a certificate in the data directory at the first start, if none is given.",
			func(c *ServerTLS) *opt[bool] { return &c.SelfSigned }, document.Bools.Default(false)).common(),
	})
}

// Log configures what a process logs to its standard error.
type Log struct {
	Level, Format opt[string]
}

func logGroup() *group[Log] {
	return newGroup([]row[Log]{
		fixed("level", "The lowest level of messages that are written.",
			func(c *Log) *opt[string] { return &c.Level }, wordsOf("debug", "info", "warn", "error").Default("info")).common(),
		fixed("format", "Lines of text for people, or JSON for programs.",
			func(c *Log) *opt[string] { return &c.Format }, wordsOf("text", "json").Default("text")).common(),
	})
}

// Leader configures how several schedulers on one store agree on a leader.
type Leader struct {
	LeaseTTL, RenewPeriod, StandbyPollPeriod opt[time.Duration]
}

func leader() *group[Leader] {
	return newGroup([]row[Leader]{
		fixed("lease_ttl", "How long a leader leads without renewing its lease. After the leader dies, a standby takes over within this time plus standby_poll_period.",
			func(c *Leader) *opt[time.Duration] { return &c.LeaseTTL }, document.Between(document.Durations, 500*time.Millisecond, time.Minute).Default(3*time.Second)),
		fixed("renew_period", "How often the leader renews its lease; at most a third of lease_ttl.",
			func(c *Leader) *opt[time.Duration] { return &c.RenewPeriod }, periods.Default(time.Second)),
		fixed("standby_poll_period", "How often a standby checks the lease and updates its copy of the state.",
			func(c *Leader) *opt[time.Duration] { return &c.StandbyPollPeriod }, periods.Default(500*time.Millisecond)),
	})
}

// Commit configures how requests share one commit of the store.
type Commit struct {
	Window   opt[time.Duration]
	MaxBatch opt[int]
}

func commit() *group[Commit] {
	return newGroup([]row[Commit]{
		live("window", "How long a commit waits for further requests to share it. 0: it does not wait; requests that arrive during a commit share the next one.",
			func(c *Commit) *opt[time.Duration] { return &c.Window }, document.Between(document.Durations, 0, time.Second).Default(0)),
		live("max_batch", "The most requests that share one commit.",
			func(c *Commit) *opt[int] { return &c.MaxBatch }, document.Between(document.Ints, 1, 100_000).Default(1000)),
	})
}

// Retention configures how long ended operations and other old data are kept.
type Retention struct {
	Operations, Jobs, Stderr, Audit opt[time.Duration]
	Period                          opt[time.Duration]

	// Extras are options of YTsaurus's operations_cleaner that have no effect here.
	Extras document.Extras
}

func retention() *group[Retention] {
	return newGroup([]row[Retention]{
		live("operations", "How long the archive keeps operations.",
			func(c *Retention) *opt[time.Duration] { return &c.Operations }, timeouts.Default(90*24*time.Hour)),
		live("jobs", "How long the archive keeps jobs and their statistics.",
			func(c *Retention) *opt[time.Duration] { return &c.Jobs }, timeouts.Default(14*24*time.Hour)),
		live("stderr", "How long the archive keeps what jobs wrote to their standard error.",
			func(c *Retention) *opt[time.Duration] { return &c.Stderr }, timeouts.Default(7*24*time.Hour)),
		live("audit", "How long the audit of changes is kept.",
			func(c *Retention) *opt[time.Duration] { return &c.Audit }, timeouts.Default(365*24*time.Hour)),
		live("period", "How often expired records are deleted from the store.",
			func(c *Retention) *opt[time.Duration] { return &c.Period }, periods.Default(time.Minute)),
	}, keptRetention())
}

// History configures how long the time series for charts are kept, by their step.
type History struct {
	Seconds, Minutes, Hours opt[time.Duration]
}

func history() *group[History] {
	return newGroup([]row[History]{
		live("seconds", "How long the charts keep one point per second.",
			func(c *History) *opt[time.Duration] { return &c.Seconds }, timeouts.Default(time.Hour)),
		live("minutes", "How long they keep one point per minute.",
			func(c *History) *opt[time.Duration] { return &c.Minutes }, timeouts.Default(24*time.Hour)),
		live("hours", "How long they keep one point per hour.",
			func(c *History) *opt[time.Duration] { return &c.Hours }, timeouts.Default(180*24*time.Hour)),
	})
}

// EventLog bounds the decision log and selects its contents.
type EventLog struct {
	MaxEvents          opt[int]
	MaxAge             opt[time.Duration]
	DetailedStarvation opt[bool]
}

func eventLog() *group[EventLog] {
	return newGroup([]row[EventLog]{
		live("max_events", "The most events in the log.",
			func(c *EventLog) *opt[int] { return &c.MaxEvents }, document.Between(document.Ints, 1000, 100_000_000).Default(1_000_000)),
		live("max_age", "How long the log keeps events.",
			func(c *EventLog) *opt[time.Duration] { return &c.MaxAge }, timeouts.Default(7*24*time.Hour)),
		live("enable_detailed_starvation_logs", "Log when a pool or operation starts and stops starving, with its share, usage and demand at that time.",
			func(c *EventLog) *opt[bool] { return &c.DetailedStarvation }, document.Bools.Default(true)),
	})
}

// Accounting configures how usage is accounted.
type Accounting struct {
	Labels            opt[[]string]
	GuaranteePatience opt[time.Duration]
	Prices            opt[ledger.PriceList]
	Budgets           opt[[]ledger.Budget]
}

func accounting() *group[Accounting] {
	return newGroup([]row[Accounting]{
		live("labels", "Annotations of operations by which reports about usage can be divided, such as team. At most eight.",
			func(c *Accounting) *opt[[]string] { return &c.Labels }, document.ListOf(document.Words).That("at most 8 names", document.RuleBadFormat,
				func(list []string) bool { return len(list) <= 8 })),
		live("guarantee_patience", "How long a guarantee must be broken by more than 1 %, or kept again, before an event says so; see notifications.",
			func(c *Accounting) *opt[time.Duration] { return &c.GuaranteePatience }, timeouts.Default(5*time.Minute)),
		live("prices", "What usage costs: `currency`, and `prices` with `from`, `tree`, `reserved`, `guarantee`, `surplus` and `lost`, as in a file for weir report usage --prices. Reports about usage then have costs.",
			func(c *Accounting) *opt[ledger.PriceList] { return &c.Prices }, ledger.PriceListTable.Type()).noFlag(),
		live("budgets", "How much some accounts may use in a month (UTC): `name`; `tree`, `pool`, `user`, `label` select usage; one of `cost`, `cpu`, `gpu`, `memory_gib` in hours; `warn` is the part after which an event warns (0.8). Budgets limit nothing.",
			func(c *Accounting) *opt[[]ledger.Budget] { return &c.Budgets }, document.ListOf(ledger.BudgetTable.Type())).noFlag(),
	})
}

// SelfCheck configures how often the core's invariants are checked in production.
type SelfCheck struct {
	Enabled opt[bool]
	Period  opt[time.Duration]
}

func selfCheck() *group[SelfCheck] {
	return newGroup([]row[SelfCheck]{
		live("enabled", "Check the core's invariants while it runs, and raise an alert when one is broken.",
			func(c *SelfCheck) *opt[bool] { return &c.Enabled }, document.Bools.Default(true)),
		live("period", "How often the whole state is checked; less often if a check takes long.",
			func(c *SelfCheck) *opt[time.Duration] { return &c.Period }, periods.Default(time.Minute)),
	})
}

// Overload configures what the scheduler sheds, and when.
type Overload struct {
	SoftHeartbeats, QueueLength   opt[int]
	BytesInFlight, BytesPerCaller opt[int64]
}

// Analysis configures what questions about the cluster may cost.
type Analysis struct {
	Workers, Questions opt[int]
	CPU, Forecasts     opt[float64]
}

// Journal configures how much of the scheduler's inputs is kept.
type Journal struct {
	Keep opt[time.Duration]
	Size opt[int64]
}

func journalGroup() *group[Journal] {
	return newGroup([]row[Journal]{
		fixed("keep", "How long the journal is kept, such as 24h. 0: no journal is written. `weir up` keeps 24 hours unless this is set.",
			func(c *Journal) *opt[time.Duration] { return &c.Keep }, document.Between(document.Durations, 0, 365*24*time.Hour).Default(0)).common(),
		fixed("size", "The most bytes that the journal may have. Beyond it the oldest part is removed.",
			func(c *Journal) *opt[int64] { return &c.Size }, memory.Default(8<<30)),
	})
}

// Files configures where the contents of files are and how large they may be.
type Files struct {
	Storage         opt[string]
	MaxSize, Quota  opt[int64]
	Grace, Interval opt[time.Duration]
}

func filesGroup() *group[Files] {
	return newGroup([]row[Files]{
		fixed("storage", "Where contents above 64 KiB are: s3://BUCKET?region=REGION, with endpoint=URL and use_path_style=true for stores other than Amazon's; the environment has the keys, "+
			"as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Unset: the directory blobs in the data directory, which only this scheduler uses.",
			func(c *Files) *opt[string] { return &c.Storage }, blobURLs).common(),
		live("max_size", "The size limit of one file.",
			func(c *Files) *opt[int64] { return &c.MaxSize }, memory.Default(16<<30)),
		live("quota_per_user", "How many bytes each user's contents above 64 KiB may have together: files in the tree, files of operations, and what jobs leave behind. Equal contents count once. 0: no limit.",
			func(c *Files) *opt[int64] { return &c.Quota }, memory.Default(100<<30)),
		live("grace", "How long a content that nothing uses any more is kept.",
			func(c *Files) *opt[time.Duration] { return &c.Grace }, timeouts.Default(24*time.Hour)),
		live("collect_period", "How often the storage is searched for such contents.",
			func(c *Files) *opt[time.Duration] { return &c.Interval }, periods.Default(time.Hour)),
	})
}

// softHeartbeatRows are outside the section, where YTsaurus has them.
func softHeartbeatRows() []row[Overload] {
	return []row[Overload]{
		live("soft_concurrent_heartbeat_limit", "While more requests than this wait, the scheduler answers further heartbeats without scheduling jobs. The default of YTsaurus is 50; here all requests wait in one queue, so it is 500.",
			func(c *Overload) *opt[int] { return &c.SoftHeartbeats }, counts.Default(500)),
	}
}

func analysis() *group[Analysis] {
	return newGroup([]row[Analysis]{
		live("workers", "How many questions are answered at a time.",
			func(c *Analysis) *opt[int] { return &c.Workers }, document.Between(document.Ints, 1, 64).Default(1)),
		live("cpu", "The part of a core that all answers together use. The default is 0.25 on machines with up to 4 cores, otherwise 1.",
			func(c *Analysis) *opt[float64] { return &c.CPU }, document.Between(document.Numbers, 0.01, 64)),
		live("questions_per_minute", "How many questions each user may ask in a minute. Further ones are refused with a code that clients retry.",
			func(c *Analysis) *opt[int] { return &c.Questions }, counts.Default(30)),
		live("forecast_cpu", "The part of a core that forecasts use: when operations start and finish (`weir forecast`). 0: there are no forecasts.",
			func(c *Analysis) *opt[float64] { return &c.Forecasts }, document.Between(document.Numbers, 0, 1).Default(0.05)),
	})
}

func overload() *group[Overload] {
	return newGroup([]row[Overload]{
		live("max_queue_length", "While more requests than this wait for the loop, further requests are refused with a code that clients retry.",
			func(c *Overload) *opt[int] { return &c.QueueLength }, counts.Default(10_000)),
		fixed("max_bytes_in_flight", "The most memory that users' requests and their answers hold at a time, and as much again for those of nodes. Requests beyond it are refused with status 503.",
			func(c *Overload) *opt[int64] { return &c.BytesInFlight }, memory.Default(256<<20)),
		fixed("max_bytes_in_flight_per_caller", "The most of it that one user or one node holds. Requests beyond it are refused with status 429.",
			func(c *Overload) *opt[int64] { return &c.BytesPerCaller }, memory.Default(64<<20)),
	})
}

// MemoryDigest configures how jobs' memory reserves are learnt.
type MemoryDigest struct {
	UserPrecision, UserQuantile, ProxyQuantile, OverdraftFactor opt[float64]
	UserMultiplier, ProxyMultiplier                             opt[float64]
	MultiplierFromSpec                                          opt[bool]
	OverdraftMode                                               opt[string]
	Footprint, ExecFootprint                                    opt[int64]
}

func memoryRows() []row[MemoryDigest] {
	return []row[MemoryDigest]{
		live("user_job_memory_digest_precision", "The step of the digest of user jobs' memory usage, as a fraction of their limit.",
			func(c *MemoryDigest) *opt[float64] { return &c.UserPrecision }, document.Between(document.Numbers, 0.0001, 0.5).Default(0.01)),
		live("user_job_memory_reserve_quantile", "The quantile of the digest that becomes the reserve of a user job.",
			func(c *MemoryDigest) *opt[float64] { return &c.UserQuantile }, ratios.Default(0.95)),
		live("job_proxy_memory_reserve_quantile", "The same for the job proxy.",
			func(c *MemoryDigest) *opt[float64] { return &c.ProxyQuantile }, ratios.Default(0.95)),
		live("memory_digest_resource_overdraft_factor", "The usage of a job aborted for overdraft enters the digest multiplied by this factor.",
			func(c *MemoryDigest) *opt[float64] { return &c.OverdraftFactor }, document.Between(document.Numbers, 1, 10).Default(1.1)).
			alias("resource_overdraft_factor"),
		live("memory_digest_overdraft_mode", "Which sample an overdraft adds to the digest: that of the user documents, that of YTsaurus until 2022, or that of its newest version.",
			func(c *MemoryDigest) *opt[string] { return &c.OverdraftMode }, wordsOf("documented", "reserve_floor", "head").Default("documented")),
		live("user_job_resource_overdraft_memory_multiplier", "The factor by which the reserve of a job grows when it runs again after an overdraft. Unset: it then reserves its whole memory_limit.",
			func(c *MemoryDigest) *opt[float64] { return &c.UserMultiplier }, document.Between(document.Numbers, 1, 10)).
			alias("resource_overdraft_memory_reserve_multiplier"),
		live("job_proxy_resource_overdraft_memory_multiplier", "The same for the job proxy.",
			func(c *MemoryDigest) *opt[float64] { return &c.ProxyMultiplier }, document.Between(document.Numbers, 1, 10)),
		live("use_resource_overdraft_memory_multiplier_from_spec", "Allow specifications to set these multipliers.",
			func(c *MemoryDigest) *opt[bool] { return &c.MultiplierFromSpec }, document.Bools.Default(false)).
			alias("use_resource_overdraft_memory_reserve_multiplier_from_spec"),
		live("footprint_memory", "Memory of an idle job proxy.",
			func(c *MemoryDigest) *opt[int64] { return &c.Footprint }, memory.Default(128<<20)),
		live("exec_footprint_memory", "Additional memory for starting a user process.",
			func(c *MemoryDigest) *opt[int64] { return &c.ExecFootprint }, memory.Default(0)),
	}
}

func schedulerGroup() *group[Scheduler] {
	return newGroup(
		[]row[Scheduler]{
			fixed("listen", "The address where the scheduler listens for users, programs and nodes.",
				func(c *Scheduler) *opt[string] { return &c.Listen }, addresses.Default("127.0.0.1:7070")).common(),
			fixed("advertise", "The address at which others reach it. Unset: the address it listens on.",
				func(c *Scheduler) *opt[string] { return &c.Advertise }, peers).common(),
			fixed("data_dir", "Directory for the embedded store and generated keys.",
				func(c *Scheduler) *opt[string] { return &c.DataDir }, document.Words.Default("/var/lib/weir/scheduler")).common(),
			fixed("store", "Where the state is stored: "+storeSays+". Unset: SQLite in the data directory. On the command line it must not contain a password.",
				func(c *Scheduler) *opt[string] { return &c.Store }, storeURLs).secret().common(),
			fixed("store_password_file", "File with the database user's password.",
				func(c *Scheduler) *opt[string] { return &c.StorePasswordFile }, document.Words).common(),
			fixed("vault_key_file", "File with 32 random bytes that seal secrets of operations (secure_vault) in the store. Schedulers that share a store must have the same file. Unset: vault.key in the data directory, made at the first start; with store set, operations with secrets are refused.",
				func(c *Scheduler) *opt[string] { return &c.VaultKeyFile }, document.Words),
			part("tls", "Keys and certificates.", func(c *Scheduler) *ServerTLS { return &c.TLS }, serverTLS()),
			part("log", "The scheduler's log.", func(c *Scheduler) *Log { return &c.Log }, logGroup()),
			fixed("pprof", "Serve profiles of the process under /debug/pprof, to every client that can connect.",
				func(c *Scheduler) *opt[bool] { return &c.Pprof }, document.Bools.Default(false)).common(),
			fixed("open_metrics", "Serve /metrics to every client that can connect. Unset: to users who may read //sys, which requires a token once tokens exist.",
				func(c *Scheduler) *opt[bool] { return &c.OpenMetrics }, document.Bools.Default(false)),
			fixed("socket", "Path of the unix socket over which root and the scheduler's own user need no token. Unset: one that weir finds on the same machine, "+
				"in /run/weir if root runs the scheduler, else in the user's runtime directory.",
				func(c *Scheduler) *opt[string] { return &c.Socket }, document.Words),
			fixed("trust_loopback", "Until the first token exists, let every process on the scheduler's machine act as root, jobs included. For tests and machines with a single user.",
				func(c *Scheduler) *opt[bool] { return &c.TrustLoopback }, document.Bools.Default(false)),
			part("leader", "Several schedulers on one store.", func(c *Scheduler) *Leader { return &c.Leader }, leader()),
			part("commit", "How requests share commits to the store.", func(c *Scheduler) *Commit { return &c.Commit }, commit()),
			part("retention", "How long finished operations and other records are kept.", func(c *Scheduler) *Retention { return &c.Retention }, retention()).alias("operations_cleaner"),
			part("history", "Time series for the charts.", func(c *Scheduler) *History { return &c.History }, history()),
			part("event_log", "The log of scheduling decisions.", func(c *Scheduler) *EventLog { return &c.EventLog }, eventLog()),
			part("accounting", "How usage is accounted.", func(c *Scheduler) *Accounting { return &c.Accounting }, accounting()),
			part("self_check", "Checks of invariants in production.", func(c *Scheduler) *SelfCheck { return &c.SelfCheck }, selfCheck()),
			part("analysis", "What questions such as `weir explain` may cost. They are answered beside the scheduling.", func(c *Scheduler) *Analysis { return &c.Analysis }, analysis()),
			part("journal", "A record of everything that happens to the scheduler, in the directory journal of its data directory, for `weir replay`. Only the leader writes it.", func(c *Scheduler) *Journal { return &c.Journal }, journalGroup()),
			part("files", "The contents of files.", func(c *Scheduler) *Files { return &c.Files }, filesGroup()),
			part("images", "Where container images may come from. The scheduler resolves tags when operations start.", func(c *Scheduler) *Images { return &c.Images }, imagesGroup()),
			part("notifications", "Who is told outside the cluster what happens in it.", func(c *Scheduler) *Notifications { return &c.Notifications }, notifications),
			part("kubernetes", "Jobs as pods of a Kubernetes cluster.", func(c *Scheduler) *Kubernetes { return &c.Kubernetes }, kubernetesGroup()),
			part("overload", "How the scheduler sheds load.", func(c *Scheduler) *Overload { return &c.Overload }, overload()),
		},
		[]row[Scheduler]{
			live("template_pool_tree_config_map", "Options for all pool trees whose names match a filter. A tree's own options override them.",
				func(c *Scheduler) *opt[pooltree.Templates] { return &c.Templates }, pooltree.TemplatesType).noFlag(),
		},
		within(periodRows(), func(c *Scheduler) *Periods { return &c.Periods }),
		within(nodeRuleRows(), func(c *Scheduler) *NodeRules { return &c.Nodes }),
		within(operationRuleRows(), func(c *Scheduler) *OperationRules { return &c.Operations }),
		within(memoryRows(), func(c *Scheduler) *MemoryDigest { return &c.Memory }),
		within(softHeartbeatRows(), func(c *Scheduler) *Overload { return &c.Overload }),
		keptScheduler(),
	).keepingUnknown(func(c *Scheduler) *document.Extras { return &c.Extras })
}

// defaultSpare is the least that a node must have free to be considered.
var defaultSpare = resource.Partial{}.With(resource.UserSlots, 1).With(resource.CPU, 1_00).With(resource.Memory, 256<<20)
