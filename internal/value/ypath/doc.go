// Package ypath is the language of paths in the tree of nodes: //sys/pools/a/@weight.
//
//	path    = root step*          root = "/" (the root of the tree) | "#" id of an object
//	step    = "/" literal         a child by its key, or an item of a list by its position
//	        | "/@" [literal]      an attribute, or all of them; steps behind it go inside its value
//	        | "/*" | "/@*"        all children, all attributes; always the last step
//	        | "&"                 behind a root or child: a link is not followed here
//	literal = one or more bytes except / @ & * [ { \, which are written with "\" before them;
//	          "\xHH" is any byte
//
// It owns reading, printing and taking apart of paths. A [Path] holds names as they are, without
// escapes; whatever it holds prints as text that reads back as the same Path, except for an empty
// name, which cannot be written. What a path means, whether "0" is a key or a position for instance,
// is known only where there is a tree; see [Step.Position].
//
// Rich paths, which only tables have, put attributes before and columns or ranges behind: these are
// YSON and not read here. [CutSuffix] finds where the path ends.
//
// The package imports nothing of ours and does not panic on any text.
package ypath
