// Package client is the Go client for a Weir cluster. It starts operations and waits for
// them; reads jobs, pools, nodes and the event log; and changes pools, nodes and running
// operations. The weir command line is built on it.
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
// # Results
//
// Results are plain structs. Instants are time.Time, durations are time.Duration, and
// amounts are float64 in the units stated in the field comments. A struct has the fields
// that programs use most; its Raw field holds the whole answer. Lists are available page
// by page (ListOperations) and as iterators over all pages (Operations).
//
// # Parameters
//
// Specifications, attributes and the parameters of Do are open-ended, so their type is
// any. Pass maps, slices, numbers, strings, a Value or your own structs; ValueOf states
// the rules.
//
// # Several servers
//
// Options.Address may list several servers of one cluster. Any server can answer: a
// standby forwards requests to the leader. If a server is unreachable or knows no leader,
// the client switches to the next one and keeps using that one.
//
// Do, Bytes and the methods built on them send a unique mutation id with every request,
// so the cluster applies a repeated change only once.
//
// # Errors
//
// If the server refuses a request, the error is an *Error with a code, a message,
// attributes and inner errors. If no server answers, it is an *Unreachable. Codes are
// errors too:
//
//	if errors.Is(err, client.CodeNoOperation) { … }
//
// The package imports only yson and ypath from internal/value, and its exported names do
// not expose them.
package client
