package treefile

import (
	"math"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/jsontext"
	"github.com/weirhq/weir/internal/value/resource"
)

// vectorTree is the JSON of one tree, as the conformance vectors have it.
type vectorTree struct {
	id                string
	brief             bool
	total             resource.Partial
	hasTotal          bool
	mainResource      resource.Kind
	elapsed           document.Optional[float64]
	saturationPeriod  document.Optional[float64]
	smoothPeriod      document.Optional[float64]
	relaxedMultiplier document.Optional[float64]
	distributeFree    bool
	inferWeight       document.Optional[float64]
	options           vectorOptions
	root              vectorRoot
	hasElements       bool
	elements          elementList
}

type vectorOptions struct {
	gangSteps, improved, improvedGap bool
	// fastFIFO is read for the format's sake: we compute no other way.
	fastFIFO bool
}

type vectorRoot struct {
	mode           fairshare.Mode
	fifoKeys       []fairshare.FIFOKey
	distributeFree bool
	promised       bool
}

// vectorElement has the keys of pools and of operations; Kind distinguishes
// them.
type vectorElement struct {
	at        int  // offset in the text
	broken    bool // it is no object, which has been reported
	id        string
	parent    string
	parentAt  int
	fairshare fairshare.Element // Pool is set by the first key of a pool
	state     fairshare.State
	usageAt   int
	// foreign is where the first key is that only the other kind has, by that
	// kind.
	foreign [3]foreignKey
}

// pool returns the settings of a pool.
func (e *vectorElement) pool() *fairshare.Pool {
	if e.fairshare.Pool == nil {
		e.fairshare.Pool = new(fairshare.Pool)
	}
	return e.fairshare.Pool
}

// elementList is a list that grows without moving its elements.
type elementList struct {
	chunks [][]vectorElement
	length int
}

const chunkSize = 64

func (l *elementList) add() *vectorElement {
	if l.length%chunkSize == 0 {
		l.chunks = append(l.chunks, make([]vectorElement, chunkSize))
	}
	l.length++
	return l.at(l.length - 1)
}

func (l *elementList) at(i int) *vectorElement { return &l.chunks[i/chunkSize][i%chunkSize] }

type foreignKey struct {
	name string
	at   int
}

const (
	// longestPeriod is the most seconds of any period: about 30 years, so that
	// it fits into a time.Duration with room for sums.
	longestPeriod = 1e9
	largest       = math.MaxFloat64
	// leastWeight and mostWeight are wider than what configuration allows, yet
	// proportions between any two of them are finite.
	leastWeight, mostWeight = 1e-100, 1e100
	// maxTreeDepth bounds nesting of pools. Configuration allows 30.
	maxTreeDepth = 1000
)

var vectorKinds = []string{"user_slots", "cpu", "gpu", "memory", "network", "user_memory"}

var (
	modeWords    = []string{"fair_share", "fifo"}
	modes        = []fairshare.Mode{fairshare.FairShare, fairshare.FIFO}
	fifoKeyWords = []string{"weight", "start_time", "pending_allocation_count"}
	fifoKeys     = []fairshare.FIFOKey{fairshare.ByWeight, fairshare.ByStartTime, fairshare.ByPending}
)

var vectorTreeFields = newFields(
	textField("id", func(t *vectorTree) *string { return &t.id }),
	field[vectorTree]{"comment", func(s *scanner, _ *vectorTree) { s.skip() }},
	field[vectorTree]{"total_resources", func(s *scanner, t *vectorTree) {
		t.total, t.hasTotal = readAmounts(s), true
	}},
	wordField("main_resource", vectorKinds,
		[]resource.Kind{resource.UserSlots, resource.CPU, resource.GPU, resource.Memory, resource.Network, resource.Memory},
		func(t *vectorTree) *resource.Kind { return &t.mainResource }),
	numberField("time_since_previous_update", 0, longestPeriod, func(t *vectorTree) *document.Optional[float64] { return &t.elapsed }),
	numberField("integral_pool_capacity_saturation_period", 0, longestPeriod, func(t *vectorTree) *document.Optional[float64] { return &t.saturationPeriod }),
	numberField("integral_smooth_period", 1e-6, longestPeriod, func(t *vectorTree) *document.Optional[float64] { return &t.smoothPeriod }),
	numberField("relaxed_share_multiplier_limit", 1e-9, largest, func(t *vectorTree) *document.Optional[float64] { return &t.relaxedMultiplier }),
	flagField("should_distribute_free_volume_among_children", func(t *vectorTree) *bool { return &t.distributeFree }),
	numberField("infer_weight_from_guarantees_share_multiplier", leastWeight, mostWeight, func(t *vectorTree) *document.Optional[float64] { return &t.inferWeight }),
	objectField("options", vectorOptionFields, func(t *vectorTree) *vectorOptions { return &t.options }),
	objectField("root", vectorRootFields, func(t *vectorTree) *vectorRoot { return &t.root }),
	field[vectorTree]{"elements", func(s *scanner, t *vectorTree) {
		t.hasElements = true
		s.list("a list of elements", func(int) {
			e := t.elements.add()
			e.at = s.here()
			isNull := s.json.Peek() == jsontext.Null
			if e.broken = !vectorElementFields.object(s, e); isNull {
				s.refuse(e.at, document.RuleWrongType, "must be an object, not null")
			}
		})
	}},
	wordField("output", []string{"full", "brief"}, []bool{false, true}, func(t *vectorTree) *bool { return &t.brief }),
)

var vectorOptionFields = newFields(
	flagField("enable_step_function_for_gang_operations", func(o *vectorOptions) *bool { return &o.gangSteps }),
	flagField("enable_improved_fair_share_by_fit_factor_computation", func(o *vectorOptions) *bool { return &o.improved }),
	flagField("enable_improved_fair_share_by_fit_factor_computation_distribution_gap", func(o *vectorOptions) *bool { return &o.improvedGap }),
	flagField("enable_fast_fifo_fair_share_by_fit_factor_computation", func(o *vectorOptions) *bool { return &o.fastFIFO }),
)

var vectorRootFields = newFields(
	wordField("mode", modeWords, modes, func(r *vectorRoot) *fairshare.Mode { return &r.mode }),
	fifoKeysField(func(r *vectorRoot) *[]fairshare.FIFOKey { return &r.fifoKeys }),
	flagField("should_distribute_free_volume_among_children", func(r *vectorRoot) *bool { return &r.distributeFree }),
	flagField("compute_promised_guarantee_fair_share", func(r *vectorRoot) *bool { return &r.promised }),
)

var vectorElementFields = newFields(
	wordField("type", []string{"pool", "operation"}, []fairshare.Kind{fairshare.KindPool, fairshare.KindOperation},
		func(e *vectorElement) *fairshare.Kind { return &e.fairshare.Kind }),
	textField("id", func(e *vectorElement) *string { return &e.id }),
	field[vectorElement]{"parent", func(s *scanner, e *vectorElement) {
		e.parentAt = s.here()
		e.parent, _ = s.text()
	}},
	field[vectorElement]{"weight", func(s *scanner, e *vectorElement) {
		e.fairshare.Weight, _ = s.number(leastWeight, mostWeight)
	}},
	field[vectorElement]{"resource_limits", func(s *scanner, e *vectorElement) { e.fairshare.Limits = readAmounts(s) }},

	only(fairshare.KindPool, wordField("mode", modeWords, modes, func(e *vectorElement) *fairshare.Mode { return &e.pool().Mode })),
	only(fairshare.KindPool, fifoKeysField(func(e *vectorElement) *[]fairshare.FIFOKey { return &e.pool().FIFOKeys })),
	only(fairshare.KindPool, field[vectorElement]{"strong_guarantee_resources", func(s *scanner, e *vectorElement) { e.pool().Strong = readAmounts(s) }}),
	only(fairshare.KindPool, field[vectorElement]{"integral_guarantees", func(s *scanner, e *vectorElement) { vectorIntegralFields.object(s, e) }}),
	only(fairshare.KindPool, field[vectorElement]{"enable_step_function_for_gang_operations", func(s *scanner, e *vectorElement) {
		on, ok := s.flag()
		e.pool().GangStepsOff = ok && !on
	}}),
	only(fairshare.KindPool, flagField("compute_promised_guarantee_fair_share", func(e *vectorElement) *bool { return &e.pool().Promised })),
	only(fairshare.KindPool, flagField("enable_priority_strong_guarantee_adjustment", func(e *vectorElement) *bool { return &e.pool().PriorityAdjustment })),
	only(fairshare.KindPool, flagField("enable_priority_strong_guarantee_adjustment_donorship", func(e *vectorElement) *bool { return &e.pool().PriorityDonor })),

	only(fairshare.KindOperation, field[vectorElement]{"resource_demand", func(s *scanner, e *vectorElement) { e.fairshare.Demand = readAmounts(s).OrZero() }}),
	only(fairshare.KindOperation, field[vectorElement]{"resource_usage", func(s *scanner, e *vectorElement) {
		e.usageAt = s.here()
		e.fairshare.Usage = readAmounts(s).OrZero()
	}}),
	only(fairshare.KindOperation, flagField("is_gang", func(e *vectorElement) *bool { return &e.fairshare.Gang })),
	only(fairshare.KindOperation, field[vectorElement]{"best_allocation_share", readBestShare}),
	only(fairshare.KindOperation, field[vectorElement]{"start_time", func(s *scanner, e *vectorElement) {
		seconds, _ := s.number(-9e12, 9e12)
		e.fairshare.StartTime = int64(math.Round(seconds * 1e6))
	}}),
	only(fairshare.KindOperation, field[vectorElement]{"pending_allocation_count", func(s *scanner, e *vectorElement) {
		n, at, ok := s.numeral()
		if !ok {
			return
		}
		count, ok := n.Int64()
		if !ok || count < 0 {
			s.refuse(at, document.RuleOutOfRange, "must be a whole number that is not negative, not %s", shorten(string(n.Text)))
			return
		}
		e.fairshare.Pending = count
	}}),
)

var vectorIntegralFields = newFields(
	wordField("guarantee_type", []string{"none", "burst", "relaxed"},
		[]fairshare.GuaranteeType{fairshare.NoIntegral, fairshare.Burst, fairshare.Relaxed},
		func(e *vectorElement) *fairshare.GuaranteeType { return &e.pool().Integral.Type }),
	field[vectorElement]{"resource_flow", func(s *scanner, e *vectorElement) { e.pool().Integral.Flow = readAmounts(s).OrZero() }},
	field[vectorElement]{"burst_guarantee_resources", func(s *scanner, e *vectorElement) { e.pool().Integral.Burst = readAmounts(s).OrZero() }},
	field[vectorElement]{"relaxed_share_multiplier_limit", func(s *scanner, e *vectorElement) {
		e.pool().Integral.RelaxedMultiplier, _ = s.number(1e-9, largest)
	}},
	field[vectorElement]{"can_accept_free_volume", func(s *scanner, e *vectorElement) {
		on, ok := s.flag()
		e.pool().Integral.RefuseFreeVolume = ok && !on
	}},
	field[vectorElement]{"should_distribute_free_volume_among_children", func(s *scanner, e *vectorElement) {
		if on, ok := s.flag(); ok {
			e.pool().Integral.DistributeFreeVolume = fairshare.SwitchOf(on)
		}
	}},
	field[vectorElement]{"accumulated_volume", func(s *scanner, e *vectorElement) { vectorVolumeFields.object(s, &e.state.Volume) }},
	field[vectorElement]{"last_share_ratio", func(s *scanner, e *vectorElement) {
		e.state.LastShareRatio, _ = s.number(0, largest)
	}},
)

// only marks a key of one kind of elements, so that [vectorTree.check] can
// reject it on the other.
func only(kind fairshare.Kind, f field[vectorElement]) field[vectorElement] {
	return field[vectorElement]{f.name, func(s *scanner, e *vectorElement) {
		if e.foreign[kind].name == "" {
			e.foreign[kind] = foreignKey{f.name, s.here()}
		}
		f.read(s, e)
	}}
}

func fifoKeysField[T any](at func(*T) *[]fairshare.FIFOKey) field[T] {
	return field[T]{"fifo_sort_parameters", func(s *scanner, into *T) {
		start := s.here()
		s.list("a list of keys", func(int) {
			if key, ok := readWord(s, fifoKeyWords, fifoKeys); ok {
				*at(into) = append(*at(into), key)
			}
		})
		if n := len(*at(into)); n > len(fifoKeys) {
			s.refuse(start, document.RuleRepeated, "has %d keys, and there are only %d", n, len(fifoKeys))
		}
	}}
}

// amountFields read the components of a vector of amounts, volumeFields those of
// a volume.
var (
	vectorAmountFields = newFields(kindFields(func(s *scanner, k resource.Kind, into *resource.Partial) {
		if amount, ok := readAmount(s, k); ok {
			*into = into.With(k, amount)
		}
	})...)
	vectorVolumeFields = newFields(kindFields(func(s *scanner, k resource.Kind, into *resource.Volume) {
		into[k], _ = s.number(0, largest)
	})...)
)

func kindFields[T any](read func(*scanner, resource.Kind, *T)) (list []field[T]) {
	for _, name := range vectorKinds {
		kind, _ := resource.ParseKind(name)
		list = append(list, field[T]{name, func(s *scanner, into *T) { read(s, kind, into) }})
	}
	return list
}

func readAmounts(s *scanner) (amounts resource.Partial) {
	vectorAmountFields.object(s, &amounts)
	return amounts
}

// readAmount reads one component. cpu is rounded to hundredths, everything else
// must be whole; amounts beyond all bounds are unlimited.
func readAmount(s *scanner, kind resource.Kind) (int64, bool) {
	n, at, ok := s.numeral()
	if !ok {
		return 0, false
	}
	if whole, ok := n.Int64(); ok && whole >= 0 {
		if whole >= resource.Unlimited/kind.Scale() {
			return resource.Unlimited, true
		}
		return whole * kind.Scale(), true
	}
	value, ok := n.Float64()
	switch text := shorten(string(n.Text)); {
	case !ok:
		s.refuse(at, document.RuleOutOfRange, "%s is out of the range of numbers", text)
	case value < 0:
		s.refuse(at, document.RuleOutOfRange, "must not be negative, is %s", text)
	case kind != resource.CPU && value != math.Trunc(value):
		s.refuse(at, document.RuleWrongType, "must be a whole number, not %s", text)
	default:
		return resource.FromFloat(kind, value), true
	}
	return 0, false
}

func readBestShare(s *scanner, e *vectorElement) {
	at := s.here()
	count := 0
	var share resource.Shares
	s.list("a list of five shares", func(i int) {
		value, _ := s.number(0, largest)
		if i < resource.KindCount {
			share[i] = value
		}
		count++
	})
	switch {
	case count == 0: // null, or not a list, which has been rejected
	case count != resource.KindCount:
		s.refuse(at, document.RuleOutOfRange, "must have %d components, has %d", resource.KindCount, count)
	case share.IsZero():
		// A zero share means "no bound" to the engine; a zero limit forbids all.
		e.fairshare.Limits = resource.PartialOf(resource.Amounts{})
	default:
		e.fairshare.BestShare = share
	}
}

// ReadVector reads one tree in the JSON of the conformance vectors.
func ReadVector(data []byte) (*File, error) { return readVector("", data) }

func readVector(name string, data []byte) (*File, error) {
	s := newScanner(name, data)
	in := vectorTree{mainResource: resource.CPU}
	var file *File
	if vectorTreeFields.object(s, &in) {
		if at := s.here(); at < len(data) {
			s.refuse(at, document.RuleSeveral, "there is something after the tree")
		}
		file = in.file(s)
	} else if !s.broken && len(s.problems) == 0 {
		s.refuse(0, document.RuleWrongType, "must be an object, not null")
	}
	if err := s.err(); err != nil {
		return nil, &BadInput{ID: in.id, Problems: err}
	}
	return file, nil
}

func (in *vectorTree) file(s *scanner) *File {
	if !in.hasTotal {
		s.refuse(0, document.RuleMissing, "needs total_resources")
	}
	if !in.hasElements {
		s.refuse(0, document.RuleMissing, "needs elements")
	}
	file := &File{ID: in.id, Brief: in.brief, Elapsed: fairshare.FirstUpdate}
	if seconds, ok := in.elapsed.Get(); ok {
		file.Elapsed = toDuration(seconds)
	}
	options := fairshare.DefaultOptions()
	options.MainResource = in.mainResource
	if seconds, ok := in.saturationPeriod.Get(); ok {
		options.CapacitySaturationPeriod = toDuration(seconds)
	}
	if seconds, ok := in.smoothPeriod.Get(); ok {
		options.SmoothPeriod = toDuration(seconds)
	}
	options.RelaxedShareMultiplierLimit = in.relaxedMultiplier.Or(options.RelaxedShareMultiplierLimit)
	options.InferWeightMultiplier = in.inferWeight.Or(0)
	options.DistributeFreeVolume = in.distributeFree
	options.GangSteps = in.options.gangSteps
	options.Improved = in.options.improved
	options.ImprovedDistributionGap = in.options.improvedGap
	file.Tree.Total = in.total.OrZero()
	file.Tree.Options = options
	in.fill(s, file)
	return file
}

// toDuration keeps microseconds, the resolution of the format.
func toDuration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond
}

// fill resolves parents and moves elements into their slots.
func (in *vectorTree) fill(s *scanner, file *File) {
	count := in.elements.length + 1
	slots := make(map[string]int32, count)
	file.Names = make([]string, count)
	file.Tree.Elements = make([]fairshare.Element, count)
	file.Tree.States = make([]fairshare.State, count)
	file.Names[0] = RootName
	slots[RootName] = 0
	file.Tree.Elements[0] = fairshare.Element{Kind: fairshare.KindPool, Pool: &fairshare.Pool{
		Mode: in.root.mode, FIFOKeys: in.root.fifoKeys, Promised: in.root.promised,
		Integral: fairshare.Integral{DistributeFreeVolume: fairshare.SwitchOf(in.root.distributeFree)},
	}}
	for i := range in.elements.length {
		e := in.elements.at(i)
		file.Names[i+1] = e.id
		file.Tree.States[i+1] = e.state
		if e.broken {
			continue
		}
		if e.id == "" {
			s.refuseAt(e.at, elementPath(i), document.RuleMissing, "needs an id")
		} else if first, taken := slots[e.id]; taken {
			s.refuseAt(e.at, elementPath(i), document.RuleRepeated, "the id %q is taken by %s", shorten(e.id), holder(first))
		} else {
			slots[e.id] = int32(i + 1)
		}
		in.check(s, i)
	}
	sound := true
	for i := range in.elements.length {
		e := in.elements.at(i)
		if e.parent == "" {
			continue
		}
		slot, found := slots[e.parent]
		if !found {
			s.refuseAt(e.parentAt, elementPath(i)+"/parent", ruleNoSuchPool, "there is no pool %q", shorten(e.parent))
			sound = false
		}
		e.fairshare.Parent = slot
	}
	for i := range in.elements.length {
		file.Tree.Elements[i+1] = in.elements.at(i).fairshare
	}
	if !sound {
		return
	}
	checkStructure(file, func(slot int32, rule document.Rule, message string) {
		i := int(slot) - 1
		s.refuseAt(in.elements.at(i).at, elementPath(i), rule, "%s", message)
	})
}

// check applies the rules between the keys of one element.
func (in *vectorTree) check(s *scanner, i int) {
	e := in.elements.at(i)
	switch kind := e.fairshare.Kind; kind {
	case fairshare.KindNone:
		s.refuseAt(e.at, elementPath(i), document.RuleMissing, "needs a type, pool or operation")
		e.fairshare.Kind = fairshare.KindPool // so that its children are not refused as well
		return
	case fairshare.KindPool:
		if key := e.foreign[fairshare.KindOperation]; key.name != "" {
			s.refuseAt(key.at, elementPath(i)+"/"+key.name, document.RuleUnknownKey, "a pool does not have this key; operations do")
		}
	default:
		if key := e.foreign[fairshare.KindPool]; key.name != "" {
			s.refuseAt(key.at, elementPath(i)+"/"+key.name, document.RuleUnknownKey, "an operation does not have this key; pools do")
		}
	}
	if !e.fairshare.Demand.Dominates(e.fairshare.Usage) {
		s.refuseAt(e.usageAt, elementPath(i)+"/resource_usage", ruleUsageAboveDemand,
			"must not exceed resource_demand (%v), is %v", e.fairshare.Demand, e.fairshare.Usage)
	}
}

func elementPath(i int) string { return "elements/" + strconv.Itoa(i) }

func holder(slot int32) string {
	if slot == 0 {
		return "the root"
	}
	return elementPath(int(slot) - 1)
}
