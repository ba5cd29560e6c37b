package operation

import (
	"slices"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// Update is a change of an operation's parameters at run time. The rest of
// the specification is fixed at the start.
type Update struct {
	// Trees has pool, weight, scheduling_tag_filter and, per tree, pool, weight
	// and resource_limits. Nothing else in it is set.
	Trees             pooltree.OperationOptions
	ACL               document.Optional[document.Value]
	ACOName           document.Optional[string]
	Annotations       document.Optional[document.Value]
	MaxFailedJobCount document.Optional[int]

	extras document.Extras
}

const perTree = "scheduling_options_per_pool_tree"

// mutable are the rows of pooltree's table that may change, at the root and
// in one tree.
var (
	mutable     = []string{"pool", "weight", "scheduling_tag_filter", perTree}
	treeMutable = []string{"pool", "weight", "resource_limits"}
)

var updateTable = document.NewTable(concat(
	document.Within(mutableRows(), func(u *Update) *pooltree.OperationOptions { return &u.Trees }),
	[]document.Option[Update]{
		document.Maybe("acl", "As in the specification.",
			func(u *Update) *opt[document.Value] { return &u.ACL }, accessList),
		document.Maybe("aco_name", "As in the specification.",
			func(u *Update) *opt[string] { return &u.ACOName }, document.Words),
		document.Maybe("annotations", "Keys to set. A null value removes the key; null instead of the map removes all keys.",
			func(u *Update) *opt[document.Value] { return &u.Annotations },
			document.Anything.That("a map of at most 10 KiB, or null", document.RuleOutOfRange,
				func(v document.Value) bool { return v.IsNull() || v.Kind() == document.MapKind && isShort(v) })),
		document.Maybe("max_failed_job_count", "As in the specification; earlier failures count immediately.",
			func(u *Update) *opt[int] { return &u.MaxFailedJobCount }, maxFailed),
	},
	kept(func(u *Update) *document.Extras { return &u.extras }, []unsupported{
		{reasonAgents, []string{"controller_agent_tag"}},
		{"job shells have no options", []string{"options_per_job_shell"}},
	}),
)...)

func mutableRows() (rows []document.Option[pooltree.OperationOptions]) {
	for _, row := range pooltree.OperationOptionList() {
		if slices.Contains(mutable, row.Name()) {
			rows = append(rows, row)
		}
	}
	return rows
}

// UpdateOptions describes the options that can change at run time.
func UpdateOptions() []*document.Info { return updateTable.Options() }

// ReadUpdate reads a change of parameters. It rejects options that exist but
// cannot change with RuleNotMutable.
func ReadUpdate(v document.Value, file string) (Update, document.Problems, error) {
	r := document.NewReader(file)
	var u Update
	var beside []string
	for _, e := range v.Entries() {
		if name, known := updateTable.Resolve(e.Key); known {
			if name == perTree {
				checkTreeUpdates(r, e)
			}
			continue
		}
		if _, known := specTable.Resolve(e.Key); known {
			beside = append(beside, e.Key)
			refuseFixed(r, e)
		}
	}
	updateTable.Read(r, v, &u, beside...)
	return u, r.Warnings(), r.Problems().Err()
}

func checkTreeUpdates(r *document.Reader, trees document.Entry) {
	r.Enter(trees.Key)
	for _, tree := range trees.Value.Entries() {
		r.Enter(tree.Key)
		for _, e := range tree.Value.Entries() {
			if name, known := pooltree.OperationTable.Resolve(e.Key); known && !slices.Contains(treeMutable, name) {
				refuseFixed(r, e)
			}
		}
		r.Leave()
	}
	r.Leave()
}

func refuseFixed(r *document.Reader, e document.Entry) {
	r.Enter(e.Key)
	r.Refuse(e.At, RuleNotMutable, "cannot be changed while the operation runs", document.Pair("option", document.Text(e.Key)))
	r.Leave()
}

// With returns the specification after a change. A weight given for all trees
// overrides any weight of a tree, old or new; a pool given for a tree
// overrides the pool given for all.
func (s *Spec) With(u Update) *Spec {
	changed := *s
	changed.PerTree = slices.Clone(s.PerTree)
	all := u.Trees.SchedulingOptions
	for i := range changed.PerTree {
		tree := &changed.PerTree[i].Value
		if all.Pool.IsSet() {
			tree.Pool = opt[string]{}
		}
		if all.SchedulingTagFilter.IsSet() {
			tree.SchedulingTagFilter = all.SchedulingTagFilter
		}
	}
	for _, given := range u.Trees.PerTree {
		i := slices.IndexFunc(changed.PerTree, func(n document.Named[pooltree.SchedulingOptions]) bool { return n.Name == given.Name })
		if i < 0 {
			i = len(changed.PerTree)
			changed.PerTree = append(changed.PerTree, document.Named[pooltree.SchedulingOptions]{Name: given.Name})
		}
		tree := &changed.PerTree[i].Value
		tree.Pool = given.Value.Pool.OrElse(tree.Pool)
		tree.Weight = given.Value.Weight.OrElse(tree.Weight)
		tree.ResourceLimits = given.Value.ResourceLimits.OrElse(tree.ResourceLimits)
	}
	if all.Weight.IsSet() {
		for i := range changed.PerTree {
			changed.PerTree[i].Value.Weight = opt[float64]{}
		}
	}
	changed.Pool = all.Pool.OrElse(s.Pool)
	changed.Weight = all.Weight.OrElse(s.Weight)
	changed.SchedulingTagFilter = all.SchedulingTagFilter.OrElse(s.SchedulingTagFilter)
	changed.ACL = u.ACL.OrElse(s.ACL)
	changed.ACOName = u.ACOName.OrElse(s.ACOName)
	changed.MaxFailedJobCount = u.MaxFailedJobCount.OrElse(s.MaxFailedJobCount)
	changed.Annotations = patched(s.Annotations, u.Annotations)
	return &changed
}

func patched(old, change document.Optional[document.Value]) document.Optional[document.Value] {
	patch, ok := change.Get()
	if !ok {
		return old
	}
	if patch.IsNull() {
		return opt[document.Value]{}
	}
	result := old.Or(document.Map())
	for _, e := range patch.Entries() {
		if e.Value.IsNull() {
			result = result.Without(e.Key)
		} else {
			result = result.With(e.Key, e.Value)
		}
	}
	return document.Some(result)
}
