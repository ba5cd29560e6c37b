package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

const docsFile = "../../../docs/configuration.md"

// The reference in docs/configuration.md is generated from the tables, so it
// always agrees with them.
func TestTheReferenceOfSettingsIsUpToDate(t *testing.T) {
	expected.Page(t, docsFile, reference())
}

// The example at the top of the page is a valid file, and is not empty.
func TestTheExampleOfThePageIsRight(t *testing.T) {
	loaded, warnings, err := Load(Sources{File: "example", Data: []byte(expected.Example(t, docsFile, ""))})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", err, warnings)
	}
	if err := loaded.Require(NodeSection); err != nil || len(loaded.origins) < 10 {
		t.Errorf("%v; it shows %d settings", err, len(loaded.origins))
	}
}

func reference() string {
	var b strings.Builder
	table := func(level, title, doc string, settings []Setting) {
		fmt.Fprintf(&b, "\n%s %s\n\n", level, title)
		if doc != "" {
			fmt.Fprintf(&b, "%s\n\n", doc)
		}
		b.WriteString("| setting | value | default | changes | meaning |\n|---|---|---|---|---|\n")
		for _, s := range settings {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", lastPart(s.Path), expected.Value(s.Info.Shape), expected.Default(s.Info), s.Changes(), meaning(s))
		}
	}
	for _, section := range sections().table.Options() {
		table("##", "`"+section.Name+"`", section.Doc, below(section.Name))
		for _, inner := range nestedOf(section.Shape.Options) {
			title := "`" + section.Name + "/" + inner.Name + "`"
			doc := inner.Doc
			if len(inner.Aliases) > 0 {
				doc += " Also " + expected.Codes(inner.Aliases) + "."
			}
			table("###", title, doc, below(section.Name+"/"+inner.Name))
		}
	}
	b.WriteString("\n### `up/agents`, each\n\n| setting | value | meaning |\n|---|---|---|\n")
	for _, o := range agentTable.Options() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.Name, expected.Value(o.Shape), o.Doc)
	}
	b.WriteString("\n## Accepted without effect\n\nWeir accepts these options of YTsaurus, and warns that they have no effect and why.\n\n| setting | why it has no effect |\n|---|---|\n")
	var because string
	var names []string
	write := func() {
		if len(names) > 0 {
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names, ", "), because)
		}
	}
	for _, s := range Settings() {
		if s.Info.NotSupported == "" {
			continue
		}
		if reason := strings.TrimPrefix(s.Info.NotSupported, "has no effect, because "); reason != because {
			write()
			because, names = reason, nil
		}
		for _, name := range append([]string{s.Path}, s.Info.Aliases...) {
			names = append(names, "`"+name+"`")
		}
	}
	write()
	return b.String()
}

func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// below returns the settings directly in a section.
func below(path string) (list []Setting) {
	for _, s := range Settings() {
		if s.Info.NotSupported == "" && s.Path == path+"/"+lastPart(s.Path) {
			list = append(list, s)
		}
	}
	return list
}

func nestedOf(options []*document.Info) (nested []*document.Info) {
	for _, o := range options {
		if len(o.Shape.Options) > 0 {
			nested = append(nested, o)
		}
	}
	return nested
}

func meaning(s Setting) string {
	text := expected.Meaning(s.Info)
	if s.Secret() {
		text += " Printing it hides passwords and tokens."
	}
	return text
}
