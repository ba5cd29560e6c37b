//go:build smallprograms

package programs

import _ "embed" // for the files below

//go:embed built/weir-supervisor
var supervisor []byte

//go:embed built/weir-init
var initProgram []byte

//go:embed built/weir-pod
var podProgram []byte

// embedded returns the programs.
func embedded() (supervisorProgram, init, pod []byte) { return supervisor, initProgram, podProgram }
