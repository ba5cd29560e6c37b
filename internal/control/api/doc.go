// Package api speaks the HTTP dialect of YTsaurus: commands over one tree of
// paths, for people, programs and the web page.
//
// It owns how requests are read and answered, and the table of commands with the
// permission that each needs. It decides nothing about pools and jobs: that is for the
// rooms below. It must not import cli, app, metrics or web.
//
// # The way of a request
//
//	serve ─► checkMethod ─► authenticate ─► admit ─► readMessage ─► forwards? ─► call.run ─► reply
//	         (command.go)   (api.go)    (permission.go) (request.go) (forward.go)     │
//	                                                                                  ├─ once: mutation ids (mutation.go)
//	                                                                                  └─ guarded: panics
//	                                                                                       ├─ checkParameters (parameter.go)
//	                                                                                       ├─ permitted (permission.go)
//	                                                                                       └─ command.run
//
// # Adding a command
//
// Write a function that takes a *call and returns a yson.Node, and a row of the
// table, which is in the files table_*.go:
//
//	{
//		name: "get_answer", about: "answers", needs: readAt("//sys"),
//		parameters: []parameter{{"limit", anInteger, "100", "how many at most"}},
//		result: "answer", run: getAnswer,
//	}
//
// The row says all that clients see, and docs/api.md is made from it. A command gets
// the parameters that its row names and no others; their types are checked before it
// runs. The typed methods of [wire.Parameters] read them; the body is [call.input]. A
// command with binary output (output: rawBytes) ends with [call.answerBytes].
//
// A command that any server can answer is local. One that reads what only the leader
// knows begins with
//
//	if err := c.Live(); err != nil { return yson.Node{}, err }
//
// and is then forwarded by a standby.
//
// # Permissions
//
// A row cannot do without one: see permission.go for those that there are. The check
// runs before the command, finds what the command is about (c.operation, c.job,
// c.node) and leaves it there. Where what is needed depends on what is found to
// change, the change itself decides, and the permission has no check. The matrix of
// commands and people is tested in matrix_test.go, which wants a sample of every
// command.
//
// A command is one transaction. It collects its changes of pools and of the registry with
// EditTrees and EditRegistry, and call.guarded commits them once, after the command has
// run without an error; no command commits twice. Changes of operations, jobs and nodes
// are one call of the server, with c.Caller(object), which carries user, command, request
// and mutation id. A command whose answer is more
// than an empty map has a replay, which makes the answer again of what the server
// remembered. One whose answer must not be kept is secret.
package api
