package expected

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// OptionsHead is the head of a table of options on a page.
const OptionsHead = "| option | value | default | meaning |\n|---|---|---|---|\n"

// OptionRow returns the table row of an option. The caller gives the text of its value, because tables
// have their own kinds of values.
func OptionRow(o *document.Info, value string) string {
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", o.Name, value, Default(o), Meaning(o))
}

// Codes writes names as code.
func Codes(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// Value describes the values that an option accepts.
func Value(s document.Shape) string {
	switch {
	case len(s.Values) > 0:
		return Codes(s.Values)
	case s.Kind == "list" && len(s.Item.Options) > 0:
		return "list of maps, below"
	case s.Kind == "list":
		return "list of " + Value(*s.Item)
	case s.Kind == "resources":
		return "map of resources"
	case s.Item != nil:
		return "map from names"
	case len(s.Options) > 0:
		return "map, below"
	case !s.ExclusiveMinimum.IsNull():
		return fmt.Sprintf("%s > %v", s.Kind, s.ExclusiveMinimum)
	case (s.Kind == "duration" || s.Kind == "memory") && s.Minimum.Equal(document.Int(0)) && s.Maximum.IsNull():
		return s.Kind
	case !s.Minimum.IsNull() && !s.Maximum.IsNull():
		return fmt.Sprintf("%s from %v to %v", s.Kind, s.Minimum, s.Maximum)
	case !s.Minimum.IsNull():
		return fmt.Sprintf("%s ≥ %v", s.Kind, s.Minimum)
	}
	return s.Kind
}

// Default returns the default of an option, empty if it has none.
func Default(o *document.Info) string {
	if o.Default.IsNull() {
		return ""
	}
	return "`" + cell(o.Default.String()) + "`"
}

// Meaning returns the description of an option and its other names.
func Meaning(o *document.Info) string {
	text := cell(o.Doc)
	if len(o.Aliases) > 0 {
		text += " Also " + Codes(o.Aliases) + "."
	}
	return text
}

// cell escapes a text for a table cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
