// Package fairshare computes what every element of one pool tree is entitled
// to: fair shares of several resources at once, with strong, burst and relaxed
// guarantees.
//
// It is a pure function from a [Tree] (limits, guarantees, weights, demands,
// usages, the state of integral pools, the time since the previous update) to a
// [Result] (shares, their split by cause, and the next state). [Engine] keeps
// memory and unchanged intermediate functions between calls; it never changes a
// result by doing so.
//
// # How it works
//
// Every element has a function from a suggestion s in [0, 1] to the share it
// would take, "up to my guarantee plus s of every resource, within my limits".
//
//	operation   closed form: first what it uses already, then a straight line
//	            to its demand                                     (operation.go)
//	pool        fit, the children's functions joined by one parameter, the fit
//	            factor: side by side in proportion to weights, or one after
//	            another in a FIFO pool                                  (fit.go)
//	            curve, the same walk measured by the suggestion it needs,
//	            stopped by the pool's limits                          (curve.go)
//
// The root is asked for suggestion 1 and passes fit factors down (assign.go).
// Before that, guarantees are completed and fitted to limits (guarantees.go)
// and integral pools propose what their volumes allow (integral.go).
//
// Functions consist of straight pieces and jumps, are non-decreasing in every
// component and left-continuous: at a jump the value is the lower one. They are
// never written down as a whole. A pool that is asked about a suggestion looks
// for the one piece that answers it, and asks its children only about the pieces
// it meets on the way (source.go). A piece depends on the children's functions
// alone, not on what was asked before. So an engine may keep the pieces it has
// found and start the next search where the last one ended: what it computes is
// the same, to the last bit, as what a new engine computes.
//
// The package imports resource and the standard library only.
package fairshare
