package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

// outputFormat is the value of --output.
type outputFormat string

const (
	outputTable outputFormat = "table"
	outputJSON  outputFormat = "json"
	outputYAML  outputFormat = "yaml"
	outputYSON  outputFormat = "yson"
)

// String, Set and Type make outputFormat a flag value that refuses unknown formats.
func (f *outputFormat) String() string { return string(*f) }

// Type is the kind of the flag's value in help.
func (f *outputFormat) Type() string { return "table|json|yaml|yson" }

// Set reads the flag.
func (f *outputFormat) Set(value string) error {
	switch outputFormat(value) {
	case outputTable, outputJSON, outputYAML, outputYSON:
		*f = outputFormat(value)
		return nil
	}
	return errors.New("must be table, json, yaml or yson")
}

// options are the flags that every command has.
type options struct {
	output outputFormat
}

func (o *options) addTo(root *cobra.Command) {
	root.PersistentFlags().VarP(&o.output, "output", "o", "output format")
	complete := cobra.FixedCompletions([]cobra.Completion{"table", "json", "yaml", "yson"}, cobra.ShellCompDirectiveNoFileComp)
	if err := root.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag was added one line above
	}
}

// print writes value in the requested format: as JSON, YAML or YSON with the names of its json
// tags, or by table, which writes the readable form.
func (o *options) print(w io.Writer, value any, table func(io.Writer) error) error {
	switch o.output {
	case outputJSON:
		return writeJSON(w, value)
	case outputYAML:
		return writeYAML(w, value)
	case outputYSON:
		return writeYSON(w, value)
	default:
		return table(w)
	}
}

func writeJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// writeYAML goes through JSON, so that a type needs one set of tags and both
// formats always carry the same keys in the same order.
func writeYAML(w io.Writer, value any) error {
	var buf bytes.Buffer
	if err := writeJSON(&buf, value); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(buf.Bytes(), &doc); err != nil {
		return fmt.Errorf("answer as YAML: %w", err)
	}
	blockStyle(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return fmt.Errorf("answer as YAML: %w", err)
	}
	return enc.Close()
}

// writeYSON writes a value as it is, anything else through JSON like writeYAML.
func writeYSON(w io.Writer, value any) error {
	v, is := value.(client.Value)
	if !is {
		var buf bytes.Buffer
		if err := writeJSON(&buf, value); err != nil {
			return err
		}
		node, err := yson.ParseJSON(buf.Bytes(), yson.JSONOptions{UTF8: true, Plain: true})
		if err != nil {
			return fmt.Errorf("answer as YSON: %w", err)
		}
		if v, err = client.ValueOf(node); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, v.Pretty())
	return err
}

// blockStyle removes JSON's braces and quotes, except around empty containers and lists of scalars,
// which read better on one line.
func blockStyle(n *yaml.Node) {
	scalars := n.Kind == yaml.SequenceNode
	for _, child := range n.Content {
		blockStyle(child)
		scalars = scalars && child.Kind == yaml.ScalarNode
	}
	n.Style = 0
	if scalars || len(n.Content) == 0 && n.Kind == yaml.MappingNode {
		n.Style = yaml.FlowStyle
	}
}

// table lays cells out in columns, two spaces apart. Unlike text/tabwriter it measures the visible
// width, so cells may contain colours.
type table struct {
	w     io.Writer
	right map[int]bool
	rows  [][]string
	// width and elastic are set by fit.
	width   int
	elastic []int
}

func newTable(w io.Writer) *table { return &table{w: w, right: map[int]bool{}} }

// alignRight right-aligns the given columns, counted from 0: numbers.
func (t *table) alignRight(columns ...int) {
	for _, c := range columns {
		t.right[c] = true
	}
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// flush writes the rows, without trailing blanks.
func (t *table) flush() error {
	var widths []int
	for _, row := range t.rows {
		for c, cell := range row {
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], visibleWidth(cell))
		}
	}
	t.shrink(widths)
	var line strings.Builder
	for _, row := range t.rows {
		line.Reset()
		for c, cell := range row {
			cell = cutTo(cell, widths[c])
			if c > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[c]-visibleWidth(cell))
			if t.right[c] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		if _, err := fmt.Fprintln(t.w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// visibleWidth counts the characters of s that a terminal shows: all but the
// colour sequences that style writes.
func visibleWidth(s string) int {
	n := utf8.RuneCountInString(s)
	for {
		start := strings.Index(s, "\x1b[")
		if start < 0 {
			return n
		}
		end := strings.IndexByte(s[start:], 'm')
		if end < 0 {
			return n
		}
		n -= end + 1
		s = s[start+end+1:]
	}
}

// style is a way to highlight text on a terminal.
type style string

const (
	styleBold   style = "1"
	styleDim    style = "2"
	styleRed    style = "31"
	styleGreen  style = "32"
	styleYellow style = "33"
	styleCyan   style = "36"
)

// painter returns a function that styles text for w: with colours on a terminal that has them,
// unchanged everywhere else and whenever NO_COLOR is set (no-color.org).
func painter(w io.Writer) func(style, string) string {
	file, isFile := behindOf(w).(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return plain
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return plain
	}
	return colour
}

func plain(_ style, text string) string { return text }

func colour(s style, text string) string {
	if text == "" {
		return ""
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
