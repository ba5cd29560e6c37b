package operation

import (
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// Spec is what a user requests, with every default filled in. It is immutable
// after reading: [Spec.With] makes another one.
type Spec struct {
	// OperationOptions are the options for pool trees. Its Extras also hold the
	// other options that are known but not supported.
	pooltree.OperationOptions

	// Tasks are in the order of the document, which is their priority.
	Tasks []document.Named[Task]

	Title       document.Optional[string]
	Description document.Optional[document.Value]
	Alias       document.Optional[string]
	Annotations document.Optional[document.Value]
	Notify      document.Optional[[]string]
	ACL         document.Optional[document.Value]
	ACOName     document.Optional[string]
	Owners      document.Optional[[]string]
	StartedBy   document.Optional[document.Value]

	MaxFailedJobCount       document.Optional[int]
	FailOnJobRestart        document.Optional[bool]
	SuspendOnJobFailure     document.Optional[bool]
	BanNodesWithFailedJobs  document.Optional[bool]
	IgnoreFailuresAtBanned  document.Optional[bool]
	FailOnAllNodesBanned    document.Optional[bool]
	TimeLimit               document.Optional[time.Duration]
	TimeLimitJobFailTimeout document.Optional[time.Duration]
	SuspendAfterStart       document.Optional[bool]
	RequirePoolsExist       document.Optional[bool]
	MaxStderrCount          document.Optional[int]

	// External is set for operations whose jobs belong to another system.
	External document.Optional[External]

	CPUMonitor CPUMonitor
	// Memory has the options that tasks inherit.
	Memory MemoryOptions

	unrecognized document.Extras
}

const (
	reasonAccounts = "there are no accounts"
	reasonAgents   = "controllers are part of the scheduler"
	reasonTesting  = "it serves YTsaurus's own tests"
)

var unsupportedSpecOptions = []unsupported{
	{reasonNoSpec, []string{"max_speculative_job_count_per_task", "job_speculation_timeout", "try_avoid_duplicating_jobs"}},
	{"max_failed_job_count counts all failures together", []string{"job_fails_tolerance"}},
	{"there are no experiments", []string{"experiment_overrides", "job_experiment"}},
	{reasonAgents, []string{"controller_agent_tag", "enable_trace_logging", "sanity_check_delay"}},
	{reasonAccounts, []string{"suspend_operation_if_account_limit_exceeded", "intermediate_data_account", "debug_artifacts_account", "job_node_account"}},
	{reasonTables, []string{
		"stderr_table_path", "stderr_table_writer", "core_table_path", "core_table_writer", "auto_merge", "sampling", "unavailable_chunk_strategy",
		"unavailable_chunk_tactics", "enable_job_splitting", "job_splitter", "input_table_columnar_statistics", "user_file_columnar_statistics",
		"use_columnar_statistics", "enable_legacy_live_preview", "intermediate_compression_codec", "intermediate_data_replication_factor",
		"intermediate_data_medium", "max_data_weight_per_job",
	}},
	{reasonImages, []string{"default_base_layer_path"}},
	{reasonProfiler, []string{"profilers"}},
	{"core dumps are not collected", []string{"max_core_info_count", "enable_cuda_gpu_core_dump"}},
	{"only the access control list decides", []string{"add_authenticated_user_to_acl"}},
	{"job shells have no options", []string{"job_shells"}},
	{reasonTesting, []string{"testing", "job_testing_options"}},
}

var specOptions = concat(
	[]document.Option[Spec]{
		document.Plain("tasks", "The tasks by name. At least one is required.",
			func(c *Spec) *[]document.Named[Task] { return &c.Tasks }, document.MapOf(taskTable.Type())),
		document.Maybe("title", "The operation's name in lists.",
			func(c *Spec) *opt[string] { return &c.Title }, document.Texts),
		document.Maybe("description", "Free-form information for people, shown on the operation's page.",
			func(c *Spec) *opt[document.Value] { return &c.Description }, document.Anything),
		document.Maybe("alias", "A name that commands accept instead of the operation's id. It starts with *.",
			func(c *Spec) *opt[string] { return &c.Alias }, operationAlias),
		document.Maybe("annotations", "A map for programs, at most 10 KiB.",
			func(c *Spec) *opt[document.Value] { return &c.Annotations }, annotations),
		document.Maybe("notify", "Notification targets of the cluster's configuration that are told when the operation ends.",
			func(c *Spec) *opt[[]string] { return &c.Notify }, document.ListOf(document.Words)),
		document.Maybe("acl", "Who may read and manage the operation.",
			func(c *Spec) *opt[document.Value] { return &c.ACL }, accessList),
		document.Maybe("aco_name", "An access control object to use in place of acl.",
			func(c *Spec) *opt[string] { return &c.ACOName }, document.Words),
		document.Maybe("owners", "Users who may manage the operation; prefer acl.",
			func(c *Spec) *opt[[]string] { return &c.Owners }, document.ListOf(document.Words)),
		document.Maybe("started_by", "What the client reports about itself.",
			func(c *Spec) *opt[document.Value] { return &c.StartedBy }, document.Anything),
	},
	document.Within(pooltree.OperationOptionList(), func(c *Spec) *pooltree.OperationOptions { return &c.OperationOptions }),
	[]document.Option[Spec]{
		document.Maybe("max_failed_job_count", "The operation fails after this many failed jobs. With 0 or 1 the first failure fails it.",
			func(c *Spec) *opt[int] { return &c.MaxFailedJobCount }, maxFailed.Default(10)),
		document.Maybe("fail_on_job_restart", "The operation fails if a job that has started would have to restart.",
			func(c *Spec) *opt[bool] { return &c.FailOnJobRestart }, switched.Default(false)),
		document.Maybe("suspend_on_job_failure", "A failed job suspends the operation and aborts its other jobs.",
			func(c *Spec) *opt[bool] { return &c.SuspendOnJobFailure }, switched.Default(false)),
		document.Maybe("ban_nodes_with_failed_jobs", "Start no more jobs on a node where one has failed.",
			func(c *Spec) *opt[bool] { return &c.BanNodesWithFailedJobs }, switched.Default(false)),
		document.Maybe("ignore_job_failures_at_banned_nodes", "Count further failures on a banned node as aborts.",
			func(c *Spec) *opt[bool] { return &c.IgnoreFailuresAtBanned }, switched.Default(false)),
		document.Maybe("fail_on_all_nodes_banned", "The operation fails when its bans leave no node.",
			func(c *Spec) *opt[bool] { return &c.FailOnAllNodesBanned }, switched.Default(true)),
		document.Maybe("time_limit", "The operation fails if it runs longer than this.",
			func(c *Spec) *opt[time.Duration] { return &c.TimeLimit }, document.Above(document.Durations, 0)),
		document.Maybe("time_limit_job_fail_timeout", "After time_limit, how long running jobs have to fail on their own.",
			func(c *Spec) *opt[time.Duration] { return &c.TimeLimitJobFailTimeout }, document.Durations.Default(2*time.Minute)),
		document.Maybe("suspend_operation_after_materialization", "Start suspended.",
			func(c *Spec) *opt[bool] { return &c.SuspendAfterStart }, switched.Default(false)),
		document.Maybe("require_specified_pools_existence", "Refuse the operation if it names a pool that is not configured.",
			func(c *Spec) *opt[bool] { return &c.RequirePoolsExist }, switched.Default(false)),
		document.Maybe("max_stderr_count", "For how many jobs stderr is kept.",
			func(c *Spec) *opt[int] { return &c.MaxStderrCount }, document.Between(document.Ints, 0, 150).Default(10)),
		document.Maybe("external", "The jobs belong to another system, such as Kubernetes, which offers them. Only drivers of the scheduler start such operations.",
			func(c *Spec) *opt[External] { return &c.External }, externalTable.Type()),
		document.Section("job_cpu_monitor", "How the CPU limit of a running job follows its usage.",
			func(c *Spec) *CPUMonitor { return &c.CPUMonitor }, cpuMonitorTable),
	},
	document.Within(memoryOptions, func(c *Spec) *MemoryOptions { return &c.Memory }),
	kept(func(c *Spec) *document.Extras { return &c.Extras }, unsupportedSpecOptions),
)

var maxFailed = document.Between(document.Ints, 0, 10000)

var specTable = document.NewTable(specOptions...).KeepingUnknown(func(c *Spec) *document.Extras { return &c.unrecognized })

// Options describes the options of a specification, and of its tasks, for
// documentation and schemas.
func Options() (spec, task []*document.Info) { return specTable.Options(), taskTable.Options() }

// ReadOptions control how a specification is read.
type ReadOptions struct {
	// File is the name of the document in messages; it may be empty.
	File string
	// Strict rejects unknown options, as for files that users write. Otherwise
	// they are kept separately with a warning, as for clients of other versions.
	Strict bool
	// CommandOptional allows tasks without a command, for simulations that run
	// nothing.
	CommandOptional bool
	// External allows external operations, whose tasks appear later.
	External bool
}

// Specification is the full result of reading a document.
type Specification struct {
	// Spec is the resulting specification.
	Spec *Spec
	// Provided is the document as it was given, without secrets.
	Provided document.Value
	// Unrecognized has the keys that no option knows, at their original places.
	Unrecognized document.Value
	// Warnings are about options that have no effect.
	Warnings document.Problems
	// Account is the only secret that has an effect.
	Account Account
}

// Read reads a specification. The error is of type document.Problems and
// lists every problem.
func Read(v document.Value, options ReadOptions) (*Specification, error) {
	r := document.NewReader(options.File)
	r.KeepUnknown = !options.Strict
	var beside []string
	var account Account
	if e, ok := findSecure(v); ok {
		beside = append(beside, e.Key)
		account = readVault(r, e)
		v = v.Without(e.Key)
	}
	spec := &Spec{}
	wrong := specTable.Read(r, v, spec, beside...)
	checkSpec(r, v, spec, wrong, options)
	if err := r.Problems().Err(); err != nil {
		return nil, err
	}
	unrecognized := spec.takeUnrecognized()
	spec.complete()
	return &Specification{Spec: spec, Provided: v, Unrecognized: unrecognized, Warnings: r.Warnings(), Account: account}, nil
}

func findSecure(v document.Value) (document.Entry, bool) {
	for _, e := range v.Entries() {
		if document.Normal(e.Key) == secureVault {
			return e, true
		}
	}
	return document.Entry{}, false
}

// complete fills in defaults. Tasks come first, because they inherit the
// given values, not the defaults.
func (s *Spec) complete() {
	for i := range s.Tasks {
		s.Tasks[i].Value.complete(s)
	}
	specTable.FillDefaults(s)
	s.Memory.settle()
}

// takeUnrecognized moves unknown keys out of the specification into a
// separate document.
func (s *Spec) takeUnrecognized() document.Value {
	entries := take(nil, &s.unrecognized)
	entries = section(entries, "job_cpu_monitor", take(nil, &s.CPUMonitor.unrecognized))
	entries = section(entries, "job_proxy_memory_digest", take(nil, &s.Memory.ProxyDigest.unrecognized))
	var tasks []document.Entry
	for i := range s.Tasks {
		t := &s.Tasks[i].Value
		own := take(nil, &t.unrecognized)
		own = section(own, "job_proxy_memory_digest", take(nil, &t.Memory.ProxyDigest.unrecognized))
		tasks = section(tasks, s.Tasks[i].Name, own)
	}
	return document.Map(section(entries, "tasks", tasks)...)
}

func take(entries []document.Entry, extras *document.Extras) []document.Entry {
	entries = append(entries, *extras...)
	*extras = nil
	return entries
}

func section(entries []document.Entry, name string, inner []document.Entry) []document.Entry {
	if len(inner) == 0 {
		return entries
	}
	return append(entries, document.Pair(name, document.Map(inner...)))
}

// Document returns the resulting specification. Reading it gives the same Spec.
func (s *Spec) Document(style document.Style) document.Value { return specTable.Write(s, style) }

// Changes returns the options in which two specifications differ.
func Changes(from, to *Spec) []document.Change { return specTable.Diff(from, to) }

// JobCount returns the number of jobs of all tasks.
func (s *Spec) JobCount() (total int) {
	for i := range s.Tasks {
		total += s.Tasks[i].Value.JobCount
	}
	return total
}
