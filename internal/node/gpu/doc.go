// Package gpu knows the graphics processors of a node: it finds them, chooses which ones a job gets, and reads how they
// do.
//
// The scheduler counts GPUs; the node picks them. A job sees only its own devices. Inventories come from the driver's
// files under /proc, from a command of the administrator for other makers, or are fakes for tests. Readings come from
// the maker's tool, because its library cannot be linked into a static program.
package gpu
