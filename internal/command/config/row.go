package config

import (
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// opt is a setting that can be distinguished from unset.
type opt[F any] = document.Optional[F]

// marks are the properties of a setting beyond its value.
type marks struct {
	runtime bool   // it may change while the process runs
	secret  bool   // it is never printed
	common  bool   // its flag is shown by --help
	noFlag  bool   // it has no flag
	flag    string // the name of its flag, if it is not made from the path
}

// row is one setting of a section: an option and its marks, or a nested section.
type row[T any] struct {
	option document.Option[T]
	marks  marks
	nested []Setting // of a section, with paths relative to it
}

// fixed is a setting that is read only when the process starts.
func fixed[T, F any](name, doc string, at func(*T) *opt[F], t document.Type[F]) row[T] {
	return row[T]{option: document.Maybe(name, doc, at, t)}
}

// live is a setting that may change while the process runs.
func live[T, F any](name, doc string, at func(*T) *opt[F], t document.Type[F]) row[T] {
	r := fixed(name, doc, at, t)
	r.marks.runtime = true
	return r
}

func (r row[T]) alias(names ...string) row[T] {
	r.option = r.option.Alias(names...)
	return r
}

// common makes --help show the flag.
func (r row[T]) common() row[T] {
	r.marks.common = true
	return r
}

// secret keeps the value from being printed. A setting that is a secret as a whole has no flag,
// because everybody on a machine can read command lines.
func (r row[T]) secret() row[T] {
	r.marks.secret = true
	return r
}

// flag names the flag.
func (r row[T]) flag(name string) row[T] {
	r.marks.flag = name
	return r
}

func (r row[T]) noFlag() row[T] {
	r.marks.noFlag = true
	return r
}

// part is a nested section.
func part[T, F any](name, doc string, at func(*T) *F, g *group[F]) row[T] {
	return row[T]{option: document.Section(name, doc, at, g.table), nested: g.settings}
}

// within turns rows of an inner struct into rows of the outer struct that contains it, so that both
// are one section of the document.
func within[O, I any](rows []row[I], at func(*O) *I) []row[O] {
	outer := make([]row[O], len(rows))
	for i, r := range rows {
		outer[i] = row[O]{
			option: document.Within([]document.Option[I]{r.option}, at)[0],
			marks:  r.marks, nested: r.nested,
		}
	}
	return outer
}

// kept are options of YTsaurus that are accepted but have no effect here, with the reason. Aliases
// follow a name after spaces.
func kept[T any](at func(*T) *document.Extras, because string, names ...string) []row[T] {
	rows := make([]row[T], len(names))
	for i, name := range names {
		words := strings.Fields(name)
		rows[i] = row[T]{option: document.Kept(words[0], "has no effect, because "+because, at)}.alias(words[1:]...)
	}
	return rows
}

// group is a section: its table, and its settings in the order of the rows.
type group[T any] struct {
	table    *document.Table[T]
	settings []Setting
}

func newGroup[T any](lists ...[]row[T]) *group[T] {
	rows := slices.Concat(lists...)
	options := make([]document.Option[T], len(rows))
	count := 0
	for i, r := range rows {
		options[i] = r.option
		count += max(1, len(r.nested))
	}
	g := &group[T]{table: document.NewTable(options...), settings: make([]Setting, 0, count)}
	for i, info := range g.table.Options() {
		for _, inner := range rows[i].nested {
			inner.Path = info.Name + "/" + inner.Path
			g.settings = append(g.settings, inner)
		}
		if rows[i].nested == nil {
			g.settings = append(g.settings, Setting{Path: info.Name, Info: info, marks: rows[i].marks})
		}
	}
	return g
}

// keepingUnknown gives the section a place for unknown keys of patches.
func (g *group[T]) keepingUnknown(at func(*T) *document.Extras) *group[T] {
	g.table = g.table.KeepingUnknown(at)
	return g
}

// Setting is one thing that can be set: its name and its meaning.
type Setting struct {
	// Path leads to the setting from the top of the file: "scheduler/log/level".
	Path string
	// Info describes its values and its default; it is shared and never modified.
	Info  *document.Info
	marks marks
}

// Section is the first part of the path.
func (s Setting) Section() string {
	section, _, _ := strings.Cut(s.Path, "/")
	return section
}

// Runtime reports whether the setting may change while its process runs.
func (s Setting) Runtime() bool { return s.marks.runtime }

// Changes describes when a change of the setting takes effect.
func (s Setting) Changes() string {
	if s.marks.runtime {
		return "at run time"
	}
	return "at start"
}

// Secret reports whether the value is, or may contain, something that must not be printed.
func (s Setting) Secret() bool { return s.marks.secret }

// Variable is the environment variable that sets it: WEIR_SCHEDULER_LOG_LEVEL.
func (s Setting) Variable() string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(s.Path, "/", "_"))
}

// Flag is the flag of its section's command that sets it, without dashes:
// log-level; empty if there is none.
func (s Setting) Flag() string {
	_, inner, _ := strings.Cut(s.Path, "/")
	if s.marks.noFlag || s.Info.NotSupported != "" {
		return ""
	}
	if s.marks.flag != "" {
		return s.marks.flag
	}
	return strings.NewReplacer("/", "-", "_", "-").Replace(inner)
}

// Settings lists everything that can be set, in the order of the tables. It includes options that
// are accepted but have no effect.
func Settings() []Setting { return sections().settings }

// find returns the setting with this path.
func find(path string) (Setting, bool) {
	for _, s := range sections().settings {
		if s.Path == path {
			return s, true
		}
	}
	return Setting{}, false
}
