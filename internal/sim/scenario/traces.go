package scenario

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/trace"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// traceFormat is a format of recorded workloads.
type traceFormat uint8

const (
	formatSWF traceFormat = iota
	formatAlibaba
)

// userPools is where the operations of a trace run.
type userPools uint8

const (
	poolPerUser userPools = iota
	ephemeralPools
	onePool
)

type traceDocument struct {
	name      opt[string]
	format    opt[traceFormat]
	file      opt[string]
	nodes     opt[string]
	users     opt[userPools]
	from, to  opt[time.Duration]
	scale     opt[float64]
	count     opt[int]
	jobCPU    opt[int]
	gang      opt[bool]
	memory    opt[trace.MemorySource]
	default_  opt[resource.Partial]
	gpuParts  opt[bool]
	userSlots opt[int]
	options   pooltree.OperationOptions
}

var traceTable = document.NewTable(slices.Concat(
	[]document.Option[traceDocument]{
		document.Maybe("name", "A prefix for the names of the operations: name/job-17. Unset: none.",
			func(d *traceDocument) *opt[string] { return &d.name }, document.Words),
		document.Maybe("format", "Standard Workload Format, or the GPU cluster trace that Alibaba published in 2023.",
			func(d *traceDocument) *opt[traceFormat] { return &d.format }, document.Enum(
				document.Word[traceFormat]{Name: "swf", Value: formatSWF},
				document.Word[traceFormat]{Name: "alibaba_gpu_2023", Value: formatAlibaba}).Default(formatSWF)),
		document.Maybe("file", "The log, or the list of pods; gzip or plain.",
			func(d *traceDocument) *opt[string] { return &d.file }, document.Words),
		document.Maybe("nodes_file", "The list of nodes of the Alibaba trace, for scenarios without nodes.",
			func(d *traceDocument) *opt[string] { return &d.nodes }, document.Words),
		document.Maybe("users", "Each user (or quality class) gets a pool or an ephemeral subpool of pool, or all go into pool.",
			func(d *traceDocument) *opt[userPools] { return &d.users }, document.Enum(
				document.Word[userPools]{Name: "pools", Value: poolPerUser},
				document.Word[userPools]{Name: "ephemeral", Value: ephemeralPools},
				document.Word[userPools]{Name: "one_pool", Value: onePool}).Default(poolPerUser)),
		document.Maybe("from", "Operations submitted earlier are left out; this moment becomes time zero.",
			func(d *traceDocument) *opt[time.Duration] { return &d.from }, moment),
		document.Maybe("to", "Operations submitted later are left out.",
			func(d *traceDocument) *opt[time.Duration] { return &d.to }, period),
		document.Maybe("time_scale", "The factor by which times are multiplied, to shorten a long trace.",
			func(d *traceDocument) *opt[float64] { return &d.scale }, document.Between(document.Numbers, 1e-6, 1e3).Default(1)),
		document.Maybe("count", "The most operations to replay.",
			func(d *traceDocument) *opt[int] { return &d.count }, positive),
		document.Maybe("job_cpu", "How many processors of a parallel program go into one job. Standard Workload Format only.",
			func(d *traceDocument) *opt[int] { return &d.jobCPU }, document.Between(document.Ints, 1, 1_000_000).Default(1)),
		document.Maybe("parallel", "Programs with several jobs are gang operations, which restart as a whole when one of their jobs is preempted. Standard Workload Format only.",
			func(d *traceDocument) *opt[bool] { return &d.gang }, document.Bools.Default(false)),
		document.Maybe("memory", "Which memory field of the log to use. Standard Workload Format only.",
			func(d *traceDocument) *opt[trace.MemorySource] { return &d.memory }, document.Enum(
				document.Word[trace.MemorySource]{Name: "none", Value: trace.NoMemory},
				document.Word[trace.MemorySource]{Name: "used", Value: trace.UsedMemory},
				document.Word[trace.MemorySource]{Name: "requested", Value: trace.RequestedMemory}).Default(trace.NoMemory)),
		document.Maybe("default_memory", "Memory per processor if the log has none: {memory: 1GiB}. Standard Workload Format only.",
			func(d *traceDocument) *opt[resource.Partial] { return &d.default_ }, amounts),
		document.Maybe("gpu_thousandths", "GPUs are counted in thousandths, so that pods can share one; otherwise fractions are rounded up. Alibaba only.",
			func(d *traceDocument) *opt[bool] { return &d.gpuParts }, document.Bools.Default(false)),
		document.Maybe("node_user_slots", "How many jobs a node of nodes_file can run at once. Alibaba only.",
			func(d *traceDocument) *opt[int] { return &d.userSlots }, positive.Default(256)),
	},
	document.Within(specificationOptions(), func(d *traceDocument) *pooltree.OperationOptions { return &d.options }),
)...)

// traces reads all recorded workloads. It uses their nodes if the scenario has
// none, and adds their users' pools to the default tree.
func (b *builder) traces() {
	list := b.in.traces
	if list.Kind() == document.MapKind {
		list = document.List(list)
	}
	b.each("traces", list, "traces", func(item document.Value) {
		b.traceIsWrong = !b.trace(item) || b.traceIsWrong
	})
}

// trace reads a trace; false after a problem.
func (b *builder) trace(v document.Value) bool {
	var d traceDocument
	wrong := traceTable.Read(b.r, v, &d)
	if len(wrong) > 0 || v.Kind() != document.MapKind {
		return false
	}
	pool, hasPool := d.options.Pool.Get()
	users := d.users.Or(poolPerUser)
	switch {
	case !d.file.IsSet():
		b.r.Refuse(v.Position(), document.RuleMissing, "needs a file")
		return false
	case users != poolPerUser && !hasPool:
		b.r.Refuse(v.Position(), document.RuleMissing, "needs a pool, in which the users' operations go")
		return false
	}
	log := b.readTrace(v, &d)
	if log == nil {
		return false
	}
	t := Trace{Name: d.name.Value(), Log: log, Options: d.options}
	switch users {
	case ephemeralPools:
		t.Parent = pool
	case onePool:
		t.Pool = pool
	case poolPerUser:
		b.userPools = append(b.userPools, tracePools{names: log.Pools, parent: pool, at: v.Position(), path: b.r.Path()})
	}
	if b.in.nodes.IsNull() {
		for _, n := range log.Nodes {
			b.out.Nodes = append(b.out.Nodes, NodeGroup{Name: n.Name, Count: n.Count, Resources: n.Resources, Tags: n.Tags})
		}
	}
	if !log.Start.IsZero() && !b.in.start.IsSet() {
		b.out.Start, b.out.Dated = log.Start, true
	}
	b.out.GPUThousandths = b.out.GPUThousandths || d.gpuParts.Value()
	b.out.Traces = append(b.out.Traces, t)
	return true
}

// tracePools are pools that the users of a trace need.
type tracePools struct {
	names  []string
	parent string
	at     document.Position
	path   string
}

// readTrace reads the files of a trace; it returns nil after a problem.
func (b *builder) readTrace(v document.Value, d *traceDocument) *trace.Log {
	span := trace.Span{From: d.from.Value(), To: d.to.Value(), Scale: d.scale.Value(), MaxOperations: d.count.Value()}
	file := b.open(v, d.file.Value())
	if file == nil {
		return nil
	}
	defer file.Close()
	var log *trace.Log
	var err error
	if d.format.Or(formatSWF) == formatSWF {
		memory, _ := d.default_.Value().Get(resource.Memory)
		log, err = trace.ReadSWF(d.file.Value(), file, trace.SWFOptions{
			Span: span, JobCPU: d.jobCPU.Value(), Parallel: d.gang.Value(),
			Memory: d.memory.Value(), DefaultMemory: memory,
		})
	} else {
		var nodes io.Reader
		if name, ok := d.nodes.Get(); ok {
			opened := b.open(v, name)
			if opened == nil {
				return nil
			}
			defer opened.Close()
			nodes = opened
		}
		log, err = trace.ReadAlibaba(d.file.Value(), file, d.nodes.Value(), nodes, trace.AlibabaOptions{
			Span: span, GPUThousandths: d.gpuParts.Value(), UserSlots: d.userSlots.Value(),
		})
	}
	if err != nil {
		b.fileProblem(v, err)
		return nil
	}
	for _, s := range log.Skipped {
		b.r.Warn(v.Position(), document.RuleValueAdjusted, fmt.Sprintf("%d records are left out: %s", s.Count, s.Reason))
	}
	if len(log.Operations) == 0 {
		b.r.Refuse(v.Position(), document.RuleMissing, "the trace has no operation that could run")
		return nil
	}
	return log
}

// fileProblem reports what is wrong with a file that the scenario names: the
// file's own problems, or why it cannot be read.
func (b *builder) fileProblem(v document.Value, err error) {
	if problems, ok := err.(document.Problems); ok {
		for _, p := range problems {
			b.r.Add(p)
		}
		return
	}
	b.r.Refuse(v.Position(), document.RuleMissing, err.Error())
}

// addUserPools adds the missing pools of a trace's users to the tree, with room
// for all of their operations.
func (b *builder) addUserPools() {
	if len(b.userPools) == 0 || len(b.out.Trees) == 0 {
		return
	}
	tree := b.defaultTree()
	if tree == nil {
		return
	}
	for _, pools := range b.userPools {
		var edits []pooltree.Edit
		for _, name := range pools.names {
			if _, there := tree.Value.Pool(name); !there {
				edits = append(edits, pooltree.AddPool{Pool: name, Parent: pools.parent, Config: pooltree.PoolConfig{
					MaxRunningOperationCount: document.Some(math.MaxInt32), MaxOperationCount: document.Some(math.MaxInt32),
				}})
			}
		}
		next, _, err := tree.Value.With(edits...)
		if err != nil {
			for _, p := range err.(document.Problems) {
				b.r.Add(document.Problem{File: b.r.File(), Position: pools.at, Path: pools.path, Rule: p.Rule,
					Message: "pools of the users: " + p.String(), Facts: p.Facts})
			}
			return
		}
		tree.Value = next
	}
}
