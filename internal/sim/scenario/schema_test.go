package scenario

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/test/expected"
)

const schemaFile = "../../../docs/simulator.schema.json"

// The schema is generated from the tables, so it always agrees with them.
func TestTheSchemaIsUpToDate(t *testing.T) {
	data, err := Schema().JSON(" ")
	if err != nil {
		t.Fatal(err)
	}
	expected.File(t, schemaFile, string(data)+"\n")
}

// Every file that is read without problems is valid under the schema, and so is
// every example.
func TestGoodFilesFollowTheSchema(t *testing.T) {
	good, _ := filepath.Glob("testdata/*.good.yaml")
	examples, _ := filepath.Glob("../../../examples/simulate/*.yaml")
	for _, file := range append(good, examples...) {
		if problems := validate(t, file); len(problems) > 0 {
			t.Errorf("%s:\n%s", file, strings.Join(problems, "\n"))
		}
	}
}

// The schema also rejects every value that is wrong on its own.
func TestBadFilesDoNotFollowTheSchema(t *testing.T) {
	for _, name := range []string{
		"unknown-key", "nodes", "scheduler", "operation-options", "distributions", "job-resources", "arrival", "demand", "events", "expect", "traces", "pools",
	} {
		if problems := validate(t, filepath.Join("testdata", name+".bad.yaml")); len(problems) == 0 {
			t.Errorf("%s follows the schema", name)
		}
	}
}

func validate(t *testing.T, file string) []string {
	t.Helper()
	v, err := notation.Parse(file, []byte(expected.Read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	s := schemaChecker{root: Schema()}
	s.check(s.root, v, "")
	return s.problems
}

// schemaChecker implements the part of JSON Schema that Schema uses.
type schemaChecker struct {
	root     document.Value
	problems []string
}

func (s *schemaChecker) refuse(path, format string, args ...any) {
	s.problems = append(s.problems, path+": "+fmt.Sprintf(format, args...))
}

func (s *schemaChecker) check(schema, v document.Value, path string) {
	if target, ok := schema.Get("$ref"); ok {
		text, _ := target.Text()
		definitions, _ := s.root.Get("$defs")
		definition, known := definitions.Get(strings.TrimPrefix(text, "#/$defs/"))
		if !known {
			s.refuse(path, "the schema has no %s", text)
			return
		}
		s.check(definition, v, path)
		return
	}
	if choices, ok := schema.Get("anyOf"); ok && !s.checkAny(choices.Items(), v, path) {
		return
	}
	if words, ok := schema.Get("enum"); ok && !slices.ContainsFunc(words.Items(), v.Equal) {
		s.refuse(path, "%v is none of %v", v, words)
	}
	if kind, ok := schema.Get("type"); ok {
		name, _ := kind.Text()
		if !isType(name, v) {
			s.refuse(path, "%v is no %s", v, name)
			return
		}
	}
	s.checkNumber(schema, v, path)
	if pattern, ok := schema.Get("pattern"); ok {
		expression, _ := pattern.Text()
		if text, _ := v.Text(); !regexp.MustCompile(expression).MatchString(text) {
			s.refuse(path, "%q does not match %s", text, expression)
		}
	}
	if items, ok := schema.Get("items"); ok {
		for i, item := range v.Items() {
			s.check(items, item, fmt.Sprintf("%s/%d", path, i))
		}
	}
	s.checkProperties(schema, v, path)
}

func (s *schemaChecker) checkAny(choices []document.Value, v document.Value, path string) bool {
	var first []string
	for _, choice := range choices {
		try := schemaChecker{root: s.root}
		if try.check(choice, v, path); len(try.problems) == 0 {
			return true
		}
		first = append(first, try.problems...)
	}
	s.refuse(path, "%v fits nothing: %v", v, first)
	return false
}

func isType(name string, v document.Value) bool {
	_, isFloat := v.Float64()
	_, isInt := v.Int64()
	_, isText := v.Text()
	_, isBool := v.Bool()
	switch name {
	case "string":
		return isText
	case "number":
		return isFloat
	case "integer":
		return isInt
	case "boolean":
		return isBool
	case "array":
		return v.Kind() == document.ListKind
	case "object":
		return v.Kind() == document.MapKind || v.IsNull()
	}
	return false
}

func (s *schemaChecker) checkNumber(schema, v document.Value, path string) {
	f, ok := v.Float64()
	if !ok {
		return
	}
	limit := func(name string, fallback float64) float64 {
		if l, ok := schema.Get(name); ok {
			f, _ := l.Float64()
			return f
		}
		return fallback
	}
	if f < limit("minimum", math.Inf(-1)) || f > limit("maximum", math.Inf(1)) || f <= limit("exclusiveMinimum", math.Inf(-1)) {
		s.refuse(path, "%v is out of range", v)
	}
}

func (s *schemaChecker) checkProperties(schema, v document.Value, path string) {
	properties, ok := schema.Get("properties")
	others, hasOthers := schema.Get("additionalProperties")
	if !ok && !hasOthers {
		return
	}
	for _, e := range v.Entries() {
		// The reader of scenarios treats hyphens as underscores.
		known, ok := properties.Get(document.Normal(e.Key))
		switch allowed, isBool := others.Bool(); {
		case ok:
			s.check(known, e.Value, path+"/"+e.Key)
		case isBool && !allowed:
			s.refuse(path+"/"+e.Key, "is not in the schema")
		case hasOthers && !isBool:
			s.check(others, e.Value, path+"/"+e.Key)
		}
	}
}
