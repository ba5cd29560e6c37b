// Package nodev1 is the generated code of node.proto: messages of the protocol between the
// scheduler and a node, version 1, and its service. What the messages mean is told by package
// nodeproto. It imports nothing of ours.
package nodev1

//go:generate ../../../scripts/protoc.sh internal/node/nodeproto/nodev1/node.proto
