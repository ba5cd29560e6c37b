package pooltree

import (
	"fmt"
	"iter"

	"github.com/weirhq/weir/internal/value/document"
)

// Limits bound the structure of trees. They are far above what users need and
// contain mistakes. A zero field is not a limit; the zero Limits are replaced by
// DefaultLimits.
type Limits struct {
	// MaxDepth is the number of levels of pools below the root.
	MaxDepth int
	// MaxSubtreeSize is the number of pools in the subtree of a pool below the
	// root, that pool included.
	MaxSubtreeSize int
	// MaxNameLength is the length of a pool's name in bytes.
	MaxNameLength int
}

// DefaultLimits are those of YTsaurus.
func DefaultLimits() Limits {
	return Limits{MaxDepth: 30, MaxSubtreeSize: 1000, MaxNameLength: 100}
}

func (l Limits) orDefault() Limits {
	if l == (Limits{}) {
		return DefaultLimits()
	}
	return l
}

// Tree is a valid configuration of a pool tree. It is immutable.
type Tree struct {
	config   TreeConfig
	settings TreeConfig
	template TreeConfig // see Options.Template
	// pools has the root at index 0 and the rest depth first, children in their
	// order.
	pools  []Pool
	byName map[string]int
	limits Limits
	// lenient reports whether the tree keeps names that it does not know.
	lenient bool
}

// Pool is a pool of a Tree, or its root.
type Pool struct {
	tree      *Tree
	name      string
	index     int
	parent    int // index; -1 for the root
	children  []int
	depth     int
	config    *PoolConfig
	effective Effective
}

// Options set how FromValue reads.
type Options struct {
	// File is the name of the document in messages; it may be empty.
	File   string
	Limits Limits
	// KeepUnknown keeps unknown options, and names of presets that the tree does not
	// have, and warns about them. It holds for edits of the tree too.
	KeepUnknown bool
	Keys        Keys
	// Template has values for options that the tree does not set. It holds for edits
	// of the tree too.
	Template TreeConfig
}

// FromValue reads a tree from a document. The error is of type document.Problems
// and lists everything that is wrong; warnings are returned in either case.
func FromValue(v document.Value, options Options) (*Tree, document.Problems, error) {
	r := document.NewReader(options.File)
	r.KeepUnknown = options.KeepUnknown
	draft := Read(r, v, options.Keys)
	draft.template = options.Template
	tree := draft.Build(r, options.Limits)
	return tree, r.Warnings(), r.Problems().Err()
}

// Build validates a draft as a whole and makes it a tree. It reports problems
// and warnings to the reader. It returns nil if the reader has problems, earlier
// ones included.
func (d *Draft) Build(r *document.Reader, limits Limits) *Tree {
	c := &checker{r: r, base: r.Path(), draft: d, tree: &Tree{
		config: d.Config, template: d.template, limits: limits.orDefault(), lenient: r.KeepUnknown || d.lenient,
	}}
	c.tree.settings = c.tree.Chosen().Settings()
	c.structure()
	c.tree.inherit()
	c.treeRules()
	for i := 1; i < len(c.tree.pools); i++ {
		c.poolRules(&c.tree.pools[i])
	}
	if r.HasProblems() {
		return nil
	}
	return c.tree
}

// Config returns the options that were set explicitly.
func (t *Tree) Config() TreeConfig { return t.config }

// Chosen returns the options that were set, by the tree itself or by its template.
func (t *Tree) Chosen() TreeConfig {
	chosen := t.config
	TreeOptions.Fill(&chosen, &t.template)
	return chosen
}

// WithTemplate returns the tree with another template. The error is of type
// document.Problems.
func (t *Tree) WithTemplate(template TreeConfig) (*Tree, error) {
	if TreeOptions.Equal(&t.template, &template) {
		return t, nil
	}
	r, draft := document.NewReader(""), t.draft()
	draft.template = template
	tree := draft.Build(r, t.limits)
	return tree, r.Problems().Err()
}

// Settings returns the options with defaults filled in. Options that are unset
// in it have no default.
func (t *Tree) Settings() TreeConfig { return t.settings }

// Root returns the root pool, which has the name RootName and no configuration.
func (t *Tree) Root() *Pool { return &t.pools[0] }

// Len returns the number of pools without the root.
func (t *Tree) Len() int { return len(t.pools) - 1 }

// Pools yields all pools but the root, depth first, parents before children and
// siblings in the order of the document.
func (t *Tree) Pools() iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		for i := 1; i < len(t.pools); i++ {
			if !yield(&t.pools[i]) {
				return
			}
		}
	}
}

// Pool finds a pool by its name; the root has RootName.
func (t *Tree) Pool(name string) (*Pool, bool) {
	i, ok := t.byName[name]
	if !ok {
		return nil, false
	}
	return &t.pools[i], true
}

// Name returns the name, which is unique in the tree.
func (p *Pool) Name() string { return p.name }

// String returns the name.
func (p *Pool) String() string { return p.name }

// Index returns the place of the pool in the order of the tree: the root is 0,
// the first of Pools is 1.
func (p *Pool) Index() int { return p.index }

// IsRoot reports whether the pool is the root of the tree.
func (p *Pool) IsRoot() bool { return p.parent < 0 }

// Parent returns the pool that p is in. The root has none.
func (p *Pool) Parent() (*Pool, bool) {
	if p.parent < 0 {
		return nil, false
	}
	return &p.tree.pools[p.parent], true
}

// Children returns the pools that are directly in p, in the order of the
// document.
func (p *Pool) Children() []*Pool {
	children := make([]*Pool, len(p.children))
	for i, c := range p.children {
		children[i] = &p.tree.pools[c]
	}
	return children
}

// Depth is the number of pools above p: 0 for the root.
func (p *Pool) Depth() int { return p.depth }

// Path returns the names of the pools from below the root down to p, with
// slashes before them: /production/etl. The path of the root is "/".
func (p *Pool) Path() string {
	if p.IsRoot() {
		return "/"
	}
	path := ""
	for q := p; !q.IsRoot(); q = &p.tree.pools[q.parent] {
		path = "/" + q.name + path
	}
	return path
}

// Config returns the options that were set explicitly on the pool itself.
func (p *Pool) Config() PoolConfig { return *p.config }

// Effective returns the values that hold for the pool after presets,
// inheritance and defaults.
func (p *Pool) Effective() Effective { return p.effective }

// CheckName returns what is wrong with the name of a pool that a user or an
// administrator wants to create. The maximum length is that of DefaultLimits.
func CheckName(name string, administrator bool) error {
	if message := nameProblem(name, administrator, DefaultLimits().MaxNameLength); message != "" {
		return fmt.Errorf("pool name %q: %s", name, message)
	}
	return nil
}

func nameProblem(name string, administrator bool, longest int) string {
	switch {
	case name == "":
		return "the name is empty"
	case name == RootName:
		return "this is the name of the root pool"
	case name == "." || name == "..":
		return "it would mean a directory in paths and file names"
	case longest > 0 && len(name) > longest:
		return fmt.Sprintf("the name has %d bytes; the limit is %d", len(name), longest)
	}
	for _, c := range []byte(name) {
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
		special := 'A' <= c && c <= 'Z' || c == ':'
		switch {
		case plain, special && administrator:
		case special:
			return "only administrators may use capital letters and colons; others a-z, 0-9, -, _ and ."
		default:
			return "a name consists of a-z, A-Z, 0-9, -, _, . and :"
		}
	}
	return ""
}
