// Package api speaks the HTTP dialect of YTsaurus: commands over one tree of
// paths, for people, programs and the web page.
//
// It owns how requests are read and answered, the table of commands, the tree of
// paths, and the errors that clients see. It decides nothing about pools, jobs or
// permissions: that is for the rooms below. It must not import cli, app, metrics
// or web.
//
// # The way of a request
//
//	serve ─► authenticate ─► readMessage ─► forwards? ─► call.run ─► reply
//	         (people.go)     (request.go)   (forward.go)     │
//	                                                         ├─ once: mutation ids (mutation.go)
//	                                                         ├─ guarded: panics
//	                                                         └─ command.run
//
// # Adding a command
//
// Write a function that takes a *call and returns a yson.Node, and register it in
// the same file:
//
//	var _ = register(command{name: "get_answer", result: "answer", run: getAnswer})
//
//	func getAnswer(c *call) (yson.Node, error) {
//		limit, err := c.parameters.integer("limit", 100)
//		…
//		return yson.Int64(42), nil
//	}
//
// The row says all that clients see: input and output (structured output and no
// input unless stated), volatile (it changes something, so it goes to the leader
// and is carried out once for each mutation id), heavy, the name in version 3, the
// key under which version 4 wraps the result. A command that any server can answer
// is local. One that reads what only the leader knows begins with
//
//	if err := c.live(); err != nil { return yson.Node{}, err }
//
// and is then forwarded by a standby. Parameters are read with the typed methods
// of [parameters]; what nobody reads is ignored. The body is [call.input]. A
// command with binary output (output: rawBytes) ends with [call.answerBytes].
//
// Permissions: c.require(auth.Requires(auth.Read, chain)), where the chain comes
// from a place of the tree, or one of the needs of package auth. Changes go to
// the server with c.caller(object), which carries user, command, request and
// mutation id; registry rows through [call.editRegistry]. A command whose answer
// is more than an empty map has a replay, which makes the answer again of what
// the server remembered. One whose answer must not be kept is secret.
//
// Errors are made with [errorf] and a code; any other error becomes code 1 unless
// a function given to [translate] knows better.
//
// # Adding a part of the tree
//
// A part of the tree is an [object] mounted at a path:
//
//	var _ = mountAt("//sys/operations", func(c *call) object { return operationsNode{} })
//
// Embed [bare] and implement kind, and then what the node has: child and keys for
// maps, value for documents (shape documentShape: paths then go into the value by
// themselves), attribute and attributeNames. Nodes that can be changed implement
// attributesEditor, valueEditor, parent, remover or mover, and check permissions
// there; reading is checked by the commands. For a tree that is computed there is
// [lazyMap], whose children are made when they are asked for, and [computed], a
// value as a node. Nodes below another room's mount are hooks: see [nodeOrchid].
package api
