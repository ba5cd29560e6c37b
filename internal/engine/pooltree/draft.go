package pooltree

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// Draft is a tree that has been read but not validated as a whole.
type Draft struct {
	Config TreeConfig
	// Pools are in any order, with names of parents; the order among siblings
	// is theirs in the tree.
	Pools []PoolDraft

	source   document.Value
	wrong    []string
	lenient  bool       // see Options.KeepUnknown
	template TreeConfig // see Options.Template
}

// PoolDraft is a pool of a Draft.
type PoolDraft struct {
	Name string
	// Parent is the name of the parent pool; empty and RootName are the root.
	Parent string
	// Config must not be modified once it is here: trees share it. Nil is an
	// empty configuration.
	Config *PoolConfig

	at     document.Position
	source document.Value // for the places of problems
	wrong  []string       // options that could not be read
}

// Source returns the map that the pool was read from, where callers of Read find
// their own keys.
func (p *PoolDraft) Source() document.Value { return p.source }

// Keys are keys of a document that belong to the caller of Read and not to the
// configuration of pools.
type Keys struct {
	Tree, Pool []string
}

// Read reads a document of a tree: a map of the options of the tree, which may
// also stand in a map under "config", and "pools". Pools are a map from names to
// options, or a list of options with a "name"; each may have "pools" of its own,
// or a "parent" that names the pool it is in.
//
// Everything that is wrong goes to the reader. The draft has all that could be
// read.
func Read(r *document.Reader, v document.Value, keys Keys) *Draft {
	d := &Draft{source: v}
	beside := append([]string{"config", "pools"}, keys.Tree...)
	options, pools := splitTree(r, v)
	d.source = options
	d.wrong = TreeOptions.Read(r, options, &d.Config, beside...)
	r.Enter("pools")
	reader := poolReader{r: r, draft: d, beside: keys.Pool}
	reader.pools(pools, "")
	r.Leave()
	return d
}

// splitTree returns the options of a tree as one map, and its pools. An option
// that is given both beside and inside "config" is in the map twice, so that the
// table rejects it.
func splitTree(r *document.Reader, v document.Value) (options, pools document.Value) {
	pools, _ = v.Get("pools")
	config, ok := v.Get("config")
	if !ok || config.IsNull() {
		return v, pools
	}
	if config.Kind() != document.MapKind {
		r.Enter("config")
		r.Refuse(config.Position(), document.RuleWrongType, "must be a map of options of the tree")
		r.Leave()
		return v, pools
	}
	return document.Map(concat(v.Entries(), config.Entries())...).At(v.Position()), pools
}

// poolDocument is the content of one pool's map.
type poolDocument struct {
	config *PoolConfig
	name   document.Optional[string]
	parent document.Optional[string]
	pools  document.Value
}

var poolDocumentTable = document.NewTable(concat(
	document.Within(poolOptions, func(d *poolDocument) *PoolConfig { return d.config }),
	[]document.Option[poolDocument]{
		document.Maybe("name", "The name of the pool, where it is not a key.",
			func(d *poolDocument) *opt[string] { return &d.name }, poolName),
		document.Maybe("parent", "The name of the pool that this one is in.",
			func(d *poolDocument) *opt[string] { return &d.parent }, poolName).
			Alias("parent_name"),
		document.Plain("pools", "Subpools.",
			func(d *poolDocument) *document.Value { return &d.pools }, document.Anything),
	})...).
	KeepingUnknown(func(d *poolDocument) *document.Extras { return &d.config.Extras })

type poolReader struct {
	r      *document.Reader
	draft  *Draft
	beside []string
}

// pools reads the pools below parent. The path of a problem is that of the pool
// in the tree: pools/production/etl/weight.
func (p *poolReader) pools(v document.Value, parent string) {
	switch v.Kind() {
	case document.NullKind:
	case document.MapKind:
		for _, e := range v.Entries() {
			p.r.Enter(e.Key)
			p.pool(document.Some(e.Key), e.At, e.Value, parent)
			p.r.Leave()
		}
	case document.ListKind:
		for i, item := range v.Items() {
			name, _ := item.Get("name")
			key, ok := name.Text()
			if !ok {
				key = strconv.Itoa(i)
			}
			p.r.Enter(key)
			p.pool(document.Optional[string]{}, item.Position(), item, parent)
			p.r.Leave()
		}
	default:
		p.r.Refuse(v.Position(), document.RuleWrongType, "must be a map from names to pools, or a list of pools with names")
	}
}

// pool reads one pool; key is its name where it is the key of a map.
func (p *poolReader) pool(key document.Optional[string], at document.Position, v document.Value, parent string) {
	d := poolDocument{config: new(PoolConfig)}
	wrong := poolDocumentTable.Read(p.r, v, &d, p.beside...)
	name := d.name.OrElse(key)
	switch {
	case !name.IsSet():
		if !hasWrong(wrong, "name") {
			p.r.Refuse(at, document.RuleMissing, "a pool in a list needs a name")
		}
		return
	case key.IsSet() && key != name:
		p.r.Refuse(at, document.RuleTwoNames,
			fmt.Sprintf("the pool is called %q by its key and %q by its name", key.Value(), name.Value()))
	}
	if given, ok := d.parent.Get(); ok {
		if given == RootName {
			given = ""
		}
		if parent != "" && given != parent {
			p.r.Refuse(at, RuleTwoParents, fmt.Sprintf("the pool is inside %q but names another parent, %q", parent, d.parent.Value()))
		} else {
			parent = given
		}
	}
	p.draft.Pools = append(p.draft.Pools, PoolDraft{
		Name: name.Value(), Parent: parent, Config: d.config, at: at, source: v, wrong: wrong,
	})
	p.pools(d.pools, name.Value())
}

// position finds where an option of a map is: at its key, or at the map if the
// key is missing. The option may be a path.
func position[T any](source document.Value, table *document.Table[T], option string) (document.Position, bool) {
	first, rest, nested := strings.Cut(option, "/")
	for _, e := range source.Entries() {
		if name, ok := table.Resolve(e.Key); !ok || name != first {
			continue
		}
		if nested {
			for _, inner := range e.Value.Entries() {
				if document.Normal(inner.Key) == rest {
					return inner.At, true
				}
			}
		}
		return e.At, true
	}
	return document.Position{}, false
}

// hasWrong reports whether an option, or the section that contains it, could not
// be read.
func hasWrong(wrong []string, option string) bool {
	for _, w := range wrong {
		if w == option || strings.HasPrefix(option, w+"/") {
			return true
		}
	}
	return false
}

// deepestNesting is how deep Document nests pools. It writes deeper trees as a
// list with parents, so that the document can be read back.
const deepestNesting = 40

// Document writes the tree as a document from which Read makes the same tree:
// only explicitly set options, under their primary names.
func (t *Tree) Document(style document.Style) document.Value {
	v := TreeOptions.Write(&t.config, style)
	if t.Len() == 0 {
		return v
	}
	for i := range t.pools {
		if t.pools[i].depth > deepestNesting {
			return v.With("pools", t.flat(style))
		}
	}
	return v.With("pools", t.nested(t.Root(), style))
}

func (t *Tree) nested(parent *Pool, style document.Style) document.Value {
	entries := make([]document.Entry, len(parent.children))
	for i, n := range parent.children {
		p := &t.pools[n]
		v := PoolOptions.Write(p.config, style)
		if len(p.children) > 0 {
			v = v.With("pools", t.nested(p, style))
		}
		entries[i] = document.Pair(p.name, v)
	}
	return document.Map(entries...)
}

func (t *Tree) flat(style document.Style) document.Value {
	items := make([]document.Value, 0, t.Len())
	for p := range t.Pools() {
		place := []document.Entry{document.Pair("name", document.Text(p.name))}
		if parent, _ := p.Parent(); !parent.IsRoot() {
			place = append(place, document.Pair("parent", document.Text(parent.name)))
		}
		items = append(items, document.Map(append(place, PoolOptions.Write(p.config, style).Entries()...)...))
	}
	return document.List(items...)
}
