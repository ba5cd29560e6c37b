package pooltree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Edit is a change of a tree. Edits are plain values, so that they can be
// logged, stored and replayed.
type Edit interface {
	// apply changes the draft or reports to the reader why it cannot.
	apply(r *document.Reader, d *editing)
}

// AddPool adds a pool as the last child of its parent; an empty parent is the
// root.
type AddPool struct {
	Pool, Parent string
	Config       PoolConfig
}

// SetPool replaces the options of a pool.
type SetPool struct {
	Pool   string
	Config PoolConfig
}

// SetPoolOption sets one option of a pool, given by any of its names. The option
// may be a path into a map: integral_guarantees/resource_flow. Missing maps on
// the path are created. A null value clears the option.
type SetPoolOption struct {
	Pool, Option string
	Value        document.Value
	KeepUnknown  bool
}

// RemovePool removes a pool; Recursive, with everything below.
type RemovePool struct {
	Pool      string
	Recursive bool
}

// MovePool makes a pool, with everything below, the last child of another.
type MovePool struct {
	Pool, Parent string
}

// RenamePool gives a pool another name.
type RenamePool struct {
	Pool, Name string
}

// SetTree replaces the options of the tree.
type SetTree struct {
	Config TreeConfig
}

// SetTreeOption sets one option of the tree, as SetPoolOption does.
type SetTreeOption struct {
	Option      string
	Value       document.Value
	KeepUnknown bool
}

// LimitSubtrees replaces the limit on the size of subtrees, for all edits of the
// list and for the resulting tree; zero means none.
type LimitSubtrees struct {
	MaxSubtreeSize int
}

// With returns the tree after the edits in their order. It validates the result
// as a whole: all edits are applied or none. The receiver does not change. The
// error is of type document.Problems.
func (t *Tree) With(edits ...Edit) (*Tree, document.Problems, error) {
	r := document.NewReader("")
	e := &editing{draft: t.draft(), limits: t.limits}
	for _, edit := range edits {
		edit.apply(r, e)
		if r.HasProblems() {
			return nil, r.Warnings(), r.Problems().Err()
		}
	}
	tree := e.draft.Build(r, e.limits)
	return tree, r.Warnings(), r.Problems().Err()
}

func (t *Tree) draft() *Draft {
	d := &Draft{lenient: t.lenient, template: t.template, Config: t.config, Pools: make([]PoolDraft, 0, t.Len())}
	for p := range t.Pools() {
		parent, _ := p.Parent()
		d.Pools = append(d.Pools, PoolDraft{Name: p.name, Parent: parent.name, Config: p.config})
	}
	return d
}

// editing is a draft between edits.
type editing struct {
	draft  *Draft
	limits Limits
}

// pool finds a pool of the draft by its name.
func (e *editing) pool(r *document.Reader, name string) (*PoolDraft, bool) {
	for i := range e.draft.Pools {
		if e.draft.Pools[i].Name == name {
			return &e.draft.Pools[i], true
		}
	}
	message := fmt.Sprintf("there is no pool %q", name)
	if name == RootName {
		message = "the root pool cannot be changed"
	}
	r.Enter("pools/" + name)
	r.Refuse(document.Position{}, RuleUnknownPool, message, document.Pair("pool", document.Text(name)))
	r.Leave()
	return nil, false
}

func (a AddPool) apply(_ *document.Reader, e *editing) {
	e.draft.Pools = append(e.draft.Pools, PoolDraft{Name: a.Pool, Parent: a.Parent, Config: &a.Config})
}

func (l LimitSubtrees) apply(_ *document.Reader, e *editing) {
	e.limits.MaxSubtreeSize = l.MaxSubtreeSize
}

func (s SetPool) apply(r *document.Reader, e *editing) {
	if p, ok := e.pool(r, s.Pool); ok {
		p.Config = &s.Config
	}
}

func (s SetPoolOption) apply(r *document.Reader, e *editing) {
	p, ok := e.pool(r, s.Pool)
	if !ok {
		return
	}
	r.Enter("pools/" + s.Pool)
	defer r.Leave()
	config := p.config()
	setOption(r, PoolOptions, &config, s.Option, s.Value, s.KeepUnknown)
	p.Config = &config
}

// config returns a copy that may be modified.
func (p *PoolDraft) config() PoolConfig {
	if p.Config == nil {
		return PoolConfig{}
	}
	return *p.Config
}

func (s SetTreeOption) apply(r *document.Reader, e *editing) {
	setOption(r, TreeOptions, &e.draft.Config, s.Option, s.Value, s.KeepUnknown)
}

func (s SetTree) apply(_ *document.Reader, e *editing) { e.draft.Config = s.Config }

func (m RemovePool) apply(r *document.Reader, e *editing) {
	if _, ok := e.pool(r, m.Pool); !ok {
		return
	}
	gone := map[string]bool{m.Pool: true}
	for grown := true; grown; {
		grown = false
		for _, p := range e.draft.Pools {
			if gone[p.Parent] && !gone[p.Name] {
				gone[p.Name], grown = true, true
			}
		}
	}
	if len(gone) > 1 && !m.Recursive {
		r.Enter("pools/" + m.Pool)
		r.Refuse(document.Position{}, RuleHasSubpools, fmt.Sprintf("the pool has %d pools below it; remove them first or say recursive", len(gone)-1))
		r.Leave()
		return
	}
	e.draft.Pools = slices.DeleteFunc(e.draft.Pools, func(p PoolDraft) bool { return gone[p.Name] })
}

func (m MovePool) apply(r *document.Reader, e *editing) {
	p, ok := e.pool(r, m.Pool)
	if !ok {
		return
	}
	moved := *p
	moved.Parent = m.Parent
	e.draft.Pools = slices.DeleteFunc(e.draft.Pools, func(p PoolDraft) bool { return p.Name == m.Pool })
	e.draft.Pools = append(e.draft.Pools, moved)
}

func (m RenamePool) apply(r *document.Reader, e *editing) {
	p, ok := e.pool(r, m.Pool)
	if !ok {
		return
	}
	p.Name = m.Name
	for i := range e.draft.Pools {
		if e.draft.Pools[i].Parent == m.Pool {
			e.draft.Pools[i].Parent = m.Name
		}
	}
}

// setOption sets an option through the document form of the configuration, so
// that the same rules read it.
func setOption[T any](r *document.Reader, table *document.Table[T], config *T, option string, value document.Value, keepUnknown bool) {
	path, current := strings.Split(option, "/"), table.WriteAsWritten(config, document.ForPrograms)
	if name, ok := table.Resolve(path[0]); ok {
		path[0] = name
		if e, set := table.Find(current, name); set {
			path[0] = e.Key
		}
	}
	for i := 1; i < len(path); i++ {
		path[i] = document.Normal(path[i])
	}
	if _, known := table.Resolve(path[0]); !known && !keepUnknown && !value.IsNull() {
		table.Read(r, document.Map(document.Pair(option, value)), new(T))
		return
	}
	changed, ok := setPath(current, path, value)
	if !ok {
		r.Enter(option)
		r.Refuse(document.Position{}, RuleNotSet, "is not set")
		r.Leave()
		return
	}
	// Everything is read again, but only warnings about this option matter;
	// others were given when their options were set.
	all := document.NewReader("")
	all.KeepUnknown = true
	var next T
	table.Read(all, changed, &next)
	for _, p := range all.Problems() {
		p.Path = joinPath(r.Path(), p.Path)
		r.Add(p)
	}
	for _, w := range all.Warnings() {
		if first, _, _ := strings.Cut(w.Path, "/"); first == path[0] {
			w.Path = joinPath(r.Path(), w.Path)
			r.AddWarning(w)
		}
	}
	*config = next
}

// setPath returns the map with the value at the path set, or removed if the value
// is null; the path must then exist.
func setPath(v document.Value, path []string, value document.Value) (document.Value, bool) {
	inner, there := v.Get(path[0])
	if len(path) == 1 {
		if value.IsNull() {
			return v.Without(path[0]), there
		}
		return v.With(path[0], value), true
	}
	if value.IsNull() && !there {
		return v, false
	}
	changed, ok := setPath(inner, path[1:], value)
	return v.With(path[0], changed), ok
}

// Transfer moves guarantees and operation counts from one pool to another: it
// subtracts them from the source and all pools above it, and adds them to the
// destination and all pools above it, up to their common ancestor, which stays as
// it is. A pool between them that passes a flow or a burst guarantee on without
// having one itself stays as it is too. Either end may be the root.
type Transfer struct {
	From, To                 string
	StrongGuarantee          resource.Partial
	Burst                    resource.Partial
	ResourceFlow             resource.Partial
	MaxOperationCount        int
	MaxRunningOperationCount int
}

func (t Transfer) apply(r *document.Reader, e *editing) {
	from, ok := e.chain(r, t.From)
	to, ok2 := e.chain(r, t.To)
	if !ok || !ok2 || !t.sane(r) {
		return
	}
	// Chains lead from the root down; their common part stays unchanged.
	for len(from) > 0 && len(to) > 0 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	for i, p := range from {
		e.without(t, p, i == len(from)-1).change(r, p, -1)
	}
	for i, p := range to {
		e.without(t, p, i == len(to)-1).change(r, p, +1)
	}
}

// without returns the transfer without the guarantees that a pool only passes
// on.
func (e *editing) without(t Transfer, p *PoolDraft, last bool) Transfer {
	if last {
		return t
	}
	for i, g := range guaranteeKinds {
		own := p.config()
		if !g.passes || !g.of(&own).IsTrivial() || !e.hasBelow(p.Name, g) {
			continue
		}
		*[...]*resource.Partial{&t.StrongGuarantee, &t.Burst, &t.ResourceFlow}[i] = resource.Partial{}
	}
	return t
}

// hasBelow reports whether a pool below the named one has a guarantee.
func (e *editing) hasBelow(name string, g guaranteeKind) bool {
	parents := make(map[string]string, len(e.draft.Pools))
	for i := range e.draft.Pools {
		parents[e.draft.Pools[i].Name] = e.draft.Pools[i].Parent
	}
	for i := range e.draft.Pools {
		own := e.draft.Pools[i].config()
		if g.of(&own).IsTrivial() {
			continue
		}
		above := e.draft.Pools[i].Parent
		for n := 0; above != "" && n < len(parents); n++ { // a cycle, which Build reports, ends it
			if above == name {
				return true
			}
			above = parents[above]
		}
	}
	return false
}

// chain returns the pools from below the root down to the named one. A cycle,
// which earlier edits of the same batch may have made, ends it; Build reports it.
func (e *editing) chain(r *document.Reader, name string) (chain []*PoolDraft, ok bool) {
	for n := 0; name != "" && name != RootName && n <= len(e.draft.Pools); n++ {
		p, ok := e.pool(r, name)
		if !ok {
			return nil, false
		}
		chain = append([]*PoolDraft{p}, chain...)
		name = p.Parent
	}
	return chain, true
}

func (t Transfer) sane(r *document.Reader) bool {
	before := len(r.Problems())
	if t.From == t.To {
		r.Refuse(document.Position{}, RuleSameEndpoint, fmt.Sprintf("%q is both the source and the destination of the transfer", t.From))
	}
	for _, p := range []resource.Partial{t.StrongGuarantee, t.Burst, t.ResourceFlow} {
		if !p.OrZero().IsNonNegative() {
			r.Refuse(document.Position{}, document.RuleOutOfRange, fmt.Sprintf("a transfer of %v is negative", p))
		}
	}
	if t.MaxOperationCount < 0 || t.MaxRunningOperationCount < 0 {
		r.Refuse(document.Position{}, document.RuleOutOfRange, "a transfer of a negative number of operations")
	}
	return len(r.Problems()) == before
}

// change adds the transfer to a pool, or subtracts it.
func (t Transfer) change(r *document.Reader, p *PoolDraft, sign int64) {
	r.Enter("pools/" + p.Name)
	c := p.config()
	changeResources(r, strongOption, &c.StrongGuarantee, t.StrongGuarantee, sign)
	changeResources(r, burstOption, &c.Integral.Burst, t.Burst, sign)
	changeResources(r, flowOption, &c.Integral.ResourceFlow, t.ResourceFlow, sign)
	changeCount(r, "max_operation_count", &c.MaxOperationCount, t.MaxOperationCount, sign)
	changeCount(r, "max_running_operation_count", &c.MaxRunningOperationCount, t.MaxRunningOperationCount, sign)
	p.Config = &c
	r.Leave()
}

func changeResources(r *document.Reader, option string, field *document.Optional[resource.Partial], delta resource.Partial, sign int64) {
	current := field.Value()
	for _, k := range resource.Kinds {
		d, _ := delta.Get(k)
		if d == 0 {
			continue
		}
		have, _ := current.Get(k)
		if sign < 0 && have < d {
			r.Enter(option)
			r.Refuse(document.Position{}, RuleNotEnough,
				fmt.Sprintf("%v is %s, so %s cannot be taken from it", k, resource.FormatExact(k, have), resource.FormatExact(k, d)),
				resourceFact(k), amountFact("available", k, have), amountFact("requested", k, d))
			r.Leave()
			continue
		}
		current = current.With(k, have+sign*d)
		*field = document.Some(current)
	}
}

func changeCount(r *document.Reader, option string, field *document.Optional[int], delta int, sign int64) {
	if delta == 0 {
		return
	}
	have := field.Value()
	if sign < 0 && have < delta {
		r.Enter(option)
		r.Refuse(document.Position{}, RuleNotEnough,
			fmt.Sprintf("is %d, so %d cannot be taken from it", have, delta),
			intFact("available", have), intFact("requested", delta))
		r.Leave()
		return
	}
	*field = document.Some(have + int(sign)*delta)
}
