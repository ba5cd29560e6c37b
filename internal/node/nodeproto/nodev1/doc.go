// Package nodev1 is the generated code of node.proto: the messages of the protocol between
// the scheduler and a node, version 1, and its service. Package nodeproto documents what the
// messages mean. It imports no package of this module.
package nodev1

//go:generate ../../../scripts/protoc.sh internal/node/nodeproto/nodev1/node.proto
