package manifest

import (
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Definitions returns the CustomResourceDefinitions of both kinds. The schema of options comes from the tables of pooltree.
func Definitions() []document.Value { return []document.Value{poolDefinition(), treeDefinition()} }

// object is a map that keeps its order.
type object = []document.Entry

func text(s string) document.Value { return document.Text(s) }

func mapOf(entries ...document.Entry) document.Value { return document.Map(entries...) }

func field(name string, v document.Value) document.Entry { return document.Pair(name, v) }

// typed is the schema of a simple type.
func typed(kind, about string, more ...document.Entry) document.Value {
	return mapOf(append(object{field("type", text(kind)), field("description", text(about))}, more...)...)
}

// anything is the schema of a value that Weir itself validates.
func anything(about string) document.Value {
	return mapOf(field("description", text(about)), field("x-kubernetes-preserve-unknown-fields", document.Bool(true)))
}

func listOf(item document.Value, about string) document.Value {
	return typed("array", about, field("items", item))
}

func objectOf(about string, fields ...document.Entry) document.Value {
	return typed("object", about, field("properties", mapOf(fields...)))
}

// optionsSchema is the schema of a map of options, by all of their names.
func optionsSchema(about string, options []*document.Info) document.Value {
	var fields object
	for _, o := range options {
		if o.NotSupported != "" {
			continue
		}
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			fields = append(fields, field(name, shapeSchema(&o.Shape, o.Doc)))
		}
	}
	return objectOf(about, fields...)
}

// shapeSchema is the schema of one option.
func shapeSchema(s *document.Shape, about string) document.Value {
	switch s.Kind {
	case "boolean":
		return typed("boolean", about)
	case "integer", "number":
		return typed(s.Kind, about, bounds(s)...)
	case "string":
		if len(s.Values) > 0 {
			return typed("string", about, field("enum", textsOf(s.Values)))
		}
		return typed("string", about)
	case "duration", "memory":
		return mapOf(field("description", text(about)), field("x-kubernetes-int-or-string", document.Bool(true)))
	case "resources":
		var fields object
		for k := range resource.KindCount {
			fields = append(fields, field(resource.Kind(k).String(), anything("an amount")))
		}
		return objectOf(about, fields...)
	case "list":
		if s.Item == nil {
			return listOf(anything(""), about)
		}
		return listOf(shapeSchema(s.Item, s.Item.Says), about)
	case "map":
		switch {
		case len(s.Options) > 0:
			return optionsSchema(about, s.Options)
		case s.Item != nil:
			return typed("object", about, field("additionalProperties", shapeSchema(s.Item, s.Item.Says)))
		}
	}
	return anything(about)
}

func bounds(s *document.Shape) (list object) {
	if !s.Minimum.IsNull() {
		list = append(list, field("minimum", s.Minimum))
	} else if !s.ExclusiveMinimum.IsNull() {
		list = append(list, field("minimum", s.ExclusiveMinimum), field("exclusiveMinimum", document.Bool(true)))
	}
	if !s.Maximum.IsNull() {
		list = append(list, field("maximum", s.Maximum))
	}
	return list
}

func textsOf(list []string) document.Value {
	values := make([]document.Value, len(list))
	for i, s := range list {
		values[i] = text(s)
	}
	return document.List(values...)
}

// conditionsSchema is the schema of status.conditions, as everywhere in Kubernetes.
func conditionsSchema() document.Value {
	item := objectOf("what holds of the object",
		field("type", typed("string", "Accepted or Feasible")), field("status", typed("string", "True, False or Unknown")),
		field("reason", typed("string", "one word for programs")), field("message", typed("string", "a sentence for people")),
		field("observedGeneration", typed("integer", "the generation that it is about", field("format", text("int64")))),
		field("lastTransitionTime", typed("string", "when the status changed last", field("format", text("date-time")))))
	return typed("array", "what holds of the object", field("items", item.With("required", textsOf([]string{"type", "status", "reason", "message", "lastTransitionTime"}))),
		field("x-kubernetes-list-type", text("map")), field("x-kubernetes-list-map-keys", textsOf([]string{"type"})))
}

// amountsSchema is the schema of amounts as people read them.
func amountsSchema(about string) document.Value {
	return typed("object", about, field("additionalProperties", typed("string", "an amount")))
}

// column is a column of kubectl get; a wide one is shown with -o wide only.
func column(name, kind, path string, wide bool) document.Value {
	c := mapOf(field("name", text(name)), field("type", text(kind)), field("jsonPath", text(path)))
	if wide {
		c = c.With("priority", document.Int(1))
	}
	return c
}

const acceptedPath = `.status.conditions[?(@.type=="Accepted")].status`

func definition(plural, singular, kind, short, about string, spec, status document.Value, columns ...document.Value) document.Value {
	schema := objectOf(about,
		field("apiVersion", typed("string", "version of the schema")), field("kind", typed("string", kind)), field("metadata", mapOf(field("type", text("object")))),
		field("spec", spec), field("status", status))
	version := mapOf(
		field("name", text(Version)), field("served", document.Bool(true)), field("storage", document.Bool(true)),
		field("schema", mapOf(field("openAPIV3Schema", schema))),
		field("subresources", mapOf(field("status", mapOf()))),
		field("additionalPrinterColumns", document.List(columns...)))
	return mapOf(
		field("apiVersion", text("apiextensions.k8s.io/v1")), field("kind", text("CustomResourceDefinition")),
		field("metadata", mapOf(field("name", text(plural+"."+Group)))),
		field("spec", mapOf(
			field("group", text(Group)), field("scope", text("Cluster")),
			field("names", mapOf(field("plural", text(plural)), field("singular", text(singular)), field("kind", text(kind)), field("listKind", text(kind+"List")),
				field("shortNames", textsOf([]string{short})), field("categories", textsOf([]string{"weir"})))),
			field("versions", document.List(version)))))
}

func poolDefinition() document.Value {
	spec := objectOf("the pool",
		field("tree", typed("string", "The pool tree.", field("default", text(DefaultTree)), field("minLength", document.Int(1)))),
		field("parent", typed("string", "The pool that it is in. Empty: below the root.")),
		field("name", typed("string", "The name of the pool, if it is not that of the object. Names of pools may have characters that those of objects may not.")),
		field("namespaces", listOf(typed("string", "a name, in which * stands for any characters", field("pattern", text("^[a-z0-9*-]{1,63}$"))),
			"The namespaces whose pods may run in the pool and below it. Unset: those of the parent; if no pool above has any, permissions decide.")),
		field("options", optionsSchema("Options of the pool: docs/pools.md.", pooltree.PoolOptions.Options())))
	status := objectOf("the pool as of the last seconds",
		field("usage", amountsSchema("what its jobs use")), field("demand", amountsSchema("what its operations could use")),
		field("fairShare", amountsSchema("what it is entitled to now")), field("guaranteed", amountsSchema("its strong guarantee")),
		field("dominantResource", typed("string", "the resource that it uses the largest part of")),
		field("shares", objectOf("the same as parts of the tree's dominant resource",
			field("usage", typed("string", "")), field("demand", typed("string", "")), field("fairShare", typed("string", "")), field("guaranteed", typed("string", "")))),
		field("volume", typed("string", "what an integral pool has saved, in time of the whole tree")),
		field("operations", typed("integer", "operations that run or wait")), field("runningOperations", typed("integer", "operations that run")),
		field("runningJobs", typed("integer", "jobs that run")), field("pendingJobs", typed("integer", "jobs that wait")),
		field("starving", typed("boolean", "whether it is below its share for too long")),
		field("conditions", conditionsSchema()))
	return definition(Pools, "weirpool", "WeirPool", "wp", "A pool of Weir: a share of the cluster for a group of operations.", spec, status,
		column("Tree", "string", ".spec.tree", false), column("Parent", "string", ".spec.parent", false), column("Weight", "number", ".spec.options.weight", false),
		column("Usage", "string", ".status.shares.usage", false), column("Fair share", "string", ".status.shares.fairShare", false),
		column("Demand", "string", ".status.shares.demand", false), column("Running", "integer", ".status.runningOperations", false),
		column("Starving", "boolean", ".status.starving", false), column("Accepted", "string", acceptedPath, false), column("Age", "date", ".metadata.creationTimestamp", false),
		column("Guaranteed", "string", ".status.shares.guaranteed", true), column("Volume", "string", ".status.volume", true))
}

func treeDefinition() document.Value {
	requirement := objectOf("one condition",
		field("key", typed("string", "a label")), field("operator", typed("string", "", field("enum", textsOf([]string{"In", "NotIn"})))),
		field("values", listOf(typed("string", ""), "values of the label")))
	spec := objectOf("the tree",
		field("nodeSelector", objectOf("The nodes of the tree, by labels that are tags of nodes (scheduler/kubernetes/tag_labels). Unset: nodes_filter of the options, else all nodes.",
			field("matchLabels", typed("object", "labels that nodes must have", field("additionalProperties", typed("string", "")))),
			field("matchExpressions", listOf(requirement.With("required", textsOf([]string{"key", "operator"})), "conditions that nodes must meet")))),
		field("options", optionsSchema("Options of the tree: docs/pools.md.", pooltree.TreeOptions.Options())))
	status := objectOf("the tree as of the last seconds",
		field("nodes", typed("integer", "how many nodes it has")), field("total", amountsSchema("what they have")), field("usage", amountsSchema("what jobs use")),
		field("pools", typed("integer", "how many pools it has")), field("runningOperations", typed("integer", "operations that run")),
		field("conditions", conditionsSchema()))
	return definition(Trees, "weirtree", "WeirTree", "wt", "A pool tree of Weir: nodes that a hierarchy of pools shares.", spec, status,
		column("Nodes", "integer", ".status.nodes", false), column("Pools", "integer", ".status.pools", false), column("Running", "integer", ".status.runningOperations", false),
		column("Accepted", "string", acceptedPath, false), column("Age", "date", ".metadata.creationTimestamp", false))
}
