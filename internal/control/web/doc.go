// Package web serves the page: the files that npm built of the directory web, and
// the headers that keep them harmless.
//
// It owns which file answers which address, how long browsers may keep it, and the
// Content-Security-Policy. It knows nothing of pools or operations: the page asks
// the public API like any other client. It must not import server, api or anything
// of the scheduler.
//
// The built files lie in dist, which is not under version control. A program built
// without them serves a placeholder that says so.
package web
