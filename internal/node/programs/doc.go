// Package programs holds the two small programs that run jobs on a node, weir-supervisor and weir-init, inside weir.
//
// It owns where they come from and where a node puts them. make builds both into the directory built and then weir with
// the tag smallprograms, which embeds them. A weir built without the tag has none and plays both roles itself.
package programs
