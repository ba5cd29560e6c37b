package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// Effective is the printable value of one setting.
type Effective struct {
	Setting
	// Value is null when the setting is unset. Secrets are hidden.
	Value  document.Value
	Origin Origin
}

// Effective lists every setting that has an effect, with its value and its origin, in the order of
// the tables. Without sections it lists all.
func (l *Loaded) Effective(only ...string) []Effective {
	written := sections().table.Write(&l.Config, document.ForPeople)
	var list []Effective
	for _, s := range sections().settings {
		if s.Info.NotSupported != "" || len(only) > 0 && !slices.Contains(only, s.Section()) {
			continue
		}
		v := written
		for part := range strings.SplitSeq(s.Path, "/") {
			v, _ = v.Get(part)
		}
		list = append(list, Effective{Setting: s, Value: redact(s, v), Origin: l.Origin(s.Path)})
	}
	return list
}

// MarshalJSON writes a setting for programs.
func (e Effective) MarshalJSON() ([]byte, error) {
	type printed struct {
		Path     string         `json:"path"`
		Value    document.Value `json:"value"`
		From     string         `json:"from"`
		Name     string         `json:"name,omitempty"`
		Line     int32          `json:"line,omitempty"`
		Variable string         `json:"variable"`
		Flag     string         `json:"flag,omitempty"`
		Runtime  bool           `json:"runtime"`
		Changes  string         `json:"changes"`
	}
	o := printed{Path: e.Path, Value: e.Value, From: e.Origin.From.String(), Name: e.Origin.Name, Line: e.Origin.At.Line,
		Variable: e.Variable(), Runtime: e.Runtime(), Changes: e.Changes()}
	if flag := e.Flag(); flag != "" {
		o.Flag = "--" + flag
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// YAML writes settings as a file that can be read back, each with a comment on its origin. Unset
// settings and secrets are written as comments only.
func YAML(settings []Effective) []byte {
	var b bytes.Buffer
	var open []string
	for _, e := range settings {
		parts := strings.Split(e.Path, "/")
		name, parents := parts[len(parts)-1], parts[:len(parts)-1]
		for i, parent := range parents {
			if i < len(open) && open[i] == parent {
				continue
			}
			open = append(slices.Clone(open[:min(i, len(open))]), parent)
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), parent)
		}
		open = open[:len(parents)]
		indent := strings.Repeat("  ", len(parents))
		text := yamlLine(e.Value)
		switch {
		case e.Value.IsNull():
			fmt.Fprintf(&b, "%s# %s is unset\n", indent, name)
		case e.Secret() && strings.Contains(text, "hidden"):
			fmt.Fprintf(&b, "%s# %s: %s  # %v\n", indent, name, text, e.Origin)
		default:
			fmt.Fprintf(&b, "%s%s: %s  # %v\n", indent, name, text, e.Origin)
		}
	}
	return b.Bytes()
}

// yamlLine writes a value on one line.
func yamlLine(v document.Value) string {
	switch v.Kind() {
	case document.ListKind, document.MapKind:
		text, err := v.JSON("") // JSON is YAML, and fits in one line
		if err != nil {
			return v.String()
		}
		return string(text)
	}
	text, err := notation.YAML(v)
	line := strings.TrimRight(string(text), "\n")
	if err != nil || strings.Contains(line, "\n") {
		quoted, _ := v.JSON("")
		return string(quoted)
	}
	return line
}
