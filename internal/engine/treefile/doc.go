// Package treefile reads a pool tree together with its cluster and its
// operations from one file, and writes the shares computed from it.
//
// Two formats are read. The readable one (YAML or JSON) has the sections
// cluster, tree, pools, operations and state; its options are those of package
// pooltree. The other is the JSON of the conformance vectors, one tree per
// document, whose answers are also written and compared here. [Read] detects
// the format. [History] simulates a tree over time.
//
// Every problem of a file is reported, each with its line, its path and its
// rule. Text in, values out: the package opens no file. The text of a
// vector is read with jsontext.
package treefile
