package config

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Node is the section of `weir node`. After Load every setting that has a default
// has a value.
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
	Heartbeat        Heartbeat
	Disk             NodeDisk
	Memory           NodeMemory

	// Extras are options of YTsaurus's nodes that have no effect here.
	Extras document.Extras
}

// ClientTLS is whom a node believes and how it proves who it is.
type ClientTLS struct {
	CA, Certificate, Key, ServerName opt[string]
	Enabled                          opt[bool]
}

var clientTLS = newGroup([]row[ClientTLS]{
	fixed("enabled", "Speak TLS to the schedulers.",
		func(c *ClientTLS) *opt[bool] { return &c.Enabled }, document.Bools.Default(false)).common(),
	fixed("ca", "File with the authorities, in PEM, that the schedulers' certificates come from. Unset: those of the system.",
		func(c *ClientTLS) *opt[string] { return &c.CA }, document.Words).common(),
	fixed("certificate", "File with the node's own certificate in PEM, to show in place of a token.",
		func(c *ClientTLS) *opt[string] { return &c.Certificate }, document.Words).common(),
	fixed("key", "File with its private key in PEM.",
		func(c *ClientTLS) *opt[string] { return &c.Key }, document.Words).common(),
	fixed("server_name", "The name that the schedulers' certificates must have. Unset: the host of their addresses.",
		func(c *ClientTLS) *opt[string] { return &c.ServerName }, names),
})

// Cgroup is how jobs are contained.
type Cgroup struct {
	Mode, Parent opt[string]
	ProcessLimit opt[int] // for each core
}

var cgroup = newGroup([]row[Cgroup]{
	fixed("mode", "Which kind of control groups holds jobs. auto takes what the machine has and falls back to process limits, visibly; v1 and v2 refuse to start where the machine has no such ones; off never uses any.",
		func(c *Cgroup) *opt[string] { return &c.Mode }, wordsOf("auto", "v1", "v2", "off").Default("auto")).common(),
	fixed("parent", "The control group below which those of jobs are made.",
		func(c *Cgroup) *opt[string] { return &c.Parent }, names.Default("weir")),
	fixed("process_limit_per_core", "How many processes and threads a job may have for each core of its cpu_limit, or part of one: "+
		"with a cpu_limit of 1.5 twice as many. More cannot be started. Without control groups it is a limit of the user that jobs run as, and none if that is root.",
		func(c *Cgroup) *opt[int] { return &c.ProcessLimit }, document.Between(document.Ints, 10, 1_000_000).Default(1000)),
})

// Heartbeat is how a node reports.
type Heartbeat struct {
	Period, Splay, MinBackoff, MaxBackoff, Timeout opt[time.Duration]
	Multiplier                                     opt[float64]
}

var heartbeatGroup = newGroup([]row[Heartbeat]{
	fixed("period", "How often the node reports. Unset: what the scheduler asks for.",
		func(c *Heartbeat) *opt[time.Duration] { return &c.Period }, periods).common(),
	fixed("splay", "Reports of a node with a period of its own are spread at random over so much time. Unset: a fifth of the period.",
		func(c *Heartbeat) *opt[time.Duration] { return &c.Splay }, timeouts),
	fixed("timeout", "How long the node waits for an answer.",
		func(c *Heartbeat) *opt[time.Duration] { return &c.Timeout }, periods.Default(time.Minute)),
	fixed("min_backoff", "The first wait after an error or an answer that scheduling was skipped.",
		func(c *Heartbeat) *opt[time.Duration] { return &c.MinBackoff }, periods.Default(5*time.Second)),
	fixed("max_backoff", "The longest such wait.",
		func(c *Heartbeat) *opt[time.Duration] { return &c.MaxBackoff }, periods.Default(time.Minute)),
	fixed("backoff_multiplier", "How the wait grows from one error to the next.",
		func(c *Heartbeat) *opt[float64] { return &c.Multiplier }, document.Between(document.Numbers, 1, 100).Default(2)),
})

// NodeDisk is how much of the file system of data_dir must be free.
type NodeDisk struct {
	LowRatio, FullRatio opt[float64]
	LowSize, FullSize   opt[int64]
}

var nodeDiskGroup = newGroup([]row[NodeDisk]{
	fixed("low_ratio", "A node with a smaller part of its bytes or files free raises an alert.",
		func(c *NodeDisk) *opt[float64] { return &c.LowRatio }, ratios.Default(0.1)),
	fixed("low_size", "A node with fewer bytes free raises an alert. It counts for at most a tenth of the file system.",
		func(c *NodeDisk) *opt[int64] { return &c.LowSize }, memory.Default(10<<30)),
	fixed("full_ratio", "A node with a smaller part of its bytes or files free takes no jobs until a fifth more than that is free.",
		func(c *NodeDisk) *opt[float64] { return &c.FullRatio }, ratios.Default(0.03)),
	fixed("full_size", "A node with fewer bytes free takes no jobs. It counts for at most a tenth of the file system.",
		func(c *NodeDisk) *opt[int64] { return &c.FullSize }, memory.Default(2<<30)),
})

// NodeMemory is how a node counts the memory of its jobs and what it does when
// there is too little.
type NodeMemory struct {
	CheckLimit, AbortOnOverdraft                opt[bool]
	Ahead, Watermark                            opt[int64]
	OOMScoreAdj                                 opt[int]
	WatermarkMultiplier                         opt[float64]
	WatchdogPeriod, AdjustmentPeriod            opt[time.Duration]
	MemoryOverdraftTimeout, CPUOverdraftTimeout opt[time.Duration]
}

var nodeMemoryRows = []row[NodeMemory]{
	fixed("check_user_job_memory_limit", "Fail a job that uses more than its memory_limit.",
		func(c *NodeMemory) *opt[bool] { return &c.CheckLimit }, document.Bools.Default(true)),
	fixed("always_abort_on_memory_reserve_overdraft", "Abort a job as soon as it uses more than its reserve, even if there is free memory.",
		func(c *NodeMemory) *opt[bool] { return &c.AbortOnOverdraft }, document.Bools.Default(false)),
	fixed("oom_score_adj_on_exceeded_memory_reserve", "While the processes of a job use more than their reserve, they have this oom_score_adj, "+
		"and the kernel kills them before others if the machine runs out of memory; so has the job proxy while it is above its own. "+
		"1000 is before everybody else. Otherwise, and if this is unset, processes of jobs have 300.",
		func(c *NodeMemory) *opt[int] { return &c.OOMScoreAdj }, document.Between(document.Ints, 301, 1000)),
	fixed("ahead_memory_reserve", "A job that grows asks for so much more than it uses.",
		func(c *NodeMemory) *opt[int64] { return &c.Ahead }, memory.Default(100<<20)),
	fixed("memory_watchdog_period", "How often the memory of a job is measured.",
		func(c *NodeMemory) *opt[time.Duration] { return &c.WatchdogPeriod }, periods.Default(time.Second)),
	fixed("resource_adjustment_period", "How often the node compares what jobs use with what it has.",
		func(c *NodeMemory) *opt[time.Duration] { return &c.AdjustmentPeriod }, periods.Default(5*time.Second)),
	fixed("memory_overdraft_timeout", "How long jobs may take more memory than the node has before the newest of those above their reserves are aborted. If it has less than all reserves together, the newest others follow.",
		func(c *NodeMemory) *opt[time.Duration] { return &c.MemoryOverdraftTimeout }, timeouts.Default(5*time.Minute)),
	fixed("cpu_overdraft_timeout", "How long jobs may hold more CPU than the node has before the newest are aborted.",
		func(c *NodeMemory) *opt[time.Duration] { return &c.CPUOverdraftTimeout }, timeouts.Default(10*time.Minute)),
	fixed("free_memory_watermark", "Memory of the machine that is not offered to the scheduler. No reserve is in it, but jobs that outgrow theirs may use it, and none is aborted for that. It is not taken from an amount that resources give and the machine has.",
		func(c *NodeMemory) *opt[int64] { return &c.Watermark }, memory.Default(0)),
	fixed("free_user_job_memory_watermark_multiplier", "The part of the remaining memory, or of the amount that resources give, that is not offered either. Jobs may outgrow their reserves into it alike.",
		func(c *NodeMemory) *opt[float64] { return &c.WatermarkMultiplier }, ratios.Default(0)),
}

var nodeGroup = newGroup(
	[]row[Node]{
		fixed("schedulers", "Addresses of all schedulers; the leader among them is found.",
			func(c *Node) *opt[[]string] { return &c.Schedulers }, oneOrMoreDistinct(peers)).alias("scheduler").common(),
		fixed("name", "What the node is called. Unset: the name of the machine.",
			func(c *Node) *opt[string] { return &c.Name }, names).common(),
		fixed("tags", "Words that node filters select nodes by, besides its name.",
			func(c *Node) *opt[[]string] { return &c.Tags }, tags).common(),
		fixed("resources", "What the node offers to jobs. Resources that are not given are detected.",
			func(c *Node) *opt[resource.Partial] { return &c.Resources }, resources).common(),
		fixed("data_dir", "Directory for sandboxes, results that are not acknowledged yet, and what the node must remember.",
			func(c *Node) *opt[string] { return &c.DataDir }, document.Words.Default("/var/lib/weir/node")).common(),
		fixed("replace", "Take the name from another agent that is registered under it and lives. Its jobs are given up and start again elsewhere.",
			func(c *Node) *opt[bool] { return &c.Replace }, document.Bools.Default(false)).common(),
		fixed("token", "The token that the node shows. It has no flag; a file or token_file is better.",
			func(c *Node) *opt[string] { return &c.Token }, secretType("a token, which has no spaces")).secret().noFlag(),
		fixed("token_file", "File with that token.",
			func(c *Node) *opt[string] { return &c.TokenFile }, document.Words).common(),
		part("tls", "Keys and certificates.", func(c *Node) *ClientTLS { return &c.TLS }, clientTLS),
		part("log", "What the node says about itself.", func(c *Node) *Log { return &c.Log }, logGroup),
		fixed("listen", "Where the node serves /healthz and /readyz. Unset: nowhere.",
			func(c *Node) *opt[string] { return &c.Listen }, addresses).common(),
		fixed("pprof", "Serve profiles of the process there too, under /debug/pprof: to everybody who reaches it.",
			func(c *Node) *opt[bool] { return &c.Pprof }, document.Bools.Default(false)),
		part("cgroup", "How jobs are contained.", func(c *Node) *Cgroup { return &c.Cgroup }, cgroup),
		part("heartbeat", "How the node reports.", func(c *Node) *Heartbeat { return &c.Heartbeat }, heartbeatGroup),
		part("disk", "How much of the file system of data_dir must be free.", func(c *Node) *NodeDisk { return &c.Disk }, nodeDiskGroup),
	},
	within(nodeMemoryRows, func(c *Node) *NodeMemory { return &c.Memory }),
	kept(func(c *Node) *document.Extras { return &c.Extras }, "all memory that a node offers is for jobs",
		"check_user_jobs_category_limit_on_resource_update"),
)

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
