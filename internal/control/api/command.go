package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// dataType is the type of a command's input or output beside its parameters.
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
	// v3 is the name in version 3 of the API, if it differs.
	v3 string
	// about describes the command on one line.
	about string
	// needs is the permission that the command requires.
	needs permission
	// changes reports whether the command changes anything. Such a command runs on the leader,
	// accepts mutation ids, and refuses GET and HEAD.
	changes bool
	// clientsGet is set for the commands that change things and that clients of YTsaurus send
	// with GET all the same. Only GET is accepted beside PUT and POST.
	clientsGet bool
	// parameters are all that it reads besides [commonParameters].
	parameters []parameter
	// input is the type of the request's body, none by default. output is the type of the answer,
	// structured by default.
	input, output dataType
	// streams reports whether run reads the request's body itself, as it arrives: [call.content].
	streams bool
	// heavy commands carry much data; clients request a host first.
	heavy bool
	// local commands need nothing that only the leader knows: any server answers them.
	local bool
	// result is the key under which version 4 wraps the result of run, unless the request asks for
	// the bare value. Empty means no wrapping.
	result string
	// silentV3 commands return nothing in version 3.
	silentV3 bool
	// run executes the command. Commands without a result return an empty map; commands with binary
	// output call [call.answerBytes].
	run func(c *call) (yson.Node, error)
	// replay builds the answer to a repeated request from the stored response to the first one.
	// Without it the answer is an empty map.
	replay func(c *call, response []byte) (yson.Node, error)
	// steps commands are steps of a session, which their own parameters put in order: mutation ids are ignored, and
	// nothing is remembered.
	steps bool
	// secret answers are sent once and never stored, not even in memory. A repeated request gets
	// the answer that replay builds.
	secret bool
}

// group is a set of related commands, for readers of the table.
type group struct {
	title    string
	commands []command
}

// table is all commands by name.
type table struct {
	groups []group
	v4, v3 map[string]*command
}

// newTable builds the table. It panics on an invalid row, which is a programming error.
func newTable(groups ...group) *table {
	t := &table{groups: groups, v4: map[string]*command{}, v3: map[string]*command{}}
	for _, g := range groups {
		for i := range g.commands {
			c := &g.commands[i]
			if c.needs.name == "" || c.about == "" || c.run == nil {
				panic(fmt.Sprintf("command %s does not say what it needs, what it is for or what it does", c.name))
			}
			if t.v4[c.name] != nil || t.v3[c.nameV3()] != nil {
				panic(fmt.Sprintf("command %s is in the table twice", c.name))
			}
			t.v4[c.name], t.v3[c.nameV3()] = c, c
		}
	}
	return t
}

// allCommands is the table of this server.
func allCommands() *table {
	return newTable(
		group{"Paths", pathCommands},
		group{"Transactions", transactionCommands},
		group{"Operations", operationCommands},
		group{"Jobs", jobCommands},
		group{"Files", contentCommands},
		group{"Pools", poolCommands},
		group{"The cluster", clusterCommands},
		group{"People and tokens", peopleCommands},
		group{"General", generalCommands},
	)
}

// inVersion returns the commands of one version of the API.
func (t *table) inVersion(version int) map[string]*command {
	if version == 3 {
		return t.v3
	}
	return t.v4
}

// find finds a command by its name in a version. YTsaurus's own JavaScript client uses version 3
// names in version 4 as well, some with a leading underscore: these are aliases. Version 3 does not
// have the newer names.
func (t *table) find(version int, name string) (*command, bool) {
	for _, table := range []map[string]*command{t.inVersion(version), t.v3} {
		for _, name := range []string{name, strings.TrimPrefix(name, "_")} {
			if c, known := table[name]; known {
				return c, true
			}
		}
	}
	return nil, false
}

func (c *command) nameV3() string {
	if c.v3 != "" {
		return c.v3
	}
	return c.name
}

// inputType is the type of the request's body.
func (c *command) inputType() dataType {
	if c.input == "" {
		return noData
	}
	return c.input
}

// outputIn is the type of the command's output in a version.
func (c *command) outputIn(version int) dataType {
	switch {
	case version == 3 && c.silentV3:
		return noData
	case c.output == "":
		return structured
	}
	return c.output
}

// methods are the HTTP methods that the command accepts.
func (c *command) methods() []string {
	switch {
	case c.changes && c.clientsGet:
		return []string{http.MethodGet, http.MethodPut, http.MethodPost}
	case c.changes:
		return []string{http.MethodPut, http.MethodPost}
	}
	return []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost}
}

// checkMethod refuses methods that the command does not accept: GET and HEAD change nothing, except
// where YTsaurus's own clients leave no choice.
func (c *command) checkMethod(method string) error {
	if slices.Contains(c.methods(), method) {
		return nil
	}
	e := wire.Errorf(wire.CodeGeneric, "Command %q must be sent with %s, not with %s", c.name, strings.Join(c.methods(), " or "), wire.CutText(method, 20))
	e.Status = http.StatusMethodNotAllowed
	return e
}

// descriptors lists the commands of a version as clients expect them: with these keys and no
// others.
func (t *table) descriptors(version int) yson.Node {
	commands := t.inVersion(version)
	list := make([]yson.Node, 0, len(commands))
	for name, c := range commands {
		list = append(list, yson.Map(
			yson.Pair("name", yson.String(name)),
			yson.Pair("input_type", yson.String(string(c.inputType()))),
			yson.Pair("output_type", yson.String(string(c.outputIn(version)))),
			yson.Pair("is_volatile", yson.Boolean(c.changes)),
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
