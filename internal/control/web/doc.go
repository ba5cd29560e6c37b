// Package web serves the page: the files that npm built from the directory web,
// with security headers.
//
// It owns which file answers which address, how long browsers may keep it, and the
// Content-Security-Policy. It knows nothing about pools or operations: the page
// uses the public API like any other client. It must not import server, api or
// anything of the scheduler.
//
// The built files are in dist, which is not under version control. A program built
// without them serves a placeholder that says so.
package web
