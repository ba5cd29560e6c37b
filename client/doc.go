// Package client is the Go door to a Weir cluster: it starts operations and waits for
// them, reads jobs, pools, nodes and the log of decisions, and changes what may be
// changed. The weir command line is built on it.
//
//	c, err := client.New(client.Options{Address: "127.0.0.1:7070", Token: os.Getenv("WEIR_TOKEN")})
//	if err != nil {
//		return err
//	}
//	id, err := c.StartOperation(ctx, client.Vanilla, map[string]any{
//		"pool":  "research",
//		"tasks": map[string]any{"main": map[string]any{"command": "echo hello", "job_count": 1, "cpu_limit": 1.0}},
//	})
//	if err != nil {
//		return err
//	}
//	operation, err := c.WaitOperation(ctx, id)
//	if err != nil {
//		return err
//	}
//	return operation.Err() // nil if it completed
//
// # What comes back
//
// Answers are plain structs: instants are time.Time, lengths of time time.Duration,
// amounts float64 in the units that their comments name. A struct has the fields that
// programs ask for most; its field Raw is the whole answer. Lists come as pages
// (ListOperations) and as iterators over all pages (Operations).
//
// # What goes in
//
// Specifications, attributes and parameters of Do are open-ended, so they have the type
// any. Give maps, slices, numbers, strings, a Value, or structs of your own: ValueOf has
// the rules.
//
// # Several servers
//
// Options.Address may name several servers of one cluster. Any of them answers: one that
// does not lead passes requests on to the leader. A server that cannot be reached, or
// knows no leader, makes the client go to the next one, and stay there.
//
// Every request has a name of its own, so a change that was sent twice happens once.
//
// # Errors
//
// A refusal is an *Error with code, message, attributes and the errors below it; no
// answer at all is an *Unreachable. Codes are errors too:
//
//	if errors.Is(err, client.CodeNoOperation) { … }
//
// The package imports only notations and paths of internal/value, and no exported name
// shows them.
package client
