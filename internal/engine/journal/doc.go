// Package journal is the codec of recorded histories: what a core was at some
// moment, and all inputs since then. Replayed, they lead to the same decisions and
// the same state, bit for bit.
//
// A journal is a sequence of segments. A segment starts with a header and a
// checkpoint, which is a saved core, and goes on with records: inputs with their
// times, the names of operations, and hashes of the state. It ends with the reason
// why it ends, or without one if its writer was killed.
//
//	Encoder   turns inputs into records; cheap, on the loop that owns the core
//	Framer    packs records into compressed frames with checksums; elsewhere
//	Decoder   reads a journal
//	Player    applies it to a core, and compares what happens with what was recorded
//	Anonymise rewrites a journal without names; its decisions stay the same
//
// The format: the eight bytes of magic, then frames. A frame is a byte for its kind,
// the length of its contents, the length of its data and the CRC-32C of all of that
// and the data, as little-endian numbers of 32 bits, and the data, which are the
// contents compressed with deflate. Frames hold whole records, so that a writer that
// is killed leaves whole records. Types are described in the header by the names of
// their fields: another build reads the inputs as long as it knows these fields. Only
// builds whose cores have the same fields read checkpoints.
package journal
