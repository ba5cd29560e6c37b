package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/trace"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

// mostNodes bounds a cluster: far beyond what is used in practice.
const mostNodes = 1_000_000

// fileDocument is a scenario as written. Sections that depend on others are stored
// as values and read later.
type fileDocument struct {
	name, description string
	start             opt[time.Time]
	duration          opt[time.Duration]
	seed              opt[int]
	scheduler         schedulerDocument
	statistics        statisticsDocument
	nodes             document.Value
	trees, tree       document.Value
	pools             document.Value
	defaultTree       opt[string]
	state             document.Value
	operations        document.Value
	traces            document.Value
	events            document.Value
	expect            document.Value
}

type schedulerDocument struct {
	heartbeat, update   opt[time.Duration]
	maxOperations       opt[int]
	timeout, overcommit opt[time.Duration]
}

var schedulerTable = document.NewTable(
	document.Maybe("heartbeat_period", "The time between two heartbeats of a node. A node also sends one whenever one of its jobs finishes.",
		func(d *schedulerDocument) *opt[time.Duration] { return &d.heartbeat }, period.Default(5*time.Second)),
	document.Maybe("fair_share_update_period", "The time between two updates of fair shares and starvation.",
		func(d *schedulerDocument) *opt[time.Duration] { return &d.update }, period.Default(time.Second)),
	document.Maybe("max_operation_count", "The most operations at once in all trees together. Unset: 5000, or no limit if a trace brings its own pools.",
		func(d *schedulerDocument) *opt[int] { return &d.maxOperations }, positive),
	document.Maybe("node_registration_timeout", "How long a node may be silent before it and its jobs are given up. lose_nodes with silently makes nodes silent. Unset: 5m.",
		func(d *schedulerDocument) *opt[time.Duration] { return &d.timeout }, period),
	document.Maybe("allowed_node_resources_overcommit_duration", "How long the jobs of a node may hold more resources than it has. Unset: 15s.",
		func(d *schedulerDocument) *opt[time.Duration] { return &d.overcommit }, moment),
)

type statisticsDocument struct {
	period              opt[time.Duration]
	samples, operations opt[int]
}

var statisticsTable = document.NewTable(
	document.Maybe("period", "The time between two observations of shares, demands and volumes. Usage is always exact.",
		func(d *statisticsDocument) *opt[time.Duration] { return &d.period }, period.Default(5*time.Second)),
	document.Maybe("samples", "The most points in a time series.",
		func(d *statisticsDocument) *opt[int] { return &d.samples }, document.Between(document.Ints, 2, 100_000).Default(1000)),
	document.Maybe("operations", "The most operations listed one by one in the results.",
		func(d *statisticsDocument) *opt[int] { return &d.operations }, document.Between(document.Ints, 0, 10_000_000).Default(10_000)),
)

type nodeDocument struct {
	name      opt[string]
	count     opt[int]
	resources opt[resource.Partial]
	tags      []string
}

var nodeTable = document.NewTable(
	document.Maybe("name", "The name of the group; its nodes are named name-1, name-2, …. Unset: node.",
		func(n *nodeDocument) *opt[string] { return &n.name }, document.Words).Alias("group"),
	document.Maybe("count", "How many nodes the group has. Unset: one, named like the group.",
		func(n *nodeDocument) *opt[int] { return &n.count }, document.Between(document.Ints, 1, mostNodes)),
	document.Maybe("resources", "What each node has. Without user_slots it has one slot per core; without memory, 4 GiB per core.",
		func(n *nodeDocument) *opt[resource.Partial] { return &n.resources }, amounts),
	document.Plain("tags", "The tags of the nodes.",
		func(n *nodeDocument) *[]string { return &n.tags }, document.ListOf(tag)),
)

// tag is a word that formulas over nodes can name.
var tag = readOnly(document.Shape{Kind: "string", Says: "a tag"},
	func(r *document.Reader, v document.Value) (string, bool) {
		text, ok := document.ReadAs(document.Words, r, v)
		if !ok {
			return "", false
		}
		filter, err := nodefilter.Parse(text)
		if err != nil || filter.TokenCount() != 1 || strings.HasPrefix(text, "%") || text != strings.TrimSpace(text) {
			r.Refuse(v.Position(), document.RuleBadFormat, fmt.Sprintf("%q is not a tag: letters, digits, _ / - . and :", document.Shorten(text)))
			return "", false
		}
		return text, true
	})

type stateDocument struct {
	ratioVolume opt[float64]
	volume      opt[partialVolume]
}

type partialVolume struct {
	kind   resource.Kind
	amount float64
	count  int
}

var stateTable = document.NewTable(
	document.Maybe("accumulated_resource_ratio_volume", "What the pool has saved, in seconds of the whole tree (fair_share*sec).",
		func(d *stateDocument) *opt[float64] { return &d.ratioVolume }, document.AtLeast(document.Numbers, 0)),
	document.Maybe("accumulated_resource_volume", "The same as resource × seconds of one resource: {cpu: 43200000}.",
		func(d *stateDocument) *opt[partialVolume] { return &d.volume },
		pooltree.ByResource("resource numbers", func(r *document.Reader, _ resource.Kind, v document.Value) (float64, bool) {
			return document.ReadAs(document.AtLeast(document.Numbers, 0), r, v)
		}, func(p *partialVolume, k resource.Kind, v float64) { p.kind, p.amount, p.count = k, v, p.count+1 })),
)

var fileTable = document.NewTable(
	document.Plain("name", "A title for reports. Unset: the name of the file.",
		func(d *fileDocument) *string { return &d.name }, document.Texts),
	document.Plain("description", "What the scenario shows.",
		func(d *fileDocument) *string { return &d.description }, document.Texts),
	document.Maybe("start", "The date of time zero. Unset: that of a trace, or 2026-01-01.",
		func(d *fileDocument) *opt[time.Time] { return &d.start }, dates),
	document.Maybe("duration", "How long the run lasts. Unset: until every operation has finished.",
		func(d *fileDocument) *opt[time.Duration] { return &d.duration }, period).Alias("until"),
	document.Maybe("seed", "The seed of all random draws. The same seed gives the same run.",
		func(d *fileDocument) *opt[int] { return &d.seed }, document.AtLeast(document.Ints, 0).Default(1)),
	document.Plain("scheduler", "Periods and settings of the scheduler and its nodes.",
		func(d *fileDocument) *schedulerDocument { return &d.scheduler }, schedulerTable.Type()),
	document.Plain("statistics", "How the run is observed.",
		func(d *fileDocument) *statisticsDocument { return &d.statistics }, statisticsTable.Type()),
	document.Plain("nodes", "The nodes, in groups of identical ones. A trace may bring its own.",
		func(d *fileDocument) *document.Value { return &d.nodes }, document.Anything),
	document.Plain("pool_trees", "Pool trees by name, each as in a pool tree file, or {file: pools.yaml}.",
		func(d *fileDocument) *document.Value { return &d.trees }, document.Anything),
	document.Plain("tree", "The options of a single tree named default, instead of pool_trees.",
		func(d *fileDocument) *document.Value { return &d.tree }, document.Anything),
	document.Plain("pools", "The pools of that tree, nested.",
		func(d *fileDocument) *document.Value { return &d.pools }, document.Anything),
	document.Maybe("default_tree", "The tree of operations that name none. Unset: the only tree, or the one named default.",
		func(d *fileDocument) *opt[string] { return &d.defaultTree }, document.Words),
	document.Plain("state", "What integral pools of the default tree have saved at the start, by name.",
		func(d *fileDocument) *document.Value { return &d.state }, document.Anything),
	document.Plain("operations", "The workload: templates of operations.",
		func(d *fileDocument) *document.Value { return &d.operations }, document.Anything),
	document.Plain("traces", "Recorded workloads to replay.",
		func(d *fileDocument) *document.Value { return &d.traces }, document.Anything),
	document.Plain("events", "What happens at given times.",
		func(d *fileDocument) *document.Value { return &d.events }, document.Anything),
	document.Plain("expect", "The expected results.",
		func(d *fileDocument) *document.Value { return &d.expect }, document.Anything),
)

// builder makes a Scenario out of a document.
type builder struct {
	r      *document.Reader
	in     fileDocument
	out    *Scenario
	opener Opener

	eventAt   []place // of each event
	expectAt  []place // of each expectation
	userPools []tracePools
	poolKnown map[string]bool // exists at some time
	// traceIsWrong reports whether a trace could not be read, so that its missing
	// content causes no further problems.
	traceIsWrong bool
	poolNames    []string
}

// place is a position in the file, for rules that are applied after everything has
// been read.
type place struct {
	at   document.Position
	path string
}

// here returns the place of v, which is being read.
func (b *builder) here(v document.Value) place { return place{v.Position(), b.r.Path()} }

// where names a place in messages at run time.
func (b *builder) where(p place) string {
	return strings.TrimSuffix(document.Problem{File: b.r.File(), Position: p.at, Path: p.path}.String(), ": ")
}

func (b *builder) refuseAt(p place, rule document.Rule, message string, facts ...document.Entry) {
	b.r.Add(document.Problem{File: b.r.File(), Position: p.at, Path: p.path, Rule: rule, Message: message, Facts: facts})
}

// Read reads a scenario: JSON if the name of the file ends in .json, else YAML.
// The error is of type document.Problems and lists everything that is wrong.
// Warnings are about input that is legal but might not be intended.
func Read(name string, data []byte, open Opener) (*Scenario, document.Problems, error) {
	v, err := notation.Parse(name, data)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{r: document.NewReader(name), out: new(Scenario), opener: open, poolKnown: map[string]bool{}}
	b.read(v)
	if err := b.r.Problems().Err(); err != nil {
		return nil, b.r.Warnings(), err
	}
	if b.out.Name == "" {
		b.out.Name = name
	}
	return b.out, b.r.Warnings(), nil
}

func (b *builder) read(v document.Value) {
	if v.IsNull() {
		b.r.Refuse(v.Position(), document.RuleMissing, "the file is empty; a scenario needs nodes, pools and operations")
		return
	}
	_, hasNodes := v.Get("nodes")
	if cluster, isTree := v.Get("cluster"); isTree && !hasNodes {
		b.r.Enter("cluster")
		b.r.Refuse(cluster.Position(), document.RuleUnknownKey,
			"this is a tree file, which weir shares and weir check read; a scenario has nodes, jobs with durations and a duration of its own")
		b.r.Leave()
		return
	}
	fileTable.Read(b.r, v, &b.in)
	if v.Kind() != document.MapKind {
		return
	}
	schedulerTable.FillDefaults(&b.in.scheduler)
	statisticsTable.FillDefaults(&b.in.statistics)
	*b.out = Scenario{
		Name: b.in.name, Description: b.in.description,
		Start:    b.in.start.Or(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		Dated:    b.in.start.IsSet(),
		Duration: b.in.duration, Seed: uint64(b.in.seed.Or(1)),
		Scheduler: Scheduler{
			HeartbeatPeriod: b.in.scheduler.heartbeat.Value(), UpdatePeriod: b.in.scheduler.update.Value(),
			MaxOperations: b.in.scheduler.maxOperations, NodeTimeout: b.in.scheduler.timeout, OvercommitPatience: b.in.scheduler.overcommit,
		},
		Statistics: Statistics{
			Period: b.in.statistics.period.Value(), Samples: b.in.statistics.samples.Value(), Operations: b.in.statistics.operations.Value(),
		},
	}
	b.nodes()
	b.traces()
	b.trees(v)
	b.addUserPools()
	b.operations()
	b.each("events", b.in.events, "events", b.event)
	b.rehearse()
	b.each("expect", b.in.expect, "expectations", b.expectation)
	b.volumes()
	b.checkNames(v)
}

// each calls read for the items of a section, which must be a list of what, if it is there.
func (b *builder) each(section string, list document.Value, what string, read func(document.Value)) {
	b.r.Enter(section)
	defer b.r.Leave()
	if list.Kind() != document.ListKind && !list.IsNull() {
		b.r.Refuse(list.Position(), document.RuleWrongType, "must be a list of "+what)
	}
	for i, item := range list.Items() {
		b.r.Enter(strconv.Itoa(i))
		read(item)
		b.r.Leave()
	}
}

func (b *builder) nodes() {
	total := 0
	b.each("nodes", b.in.nodes, "groups of nodes", func(item document.Value) {
		g := b.nodeGroup(item)
		if total += g.Count; total > mostNodes {
			b.r.Refuse(item.Position(), document.RuleOutOfRange, fmt.Sprintf("there are more than %d nodes in all", mostNodes))
			total = 0 // report it once
		}
		b.out.Nodes = append(b.out.Nodes, g)
	})
}

func (b *builder) nodeGroup(v document.Value) NodeGroup {
	var n nodeDocument
	wrong := nodeTable.Read(b.r, v, &n)
	g := NodeGroup{Name: n.name.Or("node"), Count: n.count.Or(1), Single: !n.count.IsSet(), Tags: n.tags}
	given, ok := n.resources.Get()
	g.Resources = given.OrZero()
	cores := max(1, g.Resources[resource.CPU]/resource.CPU.Scale())
	if !given.Has(resource.UserSlots) {
		g.Resources[resource.UserSlots] = cores
	}
	if !given.Has(resource.Memory) {
		g.Resources[resource.Memory] = min(cores, resource.Unlimited/trace.MemoryPerCore-1) * trace.MemoryPerCore
	}
	switch {
	case v.Kind() != document.MapKind:
	case !ok && !slices.Contains(wrong, "resources"):
		b.r.Refuse(v.Position(), document.RuleMissing, "needs resources")
	case ok && given.OrZero().IsZero():
		b.r.Refuse(v.Position(), document.RuleOutOfRange, "a node without any resources is of no use")
	}
	if slices.ContainsFunc(b.out.Nodes, func(other NodeGroup) bool { return other.Name == g.Name }) {
		b.r.Refuse(v.Position(), document.RuleRepeated, fmt.Sprintf("there is already a group of nodes called %q", g.Name))
	}
	return g
}

// volumes reads what integral pools have saved.
func (b *builder) volumes() {
	b.r.Enter("state")
	defer b.r.Leave()
	if b.in.state.Kind() != document.MapKind && !b.in.state.IsNull() {
		b.r.Refuse(b.in.state.Position(), document.RuleWrongType, "must be a map from names of pools to what they have saved")
	}
	tree := b.defaultTree()
	for _, e := range b.in.state.Entries() {
		b.r.Enter(e.Key)
		var s stateDocument
		if wrong := stateTable.Read(b.r, e.Value, &s); len(wrong) == 0 && tree != nil {
			b.volume(tree, e, &s)
		}
		b.r.Leave()
	}
}

func (b *builder) volume(tree *document.Named[*pooltree.Tree], e document.Entry, s *stateDocument) {
	v := Volume{Tree: tree.Name, Pool: e.Key, Seconds: s.ratioVolume.Value()}
	written, byResource := s.volume.Get()
	pool, known := tree.Value.Pool(e.Key)
	switch {
	case !known:
		b.r.Refuse(e.At, document.RuleUnknownValue, "there is no such pool"+didYouMean(e.Key, b.poolNames))
	case !pool.Config().Integral.Type.IsSet():
		b.r.Refuse(e.At, document.RuleOutOfRange, "the pool has no integral guarantee, so that it saves nothing")
	case s.ratioVolume.IsSet() == byResource:
		b.r.Refuse(e.At, document.RuleMissing, "needs either accumulated_resource_ratio_volume or accumulated_resource_volume")
	case byResource && written.count != 1:
		b.r.Refuse(e.At, document.RuleOutOfRange, "accumulated_resource_volume must name one resource; the others are in proportion")
	case byResource:
		v.Kind, v.Amount = document.Some(written.kind), written.amount
	}
	b.out.Volumes = append(b.out.Volumes, v)
}
