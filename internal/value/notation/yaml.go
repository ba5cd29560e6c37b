package notation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/internal/value/document"
)

// ParseYAML reads one YAML document. An empty text is null. Anchors, aliases and
// merge keys (<<) are resolved within bounds; duplicate keys, a second document,
// tags that are not of the core schema, and whole numbers that do not fit into
// 64 bits or have a leading zero are refused. The error is of type Problems.
func ParseYAML(file string, data []byte) (document.Value, error) {
	if err := checkText(file, data); err != nil {
		return document.Value{}, err
	}
	p := &yamlParser{file: file, aliases: map[*yaml.Node]*aliased{}}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, second yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return document.Null(), nil
	} else if err != nil {
		return document.Value{}, p.syntax(err, data)
	}
	if err := decoder.Decode(&second); err == nil {
		return document.Value{}, p.refuse(&second, document.RuleSeveral, "there is a second document; one is expected")
	} else if !errors.Is(err, io.EOF) {
		return document.Value{}, p.syntax(err, data)
	}
	v, _, err := p.value(&root, 1)
	return v, err
}

type yamlParser struct {
	file     string
	aliases  map[*yaml.Node]*aliased
	expanded int // values that aliases have expanded to so far
}

// aliased is the value of an anchor.
type aliased struct {
	value document.Value
	size  extent
	open  bool // still being read: an alias here would contain itself
}

// extent is the size of a value.
type extent struct {
	values int // itself included
	levels int // of lists and maps, itself included
}

func (e *extent) add(inner extent) {
	e.values += inner.values
	e.levels = max(e.levels, inner.levels+1)
}

func nodePosition(n *yaml.Node) document.Position {
	return document.Position{Line: int32(n.Line), Column: int32(n.Column)}
}

func (p *yamlParser) refuse(n *yaml.Node, rule document.Rule, message string) error {
	return document.Problems{{File: p.file, Position: nodePosition(n), Rule: rule, Message: message}}
}

var (
	yamlErrorLine    = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	yamlUnknownAlias = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntax converts an error of the YAML library, which is text with a line number, into ours. The
// library omits the number of the first line, and counts from zero in errors of its parser, though
// not of its scanner.
func (p *yamlParser) syntax(err error, data []byte) error {
	message := err.Error()
	start := document.Position{Line: 1, Column: 1}
	problem := document.Problem{File: p.file, Position: start, Rule: document.RuleSyntax, Message: message}
	if m := yamlErrorLine.FindStringSubmatch(message); m != nil {
		problem.Message = message[len(m[0]):]
		if line, err := strconv.ParseInt(m[1], 10, 32); err == nil {
			problem.Line = int32(line)
			if strings.HasPrefix(problem.Message, "did not find expected") {
				problem.Line++
			}
		}
	}
	if m := yamlUnknownAlias.FindStringSubmatch(problem.Message); m != nil {
		problem.Message = fmt.Sprintf("alias *%s has no anchor", document.Shorten(m[1]))
		if before, _, found := bytes.Cut(data, []byte("*"+m[1])); found {
			problem.Position = after(start, before)
		}
	}
	if strings.Contains(problem.Message, "exceeded max depth") {
		problem.Rule, problem.Message = document.RuleTooDeep, tooDeep
	}
	return document.Problems{problem}
}

// value converts a node at this level of nesting, counted from one.
func (p *yamlParser) value(n *yaml.Node, depth int) (document.Value, extent, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 0 {
			return document.Null(), extent{values: 1}, nil
		}
		return p.value(n.Content[0], depth)
	case yaml.ScalarNode:
		v, err := p.scalar(n)
		return v, extent{values: 1}, err
	case yaml.AliasNode:
		return p.alias(n, depth)
	case yaml.SequenceNode, yaml.MappingNode:
		return p.collection(n, depth)
	}
	return document.Null(), extent{values: 1}, nil
}

func (p *yamlParser) collection(n *yaml.Node, depth int) (v document.Value, size extent, err error) {
	if depth > document.MaxDepth {
		return v, size, p.refuse(n, document.RuleTooDeep, tooDeep)
	}
	anchored := n.Anchor != ""
	if anchored {
		p.aliases[n] = &aliased{open: true}
	}
	if n.Kind == yaml.SequenceNode {
		v, size, err = p.list(n, depth)
	} else {
		v, size, err = p.mapping(n, depth)
	}
	if anchored {
		p.aliases[n] = &aliased{value: v, size: size}
	}
	return v, size, err
}

func (p *yamlParser) alias(n *yaml.Node, depth int) (document.Value, extent, error) {
	a := p.aliases[n.Alias]
	if a == nil { // a scalar, or an anchor in a place that we did not read
		v, size, err := p.value(n.Alias, depth)
		return v, size, err
	}
	if a.open {
		return document.Value{}, extent{}, p.refuse(n, document.RuleTooDeep, fmt.Sprintf("alias *%s contains itself", document.Shorten(n.Value)))
	}
	if depth+a.size.levels-1 > document.MaxDepth {
		return document.Value{}, extent{}, p.refuse(n, document.RuleTooDeep, tooDeep)
	}
	p.expanded += a.size.values
	if p.expanded > maxAliased {
		return document.Value{}, extent{}, p.refuse(n, document.RuleTooLarge,
			fmt.Sprintf("the aliases of this document stand for more than %d values", maxAliased))
	}
	return a.value, a.size, nil
}

func (p *yamlParser) list(n *yaml.Node, depth int) (document.Value, extent, error) {
	if tag := n.ShortTag(); tag != "!!seq" {
		return document.Value{}, extent{}, p.refuse(n, document.RuleSyntax, fmt.Sprintf("tag %s is not supported", document.Shorten(tag)))
	}
	items := make([]document.Value, 0, len(n.Content))
	size := extent{values: 1, levels: 1}
	for _, c := range n.Content {
		item, inner, err := p.value(c, depth+1)
		if err != nil {
			return document.Value{}, extent{}, err
		}
		items = append(items, item)
		size.add(inner)
	}
	return document.List(items...).At(nodePosition(n)), size, nil
}

func (p *yamlParser) mapping(n *yaml.Node, depth int) (document.Value, extent, error) {
	if tag := n.ShortTag(); tag != "!!map" {
		return document.Value{}, extent{}, p.refuse(n, document.RuleSyntax, fmt.Sprintf("tag %s is not supported", document.Shorten(tag)))
	}
	entries := make([]document.Entry, 0, len(n.Content)/2)
	size := extent{values: 1, levels: 1}
	var keys keySet
	var merged []document.Value
	for i := 0; i+1 < len(n.Content); i += 2 {
		keyNode, valueNode := n.Content[i], n.Content[i+1]
		item, inner, err := p.value(valueNode, depth+1)
		if err != nil {
			return document.Value{}, extent{}, err
		}
		size.add(inner)
		if keyNode.Kind == yaml.ScalarNode && keyNode.ShortTag() == "!!merge" {
			maps, err := p.mergeSources(valueNode, item)
			if err != nil {
				return document.Value{}, extent{}, err
			}
			merged = append(merged, maps...)
			continue
		}
		key, err := p.key(keyNode)
		if err != nil {
			return document.Value{}, extent{}, err
		}
		if first, duplicate := keys.add(entries, key); duplicate {
			return document.Value{}, extent{}, p.refuse(keyNode, document.RuleDuplicateKey, duplicateMessage(key, first.At))
		}
		entries = append(entries, document.Entry{Key: key, At: nodePosition(keyNode), Value: item})
	}
	for _, m := range merged {
		for _, e := range m.Entries() {
			if _, there := keys.add(entries, e.Key); !there {
				entries = append(entries, e)
			}
		}
	}
	return document.Map(entries...).At(nodePosition(n)), size, nil
}

// mergeSources returns the maps that a merge key brings in. Keys of the map
// itself win over them, and earlier maps over later ones.
func (p *yamlParser) mergeSources(n *yaml.Node, v document.Value) ([]document.Value, error) {
	sources := []document.Value{v}
	if v.Kind() == document.ListKind {
		sources = v.Items()
	}
	for _, s := range sources {
		if s.Kind() != document.MapKind {
			return nil, p.refuse(n, document.RuleWrongType, "a merge key (<<) needs a map or a list of maps")
		}
	}
	return sources, nil
}

// key accepts any scalar: a pool may be called 123 or null.
func (p *yamlParser) key(n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode && n.Alias.Kind == yaml.ScalarNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return "", p.refuse(n, document.RuleSyntax, "a key must be a word, not a list or a map")
	}
	return n.Value, nil
}

var (
	wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)
	leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
)

func (p *yamlParser) scalar(n *yaml.Node) (document.Value, error) {
	at := nodePosition(n)
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return document.Null().At(at), nil
	case "!!str", "!!timestamp", "!!merge":
		return document.Text(n.Value).At(at), nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return document.Value{}, p.refuse(n, document.RuleSyntax, fmt.Sprintf("%q is not a boolean", document.Shorten(n.Value)))
		}
		return document.Bool(b).At(at), nil
	case "!!int", "!!float":
		v, err := yamlNumber(n)
		if err != nil {
			return document.Value{}, p.refuse(n, document.RuleOutOfRange, err.Error())
		}
		return v.At(at), nil
	default:
		return document.Value{}, p.refuse(n, document.RuleSyntax, fmt.Sprintf("tag %s is not supported", document.Shorten(tag)))
	}
}

func yamlNumber(n *yaml.Node) (document.Value, error) {
	text := n.Value
	if leadingZero.MatchString(text) {
		return document.Value{}, fmt.Errorf("%s has a leading zero, which some read as octal; write 0o%s or leave the zero out",
			document.Shorten(text), document.Shorten(strings.TrimLeft(text, "+-0")))
	}
	switch {
	case wholeNumber.MatchString(text):
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return document.Int(i), nil
		}
		if u, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64); err == nil {
			return document.Uint(u), nil
		}
	case n.ShortTag() == "!!int": // hexadecimal, octal, binary, or with underscores
		var i int64
		if n.Decode(&i) == nil {
			return document.Int(i), nil
		}
		var u uint64
		if n.Decode(&u) == nil {
			return document.Uint(u), nil
		}
	default:
		var f float64
		if err := n.Decode(&f); err != nil {
			return document.Value{}, fmt.Errorf("%q is not a number", document.Shorten(text))
		}
		return document.Float(f), nil
	}
	return document.Value{}, fmt.Errorf("%s does not fit into 64 bits", document.Shorten(text))
}

// YAML returns v as YAML text in block style with an indent of two.
func YAML(v document.Value) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(yamlNode(v)); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func yamlNode(v document.Value) *yaml.Node {
	switch v.Kind() {
	case document.NullKind:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case document.StringKind:
		text, _ := v.Text()
		return yamlString(text)
	case document.ListKind:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v.Items() {
			n.Content = append(n.Content, yamlNode(item))
		}
		return n
	case document.MapKind:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, e := range v.Entries() {
			n.Content = append(n.Content, yamlString(e.Key), yamlNode(e.Value))
		}
		return n
	}
	return yamlWord(v)
}

// yamlWord writes booleans and numbers as JSON does, and the floats that JSON does not have.
func yamlWord(v document.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int"}
	switch v.Kind() {
	case document.BoolKind:
		n.Tag = "!!bool"
	case document.FloatKind:
		n.Tag = "!!float"
	}
	if text, err := v.JSON(""); err == nil {
		n.Value = string(text)
		return n
	}
	switch f, _ := v.Float64(); {
	case math.IsInf(f, 1):
		n.Value = ".inf"
	case math.IsInf(f, -1):
		n.Value = "-.inf"
	default:
		n.Value = ".nan"
	}
	return n
}

// yamlString quotes text that the library would write in a form that does not read back: it keeps
// line breaks and odd characters only between double quotes.
func yamlString(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if text == "<<" { // not a merge key
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range text {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff {
			n.Style = yaml.DoubleQuotedStyle
			break
		}
	}
	return n
}
