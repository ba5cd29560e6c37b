package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// Sources are all sources of a configuration. Later ones win: defaults, file, variables, flags.
type Sources struct {
	// File is the name of the file, for messages, and Data its contents: YAML or JSON. Nil means
	// that there is no file.
	File string
	Data []byte
	// Environ are variables as os.Environ returns them. Empty ones are ignored, and those that do
	// not start with WEIR_ and the name of a section.
	Environ []string
	// Flags were bound to command lines that have been parsed.
	Flags []*Flags
}

// From is the kind of source that set a value.
type From uint8

const (
	FromDefault From = iota
	FromFile
	FromVariable
	FromFlag
	FromPatch
)

func (f From) String() string { return [...]string{"default", "file", "env", "flag", "runtime"}[f] }

// Origin is where a value came from.
type Origin struct {
	From From
	// Name is the file, the variable or the flag with its dashes.
	Name string
	// At is the position in the file.
	At document.Position
}

// String returns "default", "weir.yaml:12", "WEIR_NODE_NAME", "--name" or
// "runtime".
func (o Origin) String() string {
	switch o.From {
	case FromFile:
		if !o.At.IsZero() {
			return fmt.Sprintf("%s:%d", cmp.Or(o.Name, "file"), o.At.Line)
		}
		return cmp.Or(o.Name, "file")
	case FromVariable, FromFlag:
		return o.Name
	}
	return o.From.String()
}

// Loaded is an effective configuration with the origins of its values.
type Loaded struct {
	Config  Config
	origins map[string]Origin // of settings that a source has set
}

// Origin returns where the value of a setting came from.
func (l *Loaded) Origin(path string) Origin { return l.origins[path] }

// layer is the settings of one source.
type layer struct {
	config  Config
	origins map[string]Origin
}

// Load builds the effective configuration. The error is of type document.Problems and lists all
// problems of all sources; no message repeats a secret.
func Load(sources Sources) (*Loaded, document.Problems, error) {
	var problems, warnings document.Problems
	var layers []layer
	add := func(l layer, warned, wrong document.Problems) {
		layers = append(layers, l)
		warnings = append(warnings, warned...)
		problems = append(problems, wrong...)
	}
	add(readFile(sources.File, sources.Data))
	l, wrong := readVariables(sources.Environ)
	add(l, nil, wrong)
	for _, flags := range sources.Flags {
		add(flags.layer, nil, flags.problems)
	}

	loaded := &Loaded{origins: map[string]Origin{}}
	for _, l := range slices.Backward(layers) {
		sections().table.Fill(&loaded.Config, &l.config)
	}
	for _, l := range layers {
		maps.Copy(loaded.origins, l.origins)
	}
	sections().table.FillDefaults(&loaded.Config)
	// Rules between settings would only repeat the problems of single ones.
	if len(problems) == 0 {
		wrong, warned := loaded.check()
		problems, warnings = wrong, append(warnings, warned...)
	}
	if len(problems) > 0 {
		return nil, warnings, problems
	}
	return loaded, warnings, nil
}

func readFile(name string, data []byte) (l layer, warnings, problems document.Problems) {
	if len(strings.TrimSpace(string(data))) == 0 {
		return layer{}, nil, nil
	}
	v, err := notation.Parse(name, data)
	if err != nil {
		problems, ok := err.(document.Problems)
		if !ok {
			problems = document.Problems{{File: name, Rule: document.RuleSyntax, Message: err.Error()}}
		}
		return layer{}, nil, problems
	}
	r := document.NewReader(name)
	sections().table.Read(r, v, &l.config)
	l.origins = map[string]Origin{}
	locate(v, sections().table.Options(), "", func(path string, at document.Position) {
		l.origins[path] = Origin{From: FromFile, Name: name, At: at}
	})
	return l, r.Warnings(), r.Problems()
}

// locate calls found for every setting in a document, with its primary name.
func locate(v document.Value, options []*document.Info, prefix string, found func(path string, at document.Position)) {
	for _, e := range v.Entries() {
		i := slices.IndexFunc(options, func(o *document.Info) bool {
			key := document.Normal(e.Key)
			return document.Normal(o.Name) == key ||
				slices.ContainsFunc(o.Aliases, func(alias string) bool { return document.Normal(alias) == key })
		})
		if i < 0 {
			continue
		}
		path := prefix + options[i].Name
		if _, ok := find(path); ok { // also where its value is a map with keys of its own
			found(path, e.At)
		} else {
			locate(e.Value, options[i].Shape.Options, path+"/", found)
		}
	}
}

// readVariables reads WEIR_SECTION_SETTING variables.
func readVariables(environ []string) (l layer, problems document.Problems) {
	l.origins = map[string]Origin{}
	byName := map[string]Setting{}
	var known []string
	for _, s := range sections().settings {
		if s.Info.NotSupported == "" {
			byName[s.Variable()] = s
			known = append(known, s.Variable())
		}
	}
	environ = slices.Clone(environ)
	slices.Sort(environ) // so that problems have an order
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if text == "" || !isOurs(name) || isServiceLink(name, text) {
			continue
		}
		s, ok := byName[name]
		if !ok {
			problems = append(problems, document.Problem{File: name, Rule: document.RuleUnknownKey,
				Message: "there is no such setting" + didYouMean(name, known)})
			continue
		}
		problems = append(problems, l.set(s, text, Origin{From: FromVariable, Name: name})...)
	}
	return l, problems
}

// isOurs reports whether a variable is for a section. Other WEIR_ variables, such as WEIR_ADDR and
// WEIR_TOKEN, belong to the client.
func isOurs(name string) bool {
	return slices.ContainsFunc(Sections(), func(section string) bool {
		return strings.HasPrefix(name, "WEIR_"+strings.ToUpper(section)+"_")
	})
}

// isServiceLink recognises the variables that Kubernetes sets in every container for a service
// called weir-scheduler, weir-node or weir-up.
func isServiceLink(name, text string) bool {
	for _, section := range Sections() {
		rest, ok := strings.CutPrefix(name, "WEIR_"+strings.ToUpper(section)+"_")
		switch {
		case !ok:
		case rest == "SERVICE_HOST", rest == "SERVICE_PORT", strings.HasPrefix(rest, "SERVICE_PORT_"):
			return true
		case rest == "PORT", strings.HasPrefix(rest, "PORT_") && strings.Count(rest, "_") == 2:
			return strings.HasPrefix(text, "tcp://") || strings.HasPrefix(text, "udp://") || strings.HasPrefix(text, "sctp://")
		case strings.HasPrefix(rest, "PORT_"):
			return strings.HasSuffix(rest, "_PROTO") || strings.HasSuffix(rest, "_PORT") || strings.HasSuffix(rest, "_ADDR")
		}
	}
	return false
}

// set reads one setting from the text of a variable or flag, over the layer's values.
func (l *layer) set(s Setting, text string, origin Origin) document.Problems {
	v := placeless(fromText(s.Info.Shape, text))
	parts := strings.Split(s.Path, "/")
	for _, part := range slices.Backward(parts) {
		v = document.Map(document.Pair(part, v))
	}
	r := document.NewReader(origin.Name)
	var one Config
	sections().table.Read(r, v, &one)
	if problems := r.Problems(); len(problems) > 0 {
		return problems
	}
	sections().table.Fill(&one, &l.config)
	l.config = one
	if l.origins == nil {
		l.origins = map[string]Origin{}
	}
	l.origins[s.Path] = origin
	return nil
}

// placeless removes positions, which mean nothing outside a file.
func placeless(v document.Value) document.Value {
	switch v.Kind() {
	case document.ListKind:
		items := slices.Clone(v.Items())
		for i := range items {
			items[i] = placeless(items[i])
		}
		return document.List(items...)
	case document.MapKind:
		entries := slices.Clone(v.Entries())
		for i, e := range entries {
			entries[i] = document.Pair(e.Key, placeless(e.Value))
		}
		return document.Map(entries...)
	}
	return v.At(document.Position{})
}

// fromText turns text into the value that the shape most likely means. Text that does not fit stays
// text, so that the type's reader refuses it with its own message.
func fromText(shape document.Shape, text string) document.Value {
	switch shape.Kind {
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "1", "yes", "on":
			return document.Bool(true)
		case "false", "0", "no", "off":
			return document.Bool(false)
		}
	case "integer", "number", "duration", "memory":
		if v, err := notation.ParseJSON("", []byte(text)); err == nil {
			if _, number := v.Float64(); number {
				return v
			}
		}
	case "list":
		return listFromText(shape, text)
	case "resources", "map":
		return mapFromText(text)
	}
	return document.Text(text)
}

// listFromText reads a,b,c, or a list in YAML or JSON.
func listFromText(shape document.Shape, text string) document.Value {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if v, err := notation.ParseYAML("", []byte(text)); err == nil {
			return v
		}
	}
	var items []document.Value
	for part := range strings.SplitSeq(text, ",") {
		items = append(items, fromText(*shape.Item, strings.TrimSpace(part)))
	}
	return document.List(items...)
}

// mapFromText reads cpu=8,memory=16GiB, or a map in YAML or JSON.
func mapFromText(text string) document.Value {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		if v, err := notation.ParseYAML("", []byte(text)); err == nil {
			return v
		}
	}
	var entries []document.Entry
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return document.Text(text)
		}
		entries = append(entries, document.Pair(strings.TrimSpace(key), document.Text(strings.TrimSpace(value))))
	}
	return document.Map(entries...)
}
