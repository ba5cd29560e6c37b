// Package pooltree owns the configuration of pool trees: which pools there are,
// what they may use and what they are promised.
//
// A document (YAML, JSON or Go values) is read strictly into a [Draft]; a Draft
// that breaks no rule becomes a [Tree], which never changes afterwards. A change
// is a new Tree made by [Tree.With] from the old one and a list of edits, checked
// as a whole. [Diff] compares two trees. All problems are reported at once, each
// with its place, a rule and the amounts.
//
// Every option is a row of a table (treeOptions, poolOptions, operationOptions),
// which gives its names, its range, its default and what it means; the tables
// read, write, compare and document.
//
// Configuration only: the package knows nothing about running operations, demands
// or shares, and imports no package of this module but document, resource and
// nodefilter.
package pooltree
