package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// dataType is what a command takes or returns beside its parameters.
type dataType string

const (
	noData     dataType = "null"
	structured dataType = "structured"
	tabular    dataType = "tabular"
	rawBytes   dataType = "binary"
)

// command is a row of the table of commands.
type command struct {
	name string
	// v3 is the name in the third version of the API, where it differs.
	v3 string
	// input is what the body of a request is, output what the answer is.
	input, output dataType
	// volatile commands change something. They go to the leader and carry
	// mutation ids.
	volatile bool
	// heavy commands carry much data; clients ask for a host first.
	heavy bool
	// local commands need nothing that a leader knows: any server answers.
	local bool
	// result is the key under which version 4 wraps what run returns, unless the
	// request asks for the value alone. Empty means that it is not wrapped.
	result string
	// silentV3 commands return nothing in version 3.
	silentV3 bool
	// run carries the command out. Commands without a result return an empty map;
	// commands with binary output call [call.answerBytes].
	run func(c *call) (yson.Node, error)
	// replay makes the answer to a repeated request of what the server remembered
	// of the first one. Without it the answer is an empty map.
	replay func(c *call, response []byte) (yson.Node, error)
	// secret answers are told once and kept nowhere, in memory neither: a
	// repetition gets what replay makes of what is remembered.
	secret bool
}

// commands is the table, by name. Files add rows while the package is
// initialised; afterwards it does not change.
var (
	commands   = map[string]*command{}
	commandsV3 = map[string]*command{}
)

// register adds commands to the table. It panics on a name that is taken, which
// is a mistake of the programmer.
func register(list ...command) struct{} {
	for i := range list {
		c := &list[i]
		if c.input == "" {
			c.input = noData
		}
		if c.output == "" {
			c.output = structured
		}
		if c.v3 == "" {
			c.v3 = c.name
		}
		if commands[c.name] != nil || commandsV3[c.v3] != nil {
			panic(fmt.Sprintf("command %s is registered twice", c.name))
		}
		commands[c.name], commandsV3[c.v3] = c, c
	}
	return struct{}{}
}

// tableOf returns the commands of a version of the API.
func tableOf(version int) map[string]*command {
	if version == 3 {
		return commandsV3
	}
	return commands
}

// commandOf finds a command by its name in a version. YTsaurus's own client for
// JavaScript uses names of version 3 in version 4 as well, and puts an underscore before
// some: they mean the same. Version 3 does not know newer names.
func commandOf(version int, name string) (*command, bool) {
	for _, table := range []map[string]*command{tableOf(version), commandsV3} {
		for _, name := range []string{name, strings.TrimPrefix(name, "_")} {
			if c, known := table[name]; known {
				return c, true
			}
		}
	}
	return nil, false
}

// outputIn is what the command returns in a version.
func (c *command) outputIn(version int) dataType {
	if version == 3 && c.silentV3 {
		return noData
	}
	return c.output
}

// descriptors lists the commands of a version as clients want them: these keys
// and no others.
func descriptors(version int) yson.Node {
	table := tableOf(version)
	list := make([]yson.Node, 0, len(table))
	for name, c := range table {
		list = append(list, yson.Map(
			yson.Pair("name", yson.String(name)),
			yson.Pair("input_type", yson.String(string(c.input))),
			yson.Pair("output_type", yson.String(string(c.outputIn(version)))),
			yson.Pair("is_volatile", yson.Boolean(c.volatile)),
			yson.Pair("is_heavy", yson.Boolean(c.heavy))))
	}
	slices.SortFunc(list, func(a, b yson.Node) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return yson.List(list...)
}

func nameOf(descriptor yson.Node) string {
	n, _ := descriptor.Get("name")
	s, _ := n.Text()
	return s
}
