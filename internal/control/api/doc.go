// Package api serves the HTTP dialect of YTsaurus: commands over one tree of
// paths, for people, programs and the web page.
//
// It owns how requests are read and answered, and the table of commands with the
// permission that each needs. It decides nothing about pools and jobs; the rooms
// below do. It must not import cli, app, metrics or web.
//
// # The path of a request
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
// Write a function that takes a *call and returns a yson.Node, and add a row to the
// table, in one of the files table_*.go:
//
//	{
//		name: "get_answer", about: "answers", needs: readAt("//sys"),
//		parameters: []parameter{{"limit", anInteger, "100", "how many at most"}},
//		result: "answer", run: getAnswer,
//	}
//
// The row describes all that clients see, and docs/api.md is generated from it. A
// command gets only the parameters that its row declares; their types are checked
// before it runs. The typed methods of [wire.Parameters] read them. [call.input] is the body. A
// command with binary output (output: rawBytes) ends with [call.answerBytes].
//
// A command that any server can answer is local. A command that reads state that only
// the leader has starts with
//
//	if err := c.Live(); err != nil { return yson.Node{}, err }
//
// and a standby then forwards it.
//
// # Permissions
//
// Every row must have a permission; permission.go lists them. The check runs before
// the command, finds the objects of the command and stores them in the call
// (c.operation, c.job, c.node). If the required permission depends on the objects that
// change, the change itself decides, and the permission has no check. matrix_test.go
// tests the matrix of commands and users. It requires a sample of every command.
//
// A command is one transaction. It collects its changes of pools and of the registry with
// EditTrees and EditRegistry, and call.guarded commits them once, after the command has
// run without an error; no command commits twice. Changes of operations, jobs and nodes
// are one call of the server, with c.Caller(object), which carries user, command, request
// and mutation id. A command whose answer is more
// than an empty map has a replay, which makes the answer again of what the server
// remembered. One whose answer must not be kept is secret.
package api
