package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/document"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

const (
	docsFile   = "../../docs/configuration.md"
	docsMarker = "<!-- Below this line the file is made from the tables by: go test ./internal/config -update -->\n"
)

// The reference in docs/configuration.md is made from the tables, so that it
// cannot say anything else.
func TestTheReferenceOfSettingsIsUpToDate(t *testing.T) {
	head, generated, ok := strings.Cut(readDocs(t), docsMarker)
	if !ok {
		t.Fatalf("%s has no line %q", docsFile, docsMarker)
	}
	want := reference()
	if *update {
		if err := os.WriteFile(docsFile, []byte(head+docsMarker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(generated, want); diff != "" {
		t.Errorf("%s is out of date (go test ./internal/config -update rewrites it):\n%s", docsFile, diff)
	}
}

// The example that the head of the page shows is a right file, and is not empty.
func TestTheExampleOfThePageIsRight(t *testing.T) {
	_, rest, ok := strings.Cut(readDocs(t), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("%s shows no example", docsFile)
	}
	loaded, warnings, err := Load(Sources{File: "example", Data: []byte(example)})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", err, warnings)
	}
	if err := loaded.Require(NodeSection); err != nil || len(loaded.origins) < 10 {
		t.Errorf("%v; it shows %d settings", err, len(loaded.origins))
	}
}

func readDocs(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
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
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", lastPart(s.Path), valueText(s.Info.Shape), defaultText(s.Info), s.Changes(), meaning(s))
		}
	}
	for _, section := range sections.table.Options() {
		table("##", "`"+section.Name+"`", section.Doc, below(section.Name))
		for _, inner := range nestedOf(section.Shape.Options) {
			title := "`" + section.Name + "/" + inner.Name + "`"
			doc := inner.Doc
			if len(inner.Aliases) > 0 {
				doc += " Also `" + strings.Join(inner.Aliases, "`, `") + "`."
			}
			table("###", title, doc, below(section.Name+"/"+inner.Name))
		}
	}
	b.WriteString("\n### `up/agents`, each\n\n| setting | value | meaning |\n|---|---|---|\n")
	for _, o := range agentTable.Options() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.Name, valueText(o.Shape), o.Doc)
	}
	b.WriteString("\n## Accepted, without effect\n\nThese options of YTsaurus are read and kept, and a warning says that each does nothing here, and why.\n\n| setting | it has no effect, because |\n|---|---|\n")
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

// below lists the settings directly in a section.
func below(path string) (list []Setting) {
	for _, s := range Settings() {
		if s.Info.NotSupported == "" && s.Path == path+"/"+lastPart(s.Path) {
			list = append(list, s)
		}
	}
	return list
}

func nestedOf(options []document.Info) (nested []document.Info) {
	for _, o := range options {
		if len(o.Shape.Options) > 0 {
			nested = append(nested, o)
		}
	}
	return nested
}

func valueText(s document.Shape) string {
	switch {
	case len(s.Values) > 0:
		return "`" + strings.Join(s.Values, "`, `") + "`"
	case s.Kind == "list" && len(s.Item.Options) > 0:
		return "list of maps, below"
	case s.Kind == "list":
		return "list of " + valueText(*s.Item)
	case s.Kind == "resources":
		return "map of resources"
	case s.Kind == "duration" && s.Minimum.Equal(document.Int(0)) && s.Maximum.IsNull():
		return s.Kind
	case !s.Minimum.IsNull() && !s.Maximum.IsNull():
		return fmt.Sprintf("%s from %v to %v", s.Kind, s.Minimum, s.Maximum)
	case s.Kind == "memory" && s.Minimum.Equal(document.Int(0)):
		return s.Kind
	case !s.Minimum.IsNull():
		return fmt.Sprintf("%s ≥ %v", s.Kind, s.Minimum)
	}
	return s.Kind
}

func defaultText(o document.Info) string {
	if o.Default.IsNull() {
		return ""
	}
	return "`" + strings.ReplaceAll(o.Default.String(), "|", `\|`) + "`"
}

func meaning(s Setting) string {
	text := strings.ReplaceAll(s.Info.Doc, "|", `\|`)
	if len(s.Info.Aliases) > 0 {
		text += " Also `" + strings.Join(s.Info.Aliases, "`, `") + "`."
	}
	if s.Secret() {
		text += " Passwords and tokens are hidden when it is printed."
	}
	return text
}
