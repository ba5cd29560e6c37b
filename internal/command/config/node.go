package config

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Node is the section of `weir node`. After Load every setting that has a default has a value.
type Node struct {
	Schedulers       opt[[]string]
	Name             opt[string]
	Tags             opt[[]string]
	Resources        opt[resource.Partial]
	DataDir          opt[string]
	Replace          opt[bool]
	Token, TokenFile opt[string]
	TLS              ClientTLS
	Log              Log
	Listen           opt[string]
	Pprof            opt[bool]
	Cgroup           Cgroup
	Supervisor       opt[bool]
	OCIRuntime       opt[string]
	Isolation        Isolation
	Shells           opt[bool]
	Files            NodeFiles
	Images           NodeImages
	Heartbeat        Heartbeat
	Disk             NodeDisk
	GPUs             NodeGPUs
	Health           NodeHealth
	Memory           NodeMemory

	// Extras are options of YTsaurus's nodes that have no effect here.
	Extras document.Extras
}

// ClientTLS configures whom a node trusts and how it authenticates.
type ClientTLS struct {
	CA, Certificate, Key, ServerName opt[string]
	Enabled                          opt[bool]
}

func clientTLS() *group[ClientTLS] {
	return newGroup([]row[ClientTLS]{
		fixed("enabled", "Use TLS for connections to the schedulers.",
			func(c *ClientTLS) *opt[bool] { return &c.Enabled }, document.Bools.Default(false)).common(),
		fixed("ca", "File with the authorities, in PEM, that issued the schedulers' certificates. Unset: the system's authorities.",
			func(c *ClientTLS) *opt[string] { return &c.CA }, document.Words).common(),
		fixed("certificate", "File with the node's own certificate in PEM, presented instead of a token.",
			func(c *ClientTLS) *opt[string] { return &c.Certificate }, document.Words).common(),
		fixed("key", "File with its private key in PEM.",
			func(c *ClientTLS) *opt[string] { return &c.Key }, document.Words).common(),
		fixed("server_name", "The name that the schedulers' certificates must carry. Unset: the host in their addresses.",
			func(c *ClientTLS) *opt[string] { return &c.ServerName }, names),
	})
}

// Cgroup configures how jobs are contained.
type Cgroup struct {
	Mode, Parent opt[string]
	ProcessLimit opt[int] // for each core
}

func cgroup() *group[Cgroup] {
	return newGroup([]row[Cgroup]{
		fixed("mode", "Which version of control groups contains jobs. auto uses what the machine has and otherwise falls back to process limits with a warning; v1 and v2 refuse to start if the machine lacks that version; off uses none.",
			func(c *Cgroup) *opt[string] { return &c.Mode }, wordsOf("auto", "v1", "v2", "off").Default("auto")).common(),
		fixed("parent", "The control group below which the control groups of jobs are created.",
			func(c *Cgroup) *opt[string] { return &c.Parent }, names.Default("weir")),
		fixed("process_limit_per_core", "How many processes and threads a job may have per core of its cpu_limit, rounded up: a cpu_limit of 1.5 counts as 2. The job cannot start "+
			"more. Without control groups the limit applies to the user that jobs run as, and not at all if that is root.",
			func(c *Cgroup) *opt[int] { return &c.ProcessLimit }, document.Between(document.Ints, 10, 1_000_000).Default(1000)),
	})
}

// Isolation configures how jobs are kept apart from the node and from each other.
type Isolation struct {
	Level, RunAs, UIDs       opt[string]
	ReadOnly, Writable, Hide opt[[]string]
	ShareWritable            opt[bool]
	AllowPtrace              opt[bool]
}

func isolation() *group[Isolation] {
	return newGroup([]row[Isolation]{
		fixed("level", "What a job sees of the machine. full: the programs and libraries of the machine, its own processes and its sandbox, without capabilities and with a filter of system calls. shared_files: the same, with all files of the machine, read-only outside "+
			"the sandbox. none: everything. The node does not start if the machine does not allow the level. Unset: full, or else the strongest level that the machine allows, with an alert.",
			func(c *Isolation) *opt[string] { return &c.Level }, wordsOf("full", "shared_files", "none")).common(),
		fixed("run_as", "The user that jobs run as. job: one of uids for each job. user: the account in /etc/passwd with the name of the operation's user, from id 1000 on; "+
			"if there is none, the job is aborted with the reason no_local_user. agent: the agent's user. Unset: job if the agent is root, otherwise agent; with the level none, agent.",
			func(c *Isolation) *opt[string] { return &c.RunAs }, wordsOf("job", "user", "agent")),
		fixed("uids", "The user ids of jobs, and their group ids. No account of the machine may have one of them.",
			func(c *Isolation) *opt[string] { return &c.UIDs }, document.Words.Default("1900000000-1900065535")),
		fixed("readonly_paths", "Paths of the machine that jobs with the level full see besides /usr and /etc.",
			func(c *Isolation) *opt[[]string] { return &c.ReadOnly }, paths),
		fixed("writable_paths", "Paths of the machine that isolated jobs may write to, as far as permissions allow.",
			func(c *Isolation) *opt[[]string] { return &c.Writable }, paths),
		fixed("share_writable_paths", "Let jobs with user ids of their own have writable_paths. Ids are used again: a job may get the id of one that has ended, and with it the files that it left there. Without this the node does not start.",
			func(c *Isolation) *opt[bool] { return &c.ShareWritable }, document.Bools.Default(false)),
		fixed("hide", "Paths of the machine that isolated jobs must not see.",
			func(c *Isolation) *opt[[]string] { return &c.Hide }, paths.Default([]string{"/etc/weir", "/etc/ssh", "/etc/kubernetes"})),
		fixed("allow_ptrace", "Let isolated jobs trace their own processes, as debuggers do.",
			func(c *Isolation) *opt[bool] { return &c.AllowPtrace }, document.Bools.Default(false)),
	})
}

// Heartbeat configures how a node reports.
type Heartbeat struct {
	Period, Splay, MinBackoff, MaxBackoff, Timeout opt[time.Duration]
	Multiplier                                     opt[float64]
}

func heartbeatGroup() *group[Heartbeat] {
	return newGroup([]row[Heartbeat]{
		fixed("period", "How often the node reports. Unset: what the scheduler requests.",
			func(c *Heartbeat) *opt[time.Duration] { return &c.Period }, periods).common(),
		fixed("splay", "If the node sets its own period, its reports are spread at random over this time. Unset: a fifth of the period.",
			func(c *Heartbeat) *opt[time.Duration] { return &c.Splay }, timeouts),
		fixed("timeout", "How long the node waits for an answer.",
			func(c *Heartbeat) *opt[time.Duration] { return &c.Timeout }, periods.Default(time.Minute)),
		fixed("min_backoff", "The first wait after an error, or after an answer that scheduling was skipped.",
			func(c *Heartbeat) *opt[time.Duration] { return &c.MinBackoff }, periods.Default(5*time.Second)),
		fixed("max_backoff", "The longest wait.",
			func(c *Heartbeat) *opt[time.Duration] { return &c.MaxBackoff }, periods.Default(time.Minute)),
		fixed("backoff_multiplier", "The factor by which the wait grows from one error to the next.",
			func(c *Heartbeat) *opt[float64] { return &c.Multiplier }, document.Between(document.Numbers, 1, 100).Default(2)),
	})
}

// NodeDisk configures how much of data_dir's file system must be free.
type NodeDisk struct {
	LowRatio, FullRatio, CriticalRatio opt[float64]
	LowSize, FullSize, CriticalSize    opt[int64]
	Quota                              opt[string]
	DefaultLimit                       opt[int64]
}

func nodeDiskGroup() *group[NodeDisk] {
	return newGroup([]row[NodeDisk]{
		fixed("low_ratio", "A node with a smaller part of its bytes or files free raises an alert.",
			func(c *NodeDisk) *opt[float64] { return &c.LowRatio }, ratios.Default(0.1)),
		fixed("low_size", "A node with fewer bytes free raises an alert. It counts for at most a tenth of the file system.",
			func(c *NodeDisk) *opt[int64] { return &c.LowSize }, memory.Default(10<<30)),
		fixed("full_ratio", "A node with a smaller part of its bytes or files free takes no jobs until a fifth more than that is free.",
			func(c *NodeDisk) *opt[float64] { return &c.FullRatio }, ratios.Default(0.03)),
		fixed("full_size", "A node with fewer bytes free takes no jobs. It counts for at most a tenth of the file system.",
			func(c *NodeDisk) *opt[int64] { return &c.FullSize }, memory.Default(2<<30)),
		fixed("critical_ratio", "A node with a smaller part of its bytes or files free aborts jobs that take more disk space than their disk_request, the largest excess first.",
			func(c *NodeDisk) *opt[float64] { return &c.CriticalRatio }, ratios.Default(0.01)),
		fixed("critical_size", "The same for the bytes that are free. It counts for at most a tenth of the file system.",
			func(c *NodeDisk) *opt[int64] { return &c.CriticalSize }, memory.Default(512<<20)),
		fixed("quota", "How the files of a job are held to its disk_request. project: by a project quota of the file system; a node whose file system has none does not start. watch: the node adds them up every few seconds, and a job that takes more fails. auto: project if the file system of data_dir can, else watch. none: not at all.",
			func(c *NodeDisk) *opt[string] { return &c.Quota }, wordsOf("auto", "project", "watch", "none").Default("auto")),
		fixed("default_limit", "What the files of a job may take that has no disk_request. 0: any amount.",
			func(c *NodeDisk) *opt[int64] { return &c.DefaultLimit }, memory.Default(10<<30)),
	})
}

// NodeHealth configures a command that says whether the node is well.
type NodeHealth struct {
	Command, OnFailure opt[string]
	Period, Timeout    opt[time.Duration]
}

func nodeHealthGroup() *group[NodeHealth] {
	return newGroup([]row[NodeHealth]{
		fixed("command", "A shell command that ends with 0 if the node is well, with 1 if it must not take jobs, and with 2 if people should know. The first line that it writes is the reason. Unset: none.",
			func(c *NodeHealth) *opt[string] { return &c.Command }, document.Texts),
		fixed("period", "How often the node runs the command.",
			func(c *NodeHealth) *opt[time.Duration] { return &c.Period }, periods.Default(time.Minute)),
		fixed("timeout", "How long the command may run. Then it is killed and counts as failed.",
			func(c *NodeHealth) *opt[time.Duration] { return &c.Timeout }, periods.Default(time.Minute)),
		fixed("on_failure", "What a failure does. drain: the node takes no jobs after the first check or after three failures in a row, until the command has succeeded three times in a row. alert: it only raises an alert.",
			func(c *NodeHealth) *opt[string] { return &c.OnFailure }, wordsOf("drain", "alert").Default("drain")),
	})
}

// NodeFiles configures which files of the node jobs may use.
type NodeFiles struct {
	Allow     opt[[]string]
	CacheSize opt[int64]
}

func nodeFilesGroup() *group[NodeFiles] {
	return newGroup([]row[NodeFiles]{
		fixed("allow", "Directories whose files jobs may name in file_paths. Jobs that name other files of the node fail. Links that lead out of them are not followed.",
			func(c *NodeFiles) *opt[[]string] { return &c.Allow }, paths),
		fixed("cache_size", "How much of data_dir the files of operations may take. Those that no job uses are removed first, least recently used first.",
			func(c *NodeFiles) *opt[int64] { return &c.CacheSize }, memory.Default(10<<30)),
	})
}

// NodeGPUs configures how a node finds its GPUs and reads their state.
type NodeGPUs struct {
	Command, Tool, CDI        opt[string]
	Period                    opt[time.Duration]
	Libraries, CDIDirectories opt[[]string]
	Fake                      opt[int]
}

func nodeGPUGroup() *group[NodeGPUs] {
	return newGroup([]row[NodeGPUs]{
		fixed("tool", "The program that reads the state of NVIDIA's GPUs: nvidia-smi, or its path. Without it GPUs work, but nobody notices a broken one.",
			func(c *NodeGPUs) *opt[string] { return &c.Tool }, document.Words.Default("nvidia-smi")),
		fixed("period", "How often the node reads the state of its GPUs.",
			func(c *NodeGPUs) *opt[time.Duration] { return &c.Period }, periods.Default(time.Minute)),
		fixed("command", `A shell command that lists the GPUs of another maker, with a line of JSON for each: {"id": "card-0", "devices": ["/dev/accel0"], "shared": ["/dev/accelctl"], "model": "X1", "memory": 34359738368, "numa_node": 0}. Only id and devices are required.`,
			func(c *NodeGPUs) *opt[string] { return &c.Command }, document.Texts),
		fixed("libraries", "Directories with the driver's libraries outside /usr, which jobs with GPUs and the isolation level full see read-only.",
			func(c *NodeGPUs) *opt[[]string] { return &c.Libraries }, paths),
		fixed("cdi", "The kind of devices in CDI files, such as nvidia.com/gpu. What the files say about a GPU of the node, jobs that have it get: device files, variables, and with the isolation level full also mounts, read-only. If the node finds no GPUs otherwise and this is set, it offers the devices of this kind. Unset: nvidia.com/gpu, for GPUs that the driver has.",
			func(c *NodeGPUs) *opt[string] { return &c.CDI }, document.Words),
		fixed("cdi_directories", "Where CDI files are.",
			func(c *NodeGPUs) *opt[[]string] { return &c.CDIDirectories }, paths.Default([]string{"/etc/cdi", "/var/run/cdi"})),
		fixed("fake", "For tests: offer this many devices that do nothing. The text in the file gpu-fault-INDEX of data_dir makes one unwell.",
			func(c *NodeGPUs) *opt[int] { return &c.Fake }, document.Between(document.Ints, 0, 1024).Default(0)),
	})
}

// NodeMemory configures how a node counts its jobs' memory and what it does when memory is short.
type NodeMemory struct {
	CheckLimit, AbortOnOverdraft                opt[bool]
	Ahead, Watermark                            opt[int64]
	OOMScoreAdj                                 opt[int]
	WatermarkMultiplier                         opt[float64]
	WatchdogPeriod, AdjustmentPeriod            opt[time.Duration]
	MemoryOverdraftTimeout, CPUOverdraftTimeout opt[time.Duration]
}

func nodeMemoryRows() []row[NodeMemory] {
	return []row[NodeMemory]{
		fixed("check_user_job_memory_limit", "Fail a job that uses more than its memory_limit.",
			func(c *NodeMemory) *opt[bool] { return &c.CheckLimit }, document.Bools.Default(true)),
		fixed("always_abort_on_memory_reserve_overdraft", "Abort a job as soon as it exceeds its reserve, even if there is free memory.",
			func(c *NodeMemory) *opt[bool] { return &c.AbortOnOverdraft }, document.Bools.Default(false)),
		fixed("oom_score_adj_on_exceeded_memory_reserve", "The oom_score_adj of a job's processes while they use more than their reserve, and of the job proxy while it uses more than its own. If the machine runs out of memory, the "+
			"kernel kills these processes before others; with 1000, before all others. At other times, and if this is unset, the processes of jobs have 300.",
			func(c *NodeMemory) *opt[int] { return &c.OOMScoreAdj }, document.Between(document.Ints, 301, 1000)),
		fixed("ahead_memory_reserve", "How much more memory than it uses a growing job requests.",
			func(c *NodeMemory) *opt[int64] { return &c.Ahead }, memory.Default(100<<20)),
		fixed("memory_watchdog_period", "How often the memory of a job is measured.",
			func(c *NodeMemory) *opt[time.Duration] { return &c.WatchdogPeriod }, periods.Default(time.Second)),
		fixed("resource_adjustment_period", "How often the node compares what jobs use with what it has.",
			func(c *NodeMemory) *opt[time.Duration] { return &c.AdjustmentPeriod }, periods.Default(5*time.Second)),
		fixed("memory_overdraft_timeout", "How long jobs may use more memory than the node has before the agent aborts the newest of those above their reserves. If the node has less than the sum of all reserves, the newest of the others follow.",
			func(c *NodeMemory) *opt[time.Duration] { return &c.MemoryOverdraftTimeout }, timeouts.Default(5*time.Minute)),
		fixed("cpu_overdraft_timeout", "How long jobs may hold more CPU than the node has before the agent aborts the newest.",
			func(c *NodeMemory) *opt[time.Duration] { return &c.CPUOverdraftTimeout }, timeouts.Default(10*time.Minute)),
		fixed("free_memory_watermark", "Memory of the machine that is not offered to the scheduler. Reserves do not use it, but jobs that outgrow their reserves may, and are not aborted for it. It is not subtracted from an amount that resources sets and the machine has.",
			func(c *NodeMemory) *opt[int64] { return &c.Watermark }, memory.Default(0)),
		fixed("free_user_job_memory_watermark_multiplier", "The fraction of the remaining memory, or of the amount that resources sets, that is not offered either. Jobs may outgrow their reserves into it as well.",
			func(c *NodeMemory) *opt[float64] { return &c.WatermarkMultiplier }, ratios.Default(0)),
	}
}

func nodeGroup() *group[Node] {
	return newGroup(
		[]row[Node]{
			fixed("schedulers", "Addresses of all schedulers; the node finds the leader among them.",
				func(c *Node) *opt[[]string] { return &c.Schedulers }, oneOrMoreDistinct(peers)).alias("scheduler").common(),
			fixed("name", "The node's name. Unset: the name of the machine.",
				func(c *Node) *opt[string] { return &c.Name }, names).common(),
			fixed("tags", "Tags by which node filters select the node, besides its name.",
				func(c *Node) *opt[[]string] { return &c.Tags }, tags).common(),
			fixed("resources", "What the node offers to jobs. Resources left out are detected.",
				func(c *Node) *opt[resource.Partial] { return &c.Resources }, resources).common(),
			fixed("data_dir", "Directory for sandboxes, unacknowledged results, and the agent's state.",
				func(c *Node) *opt[string] { return &c.DataDir }, document.Words.Default("/var/lib/weir/node")).common(),
			fixed("replace", "Take over the name of another live agent. The scheduler gives up that agent's jobs and starts them again.",
				func(c *Node) *opt[bool] { return &c.Replace }, document.Bools.Default(false)).common(),
			fixed("token", "The node's token. It has no flag; prefer token_file.",
				func(c *Node) *opt[string] { return &c.Token }, secretType("a token, which has no spaces")).secret().noFlag(),
			fixed("token_file", "File with the node's token.",
				func(c *Node) *opt[string] { return &c.TokenFile }, document.Words).common(),
			part("tls", "Keys and certificates.", func(c *Node) *ClientTLS { return &c.TLS }, clientTLS()),
			part("log", "The agent's log.", func(c *Node) *Log { return &c.Log }, logGroup()),
			fixed("listen", "The address where the node serves /healthz and /readyz. Unset: none.",
				func(c *Node) *opt[string] { return &c.Listen }, addresses).common(),
			fixed("pprof", "Also serve profiles of the process there, under /debug/pprof, to every client that can connect.",
				func(c *Node) *opt[bool] { return &c.Pprof }, document.Bools.Default(false)),
			part("cgroup", "How jobs are contained.", func(c *Node) *Cgroup { return &c.Cgroup }, cgroup()),
			fixed("supervisor", "Run all jobs of the node in one small process. false: a larger process for each job.",
				func(c *Node) *opt[bool] { return &c.Supervisor }, document.Bools.Default(true)),
			fixed("oci_runtime", "An OCI runtime such as runc, or its path, that makes the containers of jobs in images. It costs several times the CPU time of the node's own way. Unset: the node's own way.",
				func(c *Node) *opt[string] { return &c.OCIRuntime }, document.Words),
			part("isolation", "How jobs are kept apart from the node and from each other.", func(c *Node) *Isolation { return &c.Isolation }, isolation()),
			fixed("shells", "Let users who may manage an operation run shells and commands in its jobs: weir job shell, weir job exec.",
				func(c *Node) *opt[bool] { return &c.Shells }, document.Bools.Default(true)),
			part("heartbeat", "How the node reports.", func(c *Node) *Heartbeat { return &c.Heartbeat }, heartbeatGroup()),
			part("files", "Which files of the node jobs may use.", func(c *Node) *NodeFiles { return &c.Files }, nodeFilesGroup()),
			part("images", "Container images: where they come from, and how many the node keeps.", func(c *Node) *NodeImages { return &c.Images }, nodeImagesGroup()),
			part("health", "A command of the administrator that says whether the node is well.", func(c *Node) *NodeHealth { return &c.Health }, nodeHealthGroup()),
			part("gpus", "How the node finds its GPUs and reads their state. It offers those that the driver has, or the first of them if resources sets a smaller number.", func(c *Node) *NodeGPUs { return &c.GPUs }, nodeGPUGroup()),
			part("disk", "How much of the file system of data_dir must be free.", func(c *Node) *NodeDisk { return &c.Disk }, nodeDiskGroup()),
		},
		within(nodeMemoryRows(), func(c *Node) *NodeMemory { return &c.Memory }),
		kept(func(c *Node) *document.Extras { return &c.Extras }, "all memory that a node offers is for jobs",
			"check_user_jobs_category_limit_on_resource_update"),
	)
}

// oneOrMoreDistinct is a list of different items, or one item for a list of one.
func oneOrMoreDistinct(item document.Type[string]) document.Type[[]string] {
	list := document.Distinct(document.ListOf(item), func(a, b string) bool { return a == b })
	return document.NewType(document.Shape{Kind: "list", Says: item.Shape().Says + ", or a list of such", Item: list.Shape().Item},
		func(r *document.Reader, v document.Value) ([]string, bool) {
			if v.Kind() != document.ListKind {
				v = document.List(v).At(v.Position())
			}
			return document.ReadAs(list, r, v)
		},
		func(texts []string, _ document.Style) document.Value {
			items := make([]document.Value, len(texts))
			for i, text := range texts {
				items[i] = document.Text(text)
			}
			return document.List(items...)
		},
		sameTexts)
}
