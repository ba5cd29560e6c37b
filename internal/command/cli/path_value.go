package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// numberWithUnit matches values such as 2s and 4GiB, which are neither YSON nor JSON.
var numberWithUnit = regexp.MustCompile(`^\d+(\.\d+)?[A-Za-z]+$`)

// parseValue reads a value of the command line: YSON, as in yt, or JSON if it is not YSON. So true
// is the string and %true the boolean.
func parseValue(text string) (yson.Node, error) {
	if strings.TrimSpace(text) == "" {
		return yson.Node{}, errors.New(`the value is empty; the empty string is '""'`)
	}
	node, ysonErr := yson.Parse([]byte(text))
	if ysonErr == nil {
		return node, nil
	}
	node, jsonErr := yson.ParseJSON([]byte(text), yson.JSONOptions{UTF8: true})
	if jsonErr == nil {
		return node, nil
	}
	// Both errors have an offset. The parser that came further is more likely to know what was
	// meant.
	var asYSON, asJSON *yson.SyntaxError
	if numberWithUnit.MatchString(text) {
		return node, fmt.Errorf("a value with a unit is a string and needs quotes: '\"%s\"'; a plain number is in milliseconds or bytes", text)
	}
	if errors.As(ysonErr, &asYSON) && errors.As(jsonErr, &asJSON) && asJSON.Offset > asYSON.Offset {
		return node, fmt.Errorf("the value is neither YSON nor JSON: %w", jsonErr)
	}
	return node, fmt.Errorf("the value is neither YSON nor JSON: %w", ysonErr)
}

// parseMapping reads a value that must be a map.
func parseMapping(flag, text string) (yson.Node, error) {
	if text == "" {
		return yson.Entity(), nil
	}
	node, err := parseValue(text)
	if err != nil {
		return node, usageErrorf("%s: %v", flag, err)
	}
	if node.Kind() != yson.MapKind {
		return node, usageErrorf("%s must be a map like '{name=research}', not %s", flag, node.Kind())
	}
	return node, nil
}

// readValue is the value of an argument; - or no argument means the standard input.
func readValue(cmd *cobra.Command, args []string, format string) (yson.Node, error) {
	var text string
	if len(args) == 0 || args[0] == "-" {
		data, err := readBounded(cmd.InOrStdin(), "stdin")
		if err != nil {
			return yson.Node{}, err
		}
		text = string(data)
	} else {
		text = args[0]
	}
	name, err := parseFormat(format)
	if err != nil {
		return yson.Node{}, err
	}
	switch notation, _ := name.Text(); notation {
	case "":
		return parseValue(text)
	case "json":
		return yson.ParseJSON([]byte(text), yson.JSONOptions{UTF8: true})
	default:
		return yson.Parse([]byte(text))
	}
}

// parseFormat reads --format: json, yson, or either with attributes such as <format=text>yson.
// Without a format it returns the entity.
func parseFormat(format string) (yson.Node, error) {
	if format == "" {
		return yson.Entity(), nil
	}
	node, err := yson.Parse([]byte(format))
	if err != nil {
		return node, usageErrorf("--format: %v", err)
	}
	if name, ok := node.Text(); !ok || name != "json" && name != "yson" {
		return node, usageErrorf(`--format must be json, yson, or one of them with attributes like "<format=text>yson", not %s`, format)
	}
	return node, nil
}

// raw runs a command and prints the answer as the server writes it in a format.
func (s *session) raw(command string, format yson.Node, parameters map[string]any) error {
	if name, _ := format.Text(); name == "json" {
		if _, given := format.Attribute("encode_utf8"); !given { // people read text, not bytes
			format = format.WithAttributes(append(format.Attributes()[:len(format.Attributes()):len(format.Attributes())],
				yson.Pair("encode_utf8", yson.Boolean(false)))...)
		}
	}
	parameters["output_format"] = format
	data, err := s.Bytes(s.ctx, client.Request{Command: command, Parameters: parameters})
	if err != nil {
		return err
	}
	if len(data) == 0 || data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	_, err = s.out.Write(data)
	return err
}

// readDocument reads a file as a value: YSON if the name ends in .yson, JSON for .json, YAML for
// all others. The standard input may be in any of them.
func readDocument(cmd *cobra.Command, name string) (yson.Node, string, error) {
	input, label, closeInput, err := openInput(cmd, name)
	if err != nil {
		return yson.Node{}, "", err
	}
	defer closeInput()
	data, err := readBounded(input, label)
	if err != nil {
		return yson.Node{}, label, err
	}
	switch node, err := yson.Parse(data); {
	case filepath.Ext(label) == ".yson" && err != nil:
		return node, label, fmt.Errorf("%s: %w", label, err)
	case filepath.Ext(label) == ".yson", name == "-" && err == nil: // no map is both YSON and YAML or JSON
		return node, label, nil
	}
	value, err := notation.Parse(label, data)
	if err != nil {
		return yson.Node{}, label, shortenProblems(err)
	}
	node, err := nodeOf(value)
	return node, label, err
}

// nodeOf is a document as YSON.
func nodeOf(value document.Value) (yson.Node, error) {
	text, err := value.JSON("")
	if err != nil {
		return yson.Node{}, err
	}
	return yson.ParseJSON(text, yson.JSONOptions{UTF8: true, Plain: true})
}
