// Package weir is the root of the module. It holds no code: the program is
// cmd/weir, its rooms are under internal/ (docs/architecture.md has the table),
// and the tests in this directory hold the whole tree to the rules of the house.
package weir
