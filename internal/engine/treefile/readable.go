package treefile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/engine/entitlement"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/jsontext"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

// The readable form, section by section. Rows of these tables are its options.

type fileDocument struct {
	name       string
	cluster    clusterDocument
	tree       document.Value
	pools      document.Value
	operations document.Value
	state      []document.Named[stateDocument]
	elapsed    document.Optional[time.Duration]
}

var fileTable = document.NewTable(
	document.Plain("name", "The name of the tree.",
		func(d *fileDocument) *string { return &d.name }, document.Texts).Alias("id"),
	document.Plain("cluster", "What there is to divide: its total, or its nodes.",
		func(d *fileDocument) *clusterDocument { return &d.cluster }, clusterType),
	document.Plain("tree", "The options of the pool tree.",
		func(d *fileDocument) *document.Value { return &d.tree }, document.Anything),
	document.Plain("pools", "The pools of the tree, nested.",
		func(d *fileDocument) *document.Value { return &d.pools }, document.Anything),
	document.Plain("operations", "The operations, in the order in which they were started.",
		func(d *fileDocument) *document.Value { return &d.operations }, document.Anything),
	document.Plain("state", "What integral pools have saved so far.",
		func(d *fileDocument) *[]document.Named[stateDocument] { return &d.state }, document.MapOf(stateTable.Type())),
	document.Maybe("elapsed", "The time since the previous update: volumes are refilled and charged for it. Unset: there was none.",
		func(d *fileDocument) *document.Optional[time.Duration] { return &d.elapsed },
		document.Between(document.Durations, 0, longestPeriod*time.Second)),
)

type clusterDocument struct {
	total document.Optional[resource.Partial]
	nodes document.Optional[[]nodeDocument]
	at    document.Position
}

type nodeDocument struct {
	name      string
	count     document.Optional[int]
	resources document.Optional[resource.Partial]
	tags      []string
}

var clusterTable = document.NewTable(
	document.Maybe("total", "What all nodes of the tree have together.",
		func(c *clusterDocument) *document.Optional[resource.Partial] { return &c.total }, amounts),
	document.Maybe("nodes", "The nodes, in groups of equal ones. Filters by tags need them.",
		func(c *clusterDocument) *document.Optional[[]nodeDocument] { return &c.nodes }, document.ListOf(nodeTable.Type())),
)

// clusterType also records where the cluster section is.
var clusterType = document.NewType(clusterTable.Type().Shape(),
	func(r *document.Reader, v document.Value) (clusterDocument, bool) {
		c, ok := document.ReadAs(clusterTable.Type(), r, v)
		c.at = v.Position()
		return c, ok
	},
	func(clusterDocument, document.Style) document.Value { return document.Null() },
	func(a, b clusterDocument) bool { return clusterTable.Equal(&a, &b) && a.at == b.at })

var nodeTable = document.NewTable(
	document.Plain("name", "A name for messages.",
		func(n *nodeDocument) *string { return &n.name }, document.Texts),
	document.Maybe("count", "How many nodes are like this. Unset: 1.",
		func(n *nodeDocument) *document.Optional[int] { return &n.count }, document.Between(document.Ints, 0, 10_000_000)),
	document.Maybe("resources", "What one node has.",
		func(n *nodeDocument) *document.Optional[resource.Partial] { return &n.resources }, amounts),
	document.Plain("tags", "The tags of the nodes.",
		func(n *nodeDocument) *[]string { return &n.tags }, document.ListOf(document.Words)),
)

type stateDocument struct {
	ratioVolume    document.Optional[float64]
	volume         document.Optional[partialVolume]
	lastShareRatio document.Optional[float64]
}

var stateTable = document.NewTable(
	document.Maybe("accumulated_resource_ratio_volume", "What the pool has saved, in seconds of the whole cluster (fair_share*sec).",
		func(s *stateDocument) *document.Optional[float64] { return &s.ratioVolume }, document.AtLeast(document.Numbers, 0)),
	document.Maybe("accumulated_resource_volume", "The same in resources × seconds. Resources that are left out are in proportion.",
		func(s *stateDocument) *document.Optional[partialVolume] { return &s.volume }, volumes),
	document.Maybe("last_share_ratio", "The integral share that the pool has had since the previous update; elapsed charges for it.",
		func(s *stateDocument) *document.Optional[float64] { return &s.lastShareRatio }, document.Between(document.Numbers, 0, 1)),
)

// Read reads a file in either format: JSON with the key elements is a
// conformance vector, everything else is the readable form. Warnings are about
// input that is legal but has no effect. The error, if any, wraps
// document.Problems.
func Read(name string, data []byte) (*File, document.Problems, error) {
	if isVector(data) {
		file, err := readVector(name, data)
		return file, nil, err
	}
	file, warnings, err := readReadable(name, data)
	if err != nil {
		err = &BadInput{Problems: err}
	}
	return file, warnings, err
}

// isVector searches for the key elements at the top of a JSON object. It returns
// false for text that is not JSON, and at the first key that only the readable
// form has.
func isVector(data []byte) bool {
	s := jsontext.Scanner{Data: data}
	if s.Peek() != jsontext.Object {
		return false
	}
	s.Open()
	for {
		key, _, more := s.Key()
		if !more {
			return false
		}
		switch string(key) {
		case "elements", "total_resources", "time_since_previous_update":
			return true
		case "cluster", "pools", "operations":
			return false
		}
		s.Skip()
	}
}

func readReadable(name string, data []byte) (*File, document.Problems, error) {
	v, err := notation.ParseJSON(name, data) // whatever its name: YAML has no tabs
	if isNotJSON(err) {
		v, err = notation.Parse(name, data)
	}
	if err != nil {
		return nil, nil, err
	}
	r := document.NewReader(name)
	b := &builder{r: r, file: &File{Elapsed: fairshare.FirstUpdate}}
	b.read(v)
	if err := r.Problems().Err(); err != nil {
		return nil, r.Warnings(), err
	}
	return b.file, r.Warnings(), nil
}

// isNotJSON reports whether a text was refused because it is no JSON, or only begins like it.
func isNotJSON(err error) bool {
	var problems document.Problems
	return errors.As(err, &problems) && len(problems.With(document.RuleSyntax))+len(problems.With(document.RuleSeveral)) > 0
}

// builder makes a File from a document.
type builder struct {
	r     *document.Reader
	file  *File
	in    fileDocument
	slots map[string]int32 // of pools and operations by name
	// effective and configs are by slot; those of operations are empty.
	effective []pooltree.Effective
	configs   []pooltree.PoolConfig
	missing   int // pools that were named and do not exist
}

func (b *builder) read(v document.Value) {
	if v.IsNull() {
		b.r.Refuse(v.Position(), document.RuleMissing, "the file is empty; it needs a cluster and pools")
		return
	}
	wrong := fileTable.Read(b.r, v, &b.in)
	if v.Kind() != document.MapKind {
		return
	}
	b.file.ID = b.in.name
	b.file.Elapsed = b.in.elapsed.Or(fairshare.FirstUpdate)
	config := b.readTree()
	if !isWrong(wrong, "cluster") {
		b.readCluster(v, config)
	}
	if config == nil || b.r.HasProblems() {
		// Operations are still read, so that their problems are reported too.
		b.readOperations(nil)
		return
	}
	b.file.Config = config
	b.file.Tree.Total = b.file.Cluster.Total
	b.file.Tree.Options = entitlement.Options(config)
	b.addPools(config)
	b.readOperations(config)
	b.readState(v)
	if b.r.HasProblems() {
		return
	}
	for _, e := range b.effective {
		b.file.counts = append(b.file.counts, operationCounts{maxRunning: e.MaxRunningOperationCount, maxTotal: e.MaxOperationCount})
	}
	b.file.Settle(0)
}

func isWrong(wrong []string, name string) bool {
	for _, w := range wrong {
		if w == name {
			return true
		}
	}
	return false
}

// readTree reads options and pools, which are in two places of the file.
func (b *builder) readTree() *pooltree.Tree {
	b.r.Enter("tree")
	draft := pooltree.Read(b.r, b.in.tree, pooltree.Keys{})
	b.r.Leave()
	pools := pooltree.Read(b.r, document.Map(document.Pair("pools", b.in.pools)), pooltree.Keys{})
	draft.Pools = append(draft.Pools, pools.Pools...)
	return draft.Build(b.r, pooltree.Limits{})
}

func (b *builder) readCluster(v document.Value, config *pooltree.Tree) {
	at := b.in.cluster.at
	b.r.Enter("cluster")
	defer b.r.Leave()
	total, hasTotal := b.in.cluster.total.Get()
	nodes, hasNodes := b.in.cluster.nodes.Get()
	switch {
	case hasTotal && hasNodes:
		b.r.Refuse(at, document.RuleTwoNames, "has both total and nodes; give only one of them")
	case hasTotal:
		b.file.Cluster = Cluster{Total: total.OrZero()}
	case hasNodes:
		var groups []NodeGroup
		for i, n := range nodes {
			if !n.resources.IsSet() {
				b.r.Enter("nodes")
				b.r.Refuse(at, document.RuleMissing, fmt.Sprintf("group %d needs resources, what one node has", i+1))
				b.r.Leave()
			}
			name := n.name
			if name == "" {
				name = "in group " + strconv.Itoa(i+1)
			}
			groups = append(groups, NodeGroup{Name: name, Count: int64(n.count.Or(1)), Resources: n.resources.Value().OrZero(), Tags: n.tags})
		}
		if config != nil {
			b.file.Cluster = newCluster(groups, config.Settings().NodesFilter.Value())
			if len(b.file.Cluster.Nodes) == 0 {
				b.r.Warn(at, document.RuleMissing, "no node matches the tree's nodes_filter")
			}
		}
	default:
		if at.IsZero() {
			at = v.Position()
		}
		b.r.Refuse(at, document.RuleMissing, "the cluster needs a total or nodes")
	}
	for _, k := range resource.Kinds {
		if b.file.Cluster.Total[k] >= resource.Unlimited {
			b.r.Refuse(at, document.RuleTooLarge, fmt.Sprintf("the nodes have more %v than can be counted", k))
		}
	}
}

func (b *builder) addPools(config *pooltree.Tree) {
	b.slots = make(map[string]int32, config.Len()+1)
	b.add(RootName, 0, entitlement.Root(), config.Root().Effective(), pooltree.PoolConfig{})
	for pool := range config.Pools() {
		c := pool.Config()
		parent, _ := pool.Parent()
		b.add(pool.Name(), b.slots[parent.Name()], entitlement.Pool(&c, &b.file.Cluster), pool.Effective(), c)
		if c.SchedulingTagFilter.IsSet() && len(b.file.Cluster.Nodes) == 0 {
			b.r.AddWarning(document.Problem{File: b.r.File(), Path: "pools" + pool.Path() + "/scheduling_tag_filter", Rule: document.RuleNotSupported,
				Message: "has no effect here: the cluster is given by its total, not by its nodes"})
		}
	}
}

// add gives an element a slot.
func (b *builder) add(name string, parent int32, element fairshare.Element, effective pooltree.Effective, config pooltree.PoolConfig) int32 {
	slot := int32(len(b.file.Names))
	element.Parent = parent
	b.slots[name] = slot
	b.file.Names = append(b.file.Names, name)
	b.file.Tree.Elements = append(b.file.Tree.Elements, element)
	b.effective = append(b.effective, effective)
	b.configs = append(b.configs, config)
	return slot
}

func (b *builder) readState(v document.Value) {
	b.file.Tree.States = make([]fairshare.State, len(b.file.Tree.Elements))
	section, _ := v.Get("state")
	b.r.Enter("state")
	defer b.r.Leave()
	for _, named := range b.in.state {
		at := entryPosition(section, named.Name)
		b.r.Enter(named.Name)
		slot, ok := b.slots[named.Name]
		switch {
		case !ok:
			b.r.Refuse(at, ruleNoSuchPool, "there is no such pool"+b.nearestPool(named.Name))
		case b.file.Tree.Elements[slot].Pool == nil || b.file.Tree.Elements[slot].Pool.Integral.Type == fairshare.NoIntegral:
			b.r.Refuse(at, ruleNoVolume, "has no integral guarantee, so it saves nothing")
		case named.Value.ratioVolume.IsSet() && named.Value.volume.IsSet():
			b.r.Refuse(at, document.RuleTwoNames, "has both accumulated_resource_ratio_volume and accumulated_resource_volume; give only one of them")
		default:
			b.file.Tree.States[slot] = named.Value.state(b.file.Cluster.Total)
		}
		b.r.Leave()
	}
}

func (s *stateDocument) state(total resource.Amounts) (state fairshare.State) {
	ratio := s.ratioVolume.Value()
	given, hasVolume := s.volume.Get()
	if hasVolume {
		ratio = math.Inf(1)
		for k, has := range given.has {
			if has && total[k] > 0 {
				ratio = min(ratio, given.volume[k]/total.Float(resource.Kind(k)))
			}
		}
		if math.IsInf(ratio, 1) {
			ratio = 0
		}
	}
	state.Volume = resource.VolumeOf(total, ratio, 1)
	for k, has := range given.has {
		if has {
			state.Volume[k] = given.volume[k]
		}
	}
	state.LastShareRatio = s.lastShareRatio.Value()
	return state
}

// entryPosition is the position of a map's key.
func entryPosition(v document.Value, key string) document.Position {
	for _, e := range v.Entries() {
		if e.Key == key {
			return e.At
		}
	}
	return v.Position()
}
