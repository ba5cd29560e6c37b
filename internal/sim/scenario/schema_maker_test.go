package scenario

import (
	"fmt"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Schema returns the JSON schema of scenarios, generated from the tables that read
// them. It accepts only the spellings with underscores, which the reader does not
// require, and it cannot check rules between options.
func Schema() document.Value {
	file := sectionSchema(fileTable.Options(), map[string]document.Value{
		"nodes":      listOf(ref("node_group")),
		"pool_trees": mapOf(anyOf(ref("tree"), object(pair("file", typed("string"))))),
		"tree":       ref("tree"),
		"pools":      ref("pools"),
		"state":      mapOf(sectionSchema(stateTable.Options(), nil)),
		"operations": anyOf(listOf(ref("operation")), mapOf(ref("operation"))),
		"traces":     anyOf(listOf(ref("trace")), ref("trace")),
		"events":     listOf(ref("event")),
		"expect":     listOf(ref("expectation")),
	})
	return document.Map(append([]document.Entry{
		pair("$schema", document.Text("https://json-schema.org/draft/2020-12/schema")),
		pair("title", document.Text("Scenario of weir simulate")),
	}, append(file.Entries(), pair("$defs", definitions()))...)...)
}

var pair = document.Pair

func ref(name string) document.Value {
	return document.Map(pair("$ref", document.Text("#/$defs/"+name)))
}

func typed(name string) document.Value { return document.Map(pair("type", document.Text(name))) }

func anyOf(schemas ...document.Value) document.Value {
	return document.Map(pair("anyOf", document.List(schemas...)))
}

func listOf(item document.Value) document.Value { return typed("array").With("items", item) }

func mapOf(item document.Value) document.Value {
	return typed("object").With("additionalProperties", item)
}

func object(properties ...document.Entry) document.Value {
	return typed("object").With("properties", document.Map(properties...)).With("additionalProperties", document.Bool(false))
}

// byKind returns the schema of an object with a property for each resource.
func byKind(of func(resource.Kind) document.Value) document.Value {
	var properties []document.Entry
	for _, k := range resource.Kinds {
		properties = append(properties, pair(k.String(), of(k)))
	}
	return object(properties...)
}

// definitions are the parts that several places refer to.
func definitions() document.Value {
	same := func(v document.Value) func(resource.Kind) document.Value {
		return func(resource.Kind) document.Value { return v }
	}
	amount := anyOf(typed("number"), typed("string"))
	bound := func(scalar document.Value) document.Value {
		return anyOf(scalar, listOf(scalar), object(pair("at_least", scalar), pair("at_most", scalar)))
	}
	pattern := func(text string) document.Value { return typed("string").With("pattern", document.Text(text)) }
	pools := anyOf(mapOf(ref("pool")), listOf(ref("pool")))
	law := sectionSchema(lawTable(secondsUnit).Options(), nil)
	percentiles := object()
	for _, name := range append([]string{"mean"}, Percentiles...) {
		properties, _ := percentiles.Get("properties")
		percentiles = percentiles.With("properties", properties.With(name, ref("duration")))
	}
	return document.Map(
		pair("duration", anyOf(pattern(`^([0-9.]+(ns|us|µs|ms|s|m|h|d))+$`), typed("integer").With("minimum", document.Int(0)))),
		pair("window", pattern(`^[0-9.a-zµ]+ *- *([0-9.a-zµ]+( every [0-9.a-zµ]+)?)?$`)),
		pair("share", anyOf(typed("number"), pattern(`^[0-9.]+ *%$`))),
		pair("resources", byKind(same(amount))),
		pair("resource_numbers", byKind(same(typed("number")))),
		pair("distribution", anyOf(typed("number"), typed("string"), listOf(amount), law)),
		pair("resource_distributions", byKind(same(ref("distribution")))),
		pair("bound", bound(typed("number"))),
		pair("resource_bounds", byKind(same(bound(amount)))),
		pair("percentiles", percentiles),
		pair("pools", pools),
		pair("pool", sectionSchema(pooltree.PoolOptions.Options(), map[string]document.Value{
			"name": typed("string"), "parent": typed("string"), "parent_name": typed("string"), "pools": ref("pools"),
		})),
		pair("tree", sectionSchema(pooltree.TreeOptions.Options(), map[string]document.Value{
			"config": typed("object"), "pools": ref("pools"),
		})),
		pair("node_group", sectionSchema(nodeTable.Options(), nil)),
		pair("operation", sectionSchema(operationTable.Options(), map[string]document.Value{
			"arrival": arrivalSchema(), "start_time": arrivalSchema(),
		})),
		pair("trace", sectionSchema(traceTable.Options(), nil)),
		pair("event", sectionSchema(eventTable.Options(), map[string]document.Value{
			"set": typed("object"), "add_pool": ref("pool"),
		})),
		pair("expectation", sectionSchema(expectTable.Options(), nil)),
	)
}

// arrivalSchema also accepts the short forms.
func arrivalSchema() document.Value {
	return anyOf(ref("duration"), listOf(ref("duration")), sectionSchema(arrivalTable.Options(), nil))
}

// sectionSchema is the schema of a map that a table reads. Some keys have schemas
// of their own, or belong to another table.
func sectionSchema(options []*document.Info, special map[string]document.Value) document.Value {
	var properties []document.Entry
	seen := map[string]bool{}
	add := func(key string, schema document.Value) {
		properties = append(properties, pair(key, schema))
		seen[key] = true
	}
	for _, o := range options {
		schema, ok := special[o.Name]
		if !ok {
			schema = shapeSchema(o.Shape)
		}
		text := o.Doc
		if o.NotSupported != "" {
			text = "Accepted without effect: " + o.NotSupported + "."
		}
		if text != "" {
			schema = schema.With("description", document.Text(text))
		}
		if !o.Default.IsNull() {
			schema = schema.With("default", o.Default)
		}
		add(o.Name, schema)
		for _, alias := range o.Aliases {
			if other, ok := special[alias]; ok {
				schema = other
			}
			add(alias, schema.With("description", document.Text("Another name of "+o.Name+".")))
		}
	}
	for _, key := range []string{"name", "parent", "parent_name", "config", "pools"} {
		if schema, ok := special[key]; ok && !seen[key] {
			add(key, schema)
		}
	}
	return object(properties...)
}

// shapeKinds are the definitions of kinds that JSON does not have.
var shapeKinds = map[string]string{
	"duration": "duration", kindWindow: "window", "share": "share", kindResources: "resources",
	"resource numbers": "resource_numbers", kindLaw: "distribution", kindLaws: "resource_distributions",
	kindBound: "bound", "resource bounds": "resource_bounds", kindMoments: "percentiles",
}

// shapeSchema is the schema of the values of an option.
func shapeSchema(s document.Shape) document.Value {
	if name, ok := shapeKinds[s.Kind]; ok {
		return ref(name)
	}
	switch {
	case len(s.Values) > 0:
		var values []document.Value
		for _, v := range s.Values {
			values = append(values, document.Text(v))
		}
		return document.Map(pair("enum", document.List(values...)))
	case len(s.Options) > 0:
		return sectionSchema(s.Options, nil)
	}
	switch s.Kind {
	case "boolean", "integer", "number", "string":
		schema := typed(s.Kind)
		for _, limit := range []struct {
			name  string
			value document.Value
		}{{"minimum", s.Minimum}, {"maximum", s.Maximum}, {"exclusiveMinimum", s.ExclusiveMinimum}} {
			if !limit.value.IsNull() && s.Kind != "string" {
				schema = schema.With(limit.name, limit.value)
			}
		}
		return schema
	case "list":
		item := shapeSchema(*s.Item)
		if s.Says != "a list" { // one item stands for a list of one
			return anyOf(item, listOf(item))
		}
		return listOf(item)
	case "map":
		if s.Item != nil {
			return mapOf(shapeSchema(*s.Item))
		}
	case "any":
		return document.Map()
	}
	panic(fmt.Sprintf("scenario: no schema for values of kind %q", s.Kind))
}
