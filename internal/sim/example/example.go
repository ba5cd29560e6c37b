// Package example embeds the scenarios of examples/simulate, for servers that
// run them without files.
//
// The files here are copies, because Go embeds nothing from above a package; a
// test keeps them equal. It imports nothing but the standard library.
package example

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Scenario is an example: its name and its text.
type Scenario struct{ Name, Text string }

// All returns every example in the order of names.
func All() []Scenario {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	slices.Sort(names)
	list := make([]Scenario, 0, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded
		}
		list = append(list, Scenario{Name: strings.TrimSuffix(name, ".yaml"), Text: string(text)})
	}
	return list
}
