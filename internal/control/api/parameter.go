package api

import (
	"slices"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// kind is the type of a parameter.
type kind string

const (
	aString        kind = "string"
	aBoolean       kind = "boolean"
	anInteger      kind = "integer"
	aDuration      kind = "duration"   // milliseconds, or text such as 1h30m
	aTime          kind = "time"       // such as 2026-01-31T23:59:59.123456Z
	anID           kind = "identifier" // such as 1-2-3-4
	someStrings    kind = "strings"    // a list of strings, or one string
	aMap           kind = "map"
	aPath          kind = "path"
	someAttributes kind = "attributes" // a list of names, or a map with "keys" and "paths"
	anything       kind = "any"
)

// parameter is a parameter of a command, beside its data.
type parameter struct {
	name string
	kind kind
	// otherwise is the default value, as people write it: required if there is none, empty if
	// leaving the parameter out is the same as an empty value.
	otherwise string
	// about describes it on one line.
	about string
}

// required replaces a default.
const required = "required"

// commonParameters are the parameters of all commands. Formats are read with the request.
var commonParameters = []parameter{
	{"mutation_id", anID, "", "identifies the request: requests with the same id take effect once"},
	{"retry", aBoolean, "false", "the request may have been sent before, with the same mutation_id"},
	{"return_only_value", aBoolean, "false", "returns the bare result, without its key, in version 4"},
	{"read_from", aString, "leader", "which server may answer a read: leader, follower or cache"},
	{"input_format", anything, "", "the format of the body"},
	{"output_format", anything, "", "the format of the answer"},
}

// check refuses a value of the wrong type, and a missing value that is required.
func (p parameter) check(given wire.Parameters) error {
	if !given.Has(p.name) {
		if p.otherwise == required {
			return wire.Missing(p.name)
		}
		return nil
	}
	var err error
	switch p.kind {
	case aString:
		_, err = given.Text(p.name, "")
	case aBoolean:
		_, err = given.Boolean(p.name, false)
	case anInteger:
		_, err = given.Integer(p.name, 0)
	case aDuration:
		_, err = given.Duration(p.name, 0)
	case aTime:
		_, err = given.Moment(p.name)
	case anID:
		_, err = given.ID(p.name)
	case someStrings:
		_, err = given.TextList(p.name)
	case aMap:
		_, err = given.Mapping(p.name)
	case aPath:
		_, err = given.Path(p.name)
	case someAttributes:
		_, err = given.AttributeNamesOf(p.name)
	}
	return err
}

// declared returns the given parameters that the table declares for a command. Others are ignored.
func (c *command) declared(given yson.Node) yson.Node {
	return yson.Map(slices.DeleteFunc(slices.Clone(given.Entries()), func(e yson.Entry) bool { return !c.knows(e.Key) })...)
}

func (c *command) knows(name string) bool {
	is := func(p parameter) bool { return p.name == name }
	return slices.ContainsFunc(c.parameters, is) || slices.ContainsFunc(commonParameters, is) || name == "value" && c.input == structured
}

// checkParameters refuses parameters that the table does not allow.
func (c *command) checkParameters(given wire.Parameters) error {
	for _, p := range c.parameters {
		if err := p.check(given); err != nil {
			return err
		}
	}
	return nil
}
