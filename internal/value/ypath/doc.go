// Package ypath is the language of paths in the tree of nodes: //sys/pools/a/@weight.
//
//	path    = root step*          root = "/" (the root of the tree) | "#" id of an object
//	step    = "/" literal         a child by its key, or an item of a list by its position
//	        | "/@" [literal]      an attribute, or all of them; steps after it lead into its value
//	        | "/*" | "/@*"        all children, all attributes; always the last step
//	        | "&"                 after a root or child: a link is not followed here
//	literal = one or more bytes except / @ & * [ { \, which are escaped with "\";
//	          "\xHH" is any byte
//
// It owns parsing, printing and splitting paths. A [Path] holds names without escapes. It prints as
// text that reads back as the same Path, except for an empty name, which cannot be written. What a
// path means, for instance whether "0" is a key or a position, depends on the tree; see
// [Step.Position].
//
// Rich paths, which only tables have, add attributes in front and columns or ranges at the end:
// these are YSON and not read here. [CutSuffix] finds where the path ends.
//
// The package imports nothing of ours and does not panic on any text.
package ypath
