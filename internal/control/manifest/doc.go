// Package manifest owns pools as objects of Kubernetes: the custom resources WeirTree and WeirPool, their schema, and what a
// set of objects means for the pool trees of the scheduler. It is pure; package steward reads and writes the objects.
//
// The store stays the authority. [Decide] takes all objects and the trees in force and returns the trees that should be in
// force, with a verdict for every object. A tree is changed as a whole or not at all: if its objects do not make a valid
// tree, the last valid one stays, and the objects that are wrong say why. So the order in which objects arrive does not
// matter, and nothing is lost.
package manifest
