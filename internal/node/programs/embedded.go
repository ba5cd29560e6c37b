//go:build smallprograms

package programs

import _ "embed" // for the files below

//go:embed built/weir-supervisor
var supervisor []byte

//go:embed built/weir-init
var initProgram []byte

// embedded returns the programs.
func embedded() (supervisorProgram, init []byte) { return supervisor, initProgram }
