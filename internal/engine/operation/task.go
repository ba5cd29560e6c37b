package operation

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Limits on the size of an operation.
const (
	MaxTaskCount   = 100
	MaxJobCount    = 10_000_000 // of all tasks together
	maxMemoryLimit = 16 << 40
)

// Task is a group of equal jobs of an operation.
type Task struct {
	JobCount    int
	Command     document.Optional[string]
	Environment []document.Named[string]
	FilePaths   []document.Value
	CopyFiles   document.Optional[bool]
	Artifacts   Artifacts

	CPULimit     document.Optional[int64] // hundredths of a core
	GPULimit     document.Optional[int64]
	MemoryLimit  document.Optional[int64]
	NetworkLimit document.Optional[int64]
	Memory       MemoryOptions
	// TmpfsVolumes has all tmpfs volumes of a job; reading converts tmpfs_path
	// and tmpfs_size to one of them.
	TmpfsVolumes []TmpfsVolume
	tmpfsSize    document.Optional[int64]
	// Network is HostNetwork or NoNetwork. Reading turns an amount into NetworkLimit.
	Network opt[string]
	// Disk is what the files of a job may take. Reading merges disk_space_limit and inode_limit into it.
	Disk       DiskRequest
	diskSpace  document.Optional[int64]
	inodeLimit document.Optional[int]
	tmpfsPath  document.Optional[string]

	JobTimeLimit          document.Optional[time.Duration]
	PrepareTimeLimit      document.Optional[time.Duration]
	InterruptionSignal    document.Optional[string]
	SignalRootProcessOnly document.Optional[bool]
	RestartExitCode       document.Optional[int]
	RestartCompletedJobs  document.Optional[bool]
	FailOnJobRestart      document.Optional[bool]

	// DockerImage is the name of the image that is the root of jobs. In an operation that has started it has a digest.
	DockerImage    document.Optional[string]
	LayerPaths     []document.Value
	WritableRootfs document.Optional[bool]
	GPUCheck       document.Optional[string]
	GPUCheckArgs   []string
	// Kubernetes is what the task says about its pods; null if nothing. Its driver reads it.
	Kubernetes document.Value

	SetContainerCPULimit     document.Optional[bool]
	IncludeMemoryMappedFiles document.Optional[bool]
	MaxStderrSize            document.Optional[int64]
	RedirectStdoutToStderr   document.Optional[bool]

	// Extras holds options that are known but not supported.
	Extras       document.Extras
	unrecognized document.Extras
}

// Networks of jobs.
const (
	HostNetwork = "host" // the node's
	NoNetwork   = "none" // the loopback device only
)

const (
	reasonImages   = "images come from docker_image"
	reasonTables   = "there are no tables"
	reasonCounted  = "there are no tables, but the memory estimate of the job proxy still includes them"
	reasonProfiler = "jobs are not profiled"
	reasonNoSpec   = "there are no speculative jobs"
)

var unsupportedTaskOptions = []unsupported{
	{reasonImages, []string{
		"system_layer_path", "enable_gpu_layers", "cuda_toolkit_version", "enable_porto", "enable_fuse", "gpu_check_layer_name",
	}},
	{reasonTables, []string{
		"output_paths", "output_streams", "format", "input_format", "output_format",
		"enable_input_table_index", "use_yamr_descriptors", "check_input_fully_consumed",
	}},
	{reasonCounted, []string{"job_io", "input_table_paths", "output_table_paths"}},
	{reasonProfiler, []string{"profilers", "enable_profiling", "monitoring", "custom_statistics_count_limit"}},
	{reasonNoSpec, []string{"job_speculation_timeout"}},
	{"the whole operation is one gang: use is_gang", []string{"gang_options"}},
	{"jobs are not assigned ports", []string{"port_count"}},
	{"jobs use the network of the node", []string{"network_project", "enable_rpc_proxy_in_job_proxy", "rpc_proxy_worker_thread_pool_size"}},
	{"the kernel's counters measure memory", []string{"use_smaps_memory_tracker", "use_porto_memory_tracking"}},
	{"core dumps are not collected", []string{"force_core_dump", "fail_job_on_core_dump"}},
	{"it does not apply to vanilla operations", []string{"deterministic", "task_title", "extra_environment"}},
}

var taskOptions = concat(
	[]document.Option[Task]{
		document.Plain("job_count", "How many jobs the task has. Required.",
			func(c *Task) *int { return &c.JobCount }, document.Between(document.Ints, 1, MaxJobCount)),
		document.Maybe("command", "What a job runs, with bash -c. Required.",
			func(c *Task) *opt[string] { return &c.Command }, document.Words),
		document.Plain("environment", "Environment variables for the command.",
			func(c *Task) *[]document.Named[string] { return &c.Environment }, environment),
		document.Plain("file_paths", "Files to put into the sandbox: paths of files in the tree, with the attributes file_name, executable and unpack, or maps with file_name and content. With unpack, a tar archive becomes a directory. Paths on the nodes only where node/files/allow permits them.",
			func(c *Task) *[]document.Value { return &c.FilePaths }, document.ListOf(filePath)),
		document.Maybe("copy_files", "Give each job copies of large files, which it may change, instead of the node's own read-only ones.",
			func(c *Task) *opt[bool] { return &c.CopyFiles }, switched.Default(false)),
		document.Maybe("cpu_limit", "Cores per job.",
			func(c *Task) *opt[int64] { return &c.CPULimit }, cpuAmount.Default(resource.CPU.Scale())),
		document.Maybe("gpu_limit", "GPUs per job.",
			func(c *Task) *opt[int64] { return &c.GPULimit }, gpuAmount.Default(0)),
		document.Maybe("memory_limit", "The most memory a job may use, including tmpfs; a job that uses more fails.",
			func(c *Task) *opt[int64] { return &c.MemoryLimit },
			document.Between(memoryAmount, 1, maxMemoryLimit).Default(512<<20)),
		document.Maybe("network_limit", "Units of network per job.",
			func(c *Task) *opt[int64] { return &c.NetworkLimit }, netAmount.Default(0)),
		document.Maybe("network", "host: jobs use their node's network. none: jobs have a network of their own, with nothing but the loopback device; nodes whose isolation level is none abort them. An amount is the same as network_limit.",
			func(c *Task) *opt[string] { return &c.Network }, network.Default(HostNetwork)),
	},
	document.Within(artifactOptions, func(c *Task) *Artifacts { return &c.Artifacts }),
	document.Within(memoryOptions, func(c *Task) *MemoryOptions { return &c.Memory }),
	[]document.Option[Task]{
		document.Plain("tmpfs_volumes", "File systems in memory. Their sizes must not sum to more than memory_limit, and none may be inside another.",
			func(c *Task) *[]TmpfsVolume { return &c.TmpfsVolumes }, document.ListOf(tmpfsTable.Type())),
		document.Maybe("tmpfs_path", "Path of a single tmpfs, instead of tmpfs_volumes.",
			func(c *Task) *opt[string] { return &c.tmpfsPath }, document.Words),
		document.Maybe("tmpfs_size", "Size of a single tmpfs, instead of tmpfs_volumes. Unset: memory_limit.",
			func(c *Task) *opt[int64] { return &c.tmpfsSize }, someMemory),
		document.Section("disk_request", "What the files of a job may take on its node. A job that takes more fails.",
			func(c *Task) *DiskRequest { return &c.Disk }, diskTable),
		document.Maybe("disk_space_limit", "Same as disk_request/disk_space.",
			func(c *Task) *opt[int64] { return &c.diskSpace }, someMemory),
		document.Maybe("inode_limit", "Same as disk_request/inode_count.",
			func(c *Task) *opt[int] { return &c.inodeLimit }, document.AtLeast(document.Ints, 1)),
		document.Maybe("job_time_limit", "A job that runs longer fails.",
			func(c *Task) *opt[time.Duration] { return &c.JobTimeLimit }, document.AtLeast(document.Durations, time.Second)).
			Alias("exec_time_limit"),
		document.Maybe("prepare_time_limit", "A job whose preparation takes longer is aborted.",
			func(c *Task) *opt[time.Duration] { return &c.PrepareTimeLimit },
			document.AtLeast(document.Durations, time.Minute).Default(45*time.Minute)),
		document.Maybe("interruption_signal", "The signal that a preempted job receives, so that it can finish on its own. Unset: the job is killed at once.",
			func(c *Task) *opt[string] { return &c.InterruptionSignal }, signal),
		document.Maybe("signal_root_process_only", "Send interruption_signal only to the command itself, not to the processes it started.",
			func(c *Task) *opt[bool] { return &c.SignalRootProcessOnly }, switched.Default(false)),
		document.Maybe("restart_exit_code", "An interrupted job that exits with this code restarts.",
			func(c *Task) *opt[int] { return &c.RestartExitCode }, document.Between(document.Ints, 1, 255)),
		document.Maybe("restart_completed_jobs", "Restart completed jobs. The operation then ends only on request.",
			func(c *Task) *opt[bool] { return &c.RestartCompletedJobs }, switched.Default(false)),
		document.Maybe("fail_on_job_restart", "Same as for the operation, for the jobs of this task.",
			func(c *Task) *opt[bool] { return &c.FailOnJobRestart }, switched.Default(false)),
		document.Maybe("docker_image", "The container image that is the root of jobs: [REGISTRY/]IMAGE[:TAG][@DIGEST]. A name without a registry is an image of the cluster (weir image load), or one that nodes have themselves. "+
			"The tag is resolved once, when the operation starts. Unset: jobs see the programs of their node.",
			func(c *Task) *opt[string] { return &c.DockerImage }, imageNames),
		document.Plain("layer_paths", "Files of the tree that are the root of jobs instead of an image: tar archives, plain or packed with gzip or zstd, the uppermost first. Their contents are fixed when the operation starts.",
			func(c *Task) *[]document.Value { return &c.LayerPaths }, document.ListOf(layerPath)),
		document.Maybe("make_rootfs_writable", "Let jobs change files of their image, as far as permissions allow. The changes count as disk space and end with the job.",
			func(c *Task) *opt[bool] { return &c.WritableRootfs }, switched.Default(false)),
		document.Maybe("gpu_check_binary_path", "A program that runs before the command of a job with GPUs, with the same devices and files. If it fails, the job is aborted and starts on other GPUs.",
			func(c *Task) *opt[string] { return &c.GPUCheck }, document.Words),
		document.Plain("gpu_check_binary_args", "Arguments of gpu_check_binary_path.",
			func(c *Task) *[]string { return &c.GPUCheckArgs }, document.ListOf(document.Texts)),
		document.Plain("kubernetes", "What the pods of the task have beside what its other options say: node_selector, affinity, tolerations, service_account, image_pull_secrets, volumes, security_context, pod_security_context, runtime_class, labels, annotations, evictable. It has an effect only on nodes of a Kubernetes cluster.",
			func(c *Task) *document.Value { return &c.Kubernetes }, document.Anything),
		document.Maybe("set_container_cpu_limit", "Make cpu_limit a hard limit, even if the node has idle cores.",
			func(c *Task) *opt[bool] { return &c.SetContainerCPULimit }, switched.Default(false)),
		document.Maybe("include_memory_mapped_files", "Count memory-mapped files as the job's memory.",
			func(c *Task) *opt[bool] { return &c.IncludeMemoryMappedFiles }, switched.Default(true)),
		document.Maybe("max_stderr_size", "How much of stderr is kept, from its end.",
			func(c *Task) *opt[int64] { return &c.MaxStderrSize }, document.Between(memoryAmount, 1, 1<<30).Default(5<<20)),
		document.Maybe("redirect_stdout_to_stderr", "Write stdout to stderr.",
			func(c *Task) *opt[bool] { return &c.RedirectStdoutToStderr }, switched.Default(false)),
	},
	kept(func(c *Task) *document.Extras { return &c.Extras }, unsupportedTaskOptions),
)

var taskTable = document.NewTable(taskOptions...).KeepingUnknown(func(c *Task) *document.Extras { return &c.unrecognized })

func concat[T any](lists ...[]T) (all []T) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// complete fills in defaults and converts options to their canonical form.
func (t *Task) complete(spec *Spec) {
	memory := t.Memory // its defaults apply after the options given for all tasks
	taskTable.FillDefaults(t)
	t.Memory = memory
	if path, ok := t.tmpfsPath.Get(); ok {
		t.TmpfsVolumes = []TmpfsVolume{{Path: path, Size: t.tmpfsSize.Or(t.MemoryLimit.Value())}}
	}
	t.tmpfsPath, t.tmpfsSize = opt[string]{}, opt[int64]{}
	t.Memory.complete(&spec.Memory, float64(t.TmpfsSize())/float64(t.MemoryLimit.Value()))
}

// TmpfsSize returns the total size of a job's tmpfs volumes.
func (t *Task) TmpfsSize() (total int64) {
	for _, v := range t.TmpfsVolumes {
		total += v.Size
	}
	return total
}

// JobResources returns the resources that a job needs on a node with this
// memory reserve.
func (t *Task) JobResources(reserve int64) resource.Amounts {
	return resource.Amounts{
		resource.UserSlots: 1,
		resource.CPU:       t.CPULimit.Value(),
		resource.GPU:       t.GPULimit.Value(),
		resource.Memory:    reserve,
		resource.Network:   t.NetworkLimit.Value(),
	}
}
