package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// The page is generated from the table, so the two cannot differ.
func TestThePageOfCommandsIsUpToDate(t *testing.T) {
	expected.Page(t, "../../../docs/api.md", reference(allCommands()))
}

func reference(commands *table) string {
	var b strings.Builder
	b.WriteString("\n| command | needs | no token | other user | owner | administrator |\n|---|---|---|---|---|---|\n")
	for _, g := range commands.groups {
		for _, c := range g.commands {
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |", c.name, c.name, c.needs.name)
			for _, name := range []string{"no token", "other user", "owner", "administrator"} {
				for _, who := range people {
					if who.name == name {
						fmt.Fprintf(&b, " %s |", map[class]string{isPermitted: "yes", isDenied: "no", isUnauthenticated: "401"}[who.may(c.needs)])
					}
				}
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\nThis applies with the initial access lists. The *owner* is the user who started the operation or the transaction, who owns the token, or whom the access list of the node names.\n")
	b.WriteString("\n## Parameters of all commands\n\n" + parameterTable(commonParameters))
	for _, g := range commands.groups {
		fmt.Fprintf(&b, "\n## %s\n", g.title)
		for _, c := range g.commands {
			fmt.Fprintf(&b, "\n### `%s`\n\n%s. Needs %s.\n", c.name, strings.ToUpper(c.about[:1])+c.about[1:], c.needs.name)
			fmt.Fprintf(&b, "\n%s.%s\n", strings.Join(c.methods(), ", "), data(&c))
			if len(c.parameters) > 0 {
				b.WriteString("\n" + parameterTable(c.parameters))
			}
		}
	}
	return b.String()
}

// data describes a command's input and output apart from its parameters.
func data(c *command) (text string) {
	if c.v3 != "" {
		text += fmt.Sprintf(" `%s` in version 3.", c.v3)
	}
	switch c.inputType() {
	case structured:
		text += " The body is a value."
	case rawBytes:
		text += " The body is bytes."
	}
	switch {
	case c.outputIn(4) == rawBytes:
		text += " The answer is bytes."
	case c.result != "":
		text += fmt.Sprintf(" The result is under `%s` in version 4.", c.result)
	}
	if c.local {
		text += " Any server answers."
	}
	return text
}

func parameterTable(list []parameter) string {
	var b strings.Builder
	b.WriteString("| parameter | type | default | meaning |\n|---|---|---|---|\n")
	for _, p := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.name, p.kind, strings.ReplaceAll(p.otherwise, "<", `\<`), p.about)
	}
	return b.String()
}
