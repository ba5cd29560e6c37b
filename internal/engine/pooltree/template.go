package pooltree

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/weirhq/weir/internal/value/document"
)

// Template configures every tree whose name matches its filter: an option that
// such a tree does not set has the template's value. Where several templates of a
// tree set an option, the one with the highest priority decides.
type Template struct {
	Priority document.Optional[int]
	Filter   document.Optional[string]
	Config   TreeConfig
}

// Templates are named templates.
type Templates = []document.Named[Template]

// RuleTemplatePriority is broken by two templates with one priority.
const RuleTemplatePriority document.Rule = "template_priority"

// RuleNotInTemplate is broken by an option that every tree must set for itself.
const RuleNotInTemplate document.Rule = "not_in_template"

var templateTable = document.NewTable(
	document.Maybe("priority", "Where several templates set an option, the one with the highest priority decides. Priorities must differ.",
		func(c *Template) *opt[int] { return &c.Priority }, document.Ints.Default(0)),
	document.Maybe("filter", "A regular expression that the whole name of a tree must match.",
		func(c *Template) *opt[string] { return &c.Filter }, document.Words.That("a regular expression", document.RuleBadFormat, isPattern)),
	document.Section("config", "Options of the trees.",
		func(c *Template) *TreeConfig { return &c.Config }, TreeOptions),
)

// TemplatesType reads the templates of trees by their names. Check applies the rules
// between them.
var TemplatesType = document.MapOf(templateTable.Type())

func isPattern(text string) bool {
	_, err := regexp.Compile(text)
	return err == nil
}

// CheckTemplates calls refuse for everything that templates must not do. The path of
// an option begins with the name of its template.
func CheckTemplates(list Templates, refuse func(path string, rule document.Rule, message string)) {
	for i := range list {
		name, at := list[i].Name, &list[i].Value
		if !at.Filter.IsSet() {
			refuse(name+"/filter", document.RuleMissing, "a template needs a filter; .* matches all trees")
		}
		if at.Config.NodesFilter.IsSet() {
			refuse(name+"/config/nodes_filter", RuleNotInTemplate, "trees must not share nodes, so every tree sets its own nodes_filter")
		}
		for j := range i {
			if list[j].Value.Priority.Value() == at.Priority.Value() {
				refuse(name+"/priority", RuleTemplatePriority, fmt.Sprintf("template %q has the same priority, %d", list[j].Name, at.Priority.Value()))
			}
		}
	}
}

// FromTemplates returns what templates set for a tree.
func FromTemplates(list Templates, tree string) (config TreeConfig) {
	byPriority := slices.Clone(list)
	slices.SortStableFunc(byPriority, func(a, b document.Named[Template]) int {
		return cmp.Compare(b.Value.Priority.Value(), a.Value.Priority.Value())
	})
	for i := range byPriority {
		t := &byPriority[i].Value
		if matches, err := regexp.MatchString("^(?:"+t.Filter.Value()+")$", tree); err == nil && matches {
			TreeOptions.Fill(&config, &t.Config)
		}
	}
	return config
}

// SameTemplates reports whether two lists of templates are the same.
func SameTemplates(a, b Templates) bool {
	return slices.EqualFunc(a, b, func(x, y document.Named[Template]) bool {
		return x.Name == y.Name && templateTable.Equal(&x.Value, &y.Value)
	})
}
