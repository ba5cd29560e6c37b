// Package programs holds the small programs that run jobs inside weir: weir-supervisor and weir-init on a node, and weir-pod
// in pods.
//
// It owns where they come from and where a node puts them. make builds them into the directory built and then weir with
// the tag smallprograms, which embeds them. A weir built without the tag has none, and plays the roles of the first two itself.
package programs
