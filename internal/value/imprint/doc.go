// Package imprint writes Go values whole, unexported fields included, and reads
// them back.
//
//	Describe        the schema of some types: what a reader needs to know about them
//	Schema.Writer   writes values of these types
//	Schema.Reader   reads them; the schema may be that of another build
//
// A value is written with everything it points to. Pointers keep their identity:
// what one value shares is shared after reading, and cycles are allowed. A field
// with the tag `save:"-"` is left out and is zero after reading. Types that
// Describe is told to share are written once for each content.
//
// Functions, channels, interfaces and pointers into other values have no imprint.
// Describe refuses the first three. Equal values have equal imprints: maps are
// written in the order of their keys. Times lose their location and their
// monotonic reading.
package imprint
