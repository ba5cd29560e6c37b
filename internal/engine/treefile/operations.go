package treefile

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/engine/entitlement"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// operationDocument is the content of one operation's map: options of its
// specification, and what a running scheduler would know about it.
type operationDocument struct {
	options      pooltree.OperationOptions
	name         document.Optional[string]
	user         document.Optional[string]
	demand       document.Optional[resource.Partial]
	usage        document.Optional[resource.Partial]
	jobCount     document.Optional[int]
	runningCount document.Optional[int]
	jobResources document.Optional[resource.Partial]
	startTime    document.Optional[int64]
	pending      document.Optional[int]
	active       Activity
}

var operationTable = document.NewTable(append(
	document.Within(specificationOptions(), func(d *operationDocument) *pooltree.OperationOptions { return &d.options }),
	document.Maybe("name", "The name of the operation.",
		func(d *operationDocument) *document.Optional[string] { return &d.name }, document.Words).Alias("id"),
	document.Maybe("user", "Who started it: in a pool with create_ephemeral_subpools it runs in pool$user.",
		func(d *operationDocument) *document.Optional[string] { return &d.user }, document.Words),
	document.Maybe("demand", "Everything that the operation could use now, its usage included.",
		func(d *operationDocument) *document.Optional[resource.Partial] { return &d.demand }, amounts).Alias("resource_demand"),
	document.Maybe("usage", "What its running jobs hold.",
		func(d *operationDocument) *document.Optional[resource.Partial] { return &d.usage }, amounts).Alias("resource_usage"),
	document.Maybe("job_count", "Instead of demand: the number of its jobs, running or not.",
		func(d *operationDocument) *document.Optional[int] { return &d.jobCount }, jobCounts).Alias("jobs"),
	document.Maybe("running_job_count", "Instead of usage: the number of its running jobs.",
		func(d *operationDocument) *document.Optional[int] { return &d.runningCount }, jobCounts).Alias("running_jobs"),
	document.Maybe("job_resources", "What one job needs. A job takes one of user_slots unless it says otherwise.",
		func(d *operationDocument) *document.Optional[resource.Partial] { return &d.jobResources }, amounts).Alias("resources"),
	document.Maybe("start_time", "When it was started, for the order in FIFO pools: a date and time, or seconds.",
		func(d *operationDocument) *document.Optional[int64] { return &d.startTime }, startTimes),
	document.Maybe("pending_job_count", "How many jobs wait, for the order in FIFO pools. Unset: user_slots of demand less those of usage.",
		func(d *operationDocument) *document.Optional[int] { return &d.pending }, jobCounts).Alias("pending_allocation_count"),
	document.Plain("active", `When it has its demand, counted from the moment of the file: "12h-24h every 24h", or a list of such. Unset: always.`,
		func(d *operationDocument) *Activity { return &d.active }, activities),
)...)

var jobCounts = document.Between(document.Ints, 0, math.MaxInt32)

// activities is windows as an Activity.
var activities = document.NewType(windows.Shape(),
	func(r *document.Reader, v document.Value) (Activity, bool) { return document.ReadAs(windows, r, v) },
	func(Activity, document.Style) document.Value { return document.Null() },
	func(a, b Activity) bool { return len(a) == 0 && len(b) == 0 })

// specificationOptions are those of an operation's specification; gang is an
// alias of is_gang.
func specificationOptions() []document.Option[pooltree.OperationOptions] {
	options := pooltree.OperationOptionList()
	for i, o := range options {
		if o.Name() == "is_gang" {
			options[i] = o.Alias("gang")
		}
	}
	return options
}

// startTimes reads times as microseconds.
var startTimes = document.NewType(document.Shape{Kind: "string", Says: startTimeSays},
	func(r *document.Reader, v document.Value) (int64, bool) {
		if text, ok := v.Text(); ok {
			for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
				if at, err := time.Parse(layout, text); err == nil {
					return at.UnixMicro(), true
				}
			}
		} else if seconds, ok := v.Float64(); ok && math.Abs(seconds) <= 9e12 {
			return int64(math.Round(seconds * 1e6)), true
		}
		r.Refuse(v.Position(), document.RuleBadFormat, "must be "+startTimeSays+", not "+shorten(v.String()))
		return 0, false
	},
	func(int64, document.Style) document.Value { return document.Null() },
	func(a, b int64) bool { return a == b })

const startTimeSays = "a time like 2026-11-15T10:30:00Z or a number of seconds"

// Operation is what a File knows about an operation besides its element.
type Operation struct {
	Slot int32
	// Element is the operation while it takes part; Settle puts it into the tree
	// or frees its slot.
	Element  fairshare.Element
	Activity Activity
	// Waits is why the operation does not take part now; empty if it does.
	Waits string
}

// readOperations reads a list of operations, or a map from their names. Without
// a tree it only validates each one separately.
func (b *builder) readOperations(config *pooltree.Tree) {
	b.r.Enter("operations")
	defer b.r.Leave()
	switch list := b.in.operations; list.Kind() {
	case document.NullKind:
	case document.ListKind:
		for i, item := range list.Items() {
			key := strconv.Itoa(i)
			if name, ok := item.Get("name"); ok {
				if text, ok := name.Text(); ok && text != "" {
					key = text
				}
			}
			b.readOperation(key, "", item.Position(), item, config)
		}
	case document.MapKind:
		for _, e := range list.Entries() {
			b.readOperation(e.Key, e.Key, e.At, e.Value, config)
		}
	default:
		b.r.Refuse(list.Position(), document.RuleWrongType, "must be a list of operations with names, or a map from names to operations")
	}
}

// readOperation reads one operation. key is its name in the path; name is set if
// it is the key of a map.
func (b *builder) readOperation(key, name string, at document.Position, v document.Value, config *pooltree.Tree) {
	b.r.Enter(key)
	defer b.r.Leave()
	var d operationDocument
	wrong := operationTable.Read(b.r, v, &d)
	if v.Kind() != document.MapKind {
		return
	}
	if given, ok := d.name.Get(); ok {
		if name != "" && given != name {
			b.r.Refuse(at, document.RuleTwoNames, fmt.Sprintf("the operation is called %q by its key and %q by its name", shorten(name), shorten(given)))
		}
		name = given
	}
	if name == "" && !isWrong(wrong, "name") {
		b.r.Refuse(at, document.RuleMissing, "an operation in a list needs a name")
	}
	demand, usage, ok := b.readDemand(&d, at, wrong)
	if !d.options.Pool.IsSet() && !isWrong(wrong, "pool") {
		b.r.Refuse(at, document.RuleMissing, "needs a pool")
		return
	}
	if config == nil || !ok || len(wrong) > 0 {
		return
	}
	b.addOperation(&d, name, at, v, demand, usage)
}

// readDemand computes demand and usage, which may be given as numbers of jobs.
func (b *builder) readDemand(d *operationDocument, at document.Position, wrong []string) (demand, usage resource.Amounts, ok bool) {
	if len(wrong) > 0 {
		return demand, usage, false
	}
	job := d.jobResources.Value()
	if !job.Has(resource.UserSlots) {
		job = job.With(resource.UserSlots, 1)
	}
	ok = true
	choose := func(what string, given document.Optional[resource.Partial], countName string, count document.Optional[int]) (sum resource.Amounts) {
		n, counted := count.Get()
		switch {
		case given.IsSet() && counted:
			b.r.Refuse(at, document.RuleTwoNames, fmt.Sprintf("has both %s and %s; give only one of them", what, countName))
			ok = false
		case counted && !d.jobResources.IsSet():
			b.r.Refuse(at, document.RuleMissing, countName+" needs job_resources, what one job takes")
			ok = false
		case counted:
			for k, each := range job.OrZero() {
				sum[k] = times(each, int64(n))
			}
		default:
			sum = given.Value().OrZero()
		}
		return sum
	}
	usage = choose("usage", d.usage, "running_job_count", d.runningCount)
	demand = choose("demand", d.demand, "job_count", d.jobCount)
	switch {
	case !ok:
		return demand, usage, false
	case !d.demand.IsSet() && !d.jobCount.IsSet():
		b.r.Refuse(at, document.RuleMissing, "needs a demand, or job_count and job_resources")
		return demand, usage, false
	case !demand.Dominates(usage):
		b.r.Refuse(at, ruleUsageAboveDemand, fmt.Sprintf("usage must not exceed demand, which includes it: demand is %v, usage %v", demand, usage))
		return demand, usage, false
	}
	return demand, usage, true
}

// addOperation puts an operation into its pool.
func (b *builder) addOperation(d *operationDocument, name string, at document.Position, v document.Value, demand, usage resource.Amounts) {
	poolName := d.options.Pool.Value()
	pool, found := b.slots[poolName]
	poolAt := entryPosition(v, "pool")
	switch {
	case !found || b.file.Tree.Elements[pool].Kind != fairshare.KindPool:
		b.r.Enter("pool")
		b.r.Refuse(poolAt, ruleNoSuchPool, fmt.Sprintf("there is no pool %q%s", shorten(poolName), b.nearestPool(poolName)))
		b.r.Leave()
		return
	case b.effective[pool].ForbidImmediateOperations:
		b.r.Enter("pool")
		b.r.Refuse(poolAt, ruleForbiddenPool, fmt.Sprintf("operations cannot be started in %s itself, only in its subpools", poolName))
		b.r.Leave()
		return
	case d.options.IsGang.Value() && !b.effective[pool].AllowGangOperations:
		b.r.Enter("is_gang")
		b.r.Refuse(at, ruleForbiddenPool, fmt.Sprintf("gang operations may run in FIFO pools only, and %s is none", poolName))
		b.r.Leave()
		return
	}
	if user, ok := d.user.Get(); ok && b.configs[pool].CreateEphemeralSubpools.Value() {
		pool = b.ephemeralPool(pool, poolName+"$"+user)
	}
	if _, taken := b.slots[name]; taken {
		b.r.Refuse(at, document.RuleRepeated, fmt.Sprintf("the name %q is taken by another pool or operation", shorten(name)))
		return
	}
	if d.options.SchedulingTagFilter.IsSet() && len(b.file.Cluster.Nodes) == 0 {
		b.r.Warn(at, document.RuleNotSupported, "scheduling_tag_filter has no effect here: the cluster is given by its total, not by its nodes")
	}
	element := entitlement.Operation(&d.options, demand, usage, &b.file.Cluster)
	element.Parent = pool
	element.StartTime = d.startTime.Value()
	element.Pending = max(demand[resource.UserSlots]-usage[resource.UserSlots], 0)
	if n, ok := d.pending.Get(); ok {
		element.Pending = int64(n)
	}
	slot := b.add(name, pool, fairshare.Element{}, pooltree.Effective{}, pooltree.PoolConfig{})
	b.file.operations = append(b.file.operations, Operation{Slot: slot, Element: element, Activity: d.active})
}

// nearestPool completes a message about a pool that does not exist. It searches
// for a similar name only as often as a user would read the answer.
func (b *builder) nearestPool(name string) string {
	if b.missing++; b.missing > maxProblems {
		return ""
	}
	var pools []string
	for slot, element := range b.file.Tree.Elements {
		if element.Kind == fairshare.KindPool {
			pools = append(pools, b.file.Names[slot])
		}
	}
	return didYouMean(name, pools)
}

// ephemeralPool returns the slot of a user's subpool, which it creates on
// demand.
func (b *builder) ephemeralPool(hub int32, name string) int32 {
	if slot, ok := b.slots[name]; ok {
		return slot
	}
	parent, _ := b.file.Config.Pool(b.file.Names[hub])
	config := parent.EphemeralPool()
	settings := b.file.Config.Settings()
	return b.add(name, hub, entitlement.Pool(&config, &b.file.Cluster), pooltree.Effective{
		Mode:                     config.Mode.Value(),
		MaxRunningOperationCount: config.MaxRunningOperationCount.Or(settings.MaxRunningOperationCountPerPool.Value()),
		MaxOperationCount:        config.MaxOperationCount.Or(settings.MaxOperationCountPerPool.Value()),
		AllowGangOperations:      b.effective[hub].AllowGangOperations || config.Mode.Value() == pooltree.FIFO,
	}, pooltree.PoolConfig{})
}
