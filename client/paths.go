package client

import (
	"context"

	"github.com/weirhq/weir/internal/value/yson"
)

// As in YTsaurus, a tree of paths holds pools, nodes, users and documents. For example,
// //sys/pools/research/@weight is an attribute of a pool.

// ReadOptions select how much to read at a path.
type ReadOptions struct {
	// Attributes are the attributes to return with each value.
	Attributes []string `yson:"attributes"`
	// Fields are the fields of pools and operations to return when reading the live
	// state; empty means all.
	Fields []string `yson:"fields"`
	// MaxSize is the greatest number of children to return; zero means all.
	MaxSize int64 `yson:"max_size"`
}

type readParameters struct {
	Path string `yson:"path"`
	Only bool   `yson:"return_only_value"`
}

// Get returns the value at a path, including its children.
func (c *Client) Get(ctx context.Context, path string, o ReadOptions) (Value, error) {
	return c.read(ctx, "get", path, o)
}

// List returns the names of the children at a path, with the requested attributes.
func (c *Client) List(ctx context.Context, path string, o ReadOptions) ([]Value, error) {
	answer, err := c.read(ctx, "list", path, o)
	return answer.Items(), err
}

// Exists reports whether a path exists.
func (c *Client) Exists(ctx context.Context, path string) (bool, error) {
	answer, err := c.read(ctx, "exists", path, ReadOptions{})
	if wrapped := answer.Get("value"); !wrapped.IsNull() {
		answer = wrapped
	}
	there, _ := answer.Bool()
	return there, err
}

func (c *Client) read(ctx context.Context, command, path string, o ReadOptions) (Value, error) {
	return c.Do(ctx, command, merged(readParameters{path, true}, o))
}

// merged returns one map with the entries of several structs.
func merged(parts ...any) Value {
	var entries []yson.Entry
	for _, part := range parts {
		if value, err := ValueOf(part); err == nil { // our own structs can always be encoded
			entries = append(entries, value.node.Entries()...)
		}
	}
	return Value{yson.Map(entries...)}
}

// WriteOptions control how a command changes a path.
type WriteOptions struct {
	// Recursive creates missing parent nodes. With Remove, it also removes the node's
	// children.
	Recursive bool `yson:"recursive"`
	// Force replaces an existing node. With Remove, a missing node is not an error.
	Force bool `yson:"force"`
	// IgnoreExisting leaves an existing node unchanged and reports no error.
	IgnoreExisting bool `yson:"ignore_existing"`
}

// Set sets the value of a node or an attribute.
func (c *Client) Set(ctx context.Context, path string, value any, o WriteOptions) error {
	given, err := ValueOf(value)
	if err != nil {
		return err
	}
	body, err := yson.Append(nil, given.node, yson.Binary)
	if err != nil {
		return err
	}
	_, err = c.structured(ctx, Request{Command: "set", Input: body, Parameters: merged(pathParameter{path}, o)})
	return err
}

type pathParameter struct {
	Path string `yson:"path"`
}

// Create creates an object of the given type and returns its id. Objects with a name
// instead of a path, such as scheduler_pool and user, need an empty path and the attribute
// name.
func (c *Client) Create(ctx context.Context, kind, path string, attributes any, o WriteOptions) (id string, err error) {
	given, err := ValueOf(attributes)
	if err != nil {
		return "", err
	}
	answer, err := c.Do(ctx, "create", merged(struct {
		Type       string `yson:"type"`
		Path       string `yson:"path"`
		Attributes *Value `yson:"attributes"`
	}{kind, path, given.orNil()}, o))
	return firstText(answer), err
}

// orNil returns nil for null, so that the parameter is omitted.
func (v Value) orNil() *Value {
	if v.IsNull() {
		return nil
	}
	return &v
}

// Remove removes a node or an attribute.
func (c *Client) Remove(ctx context.Context, path string, o WriteOptions) error {
	_, err := c.Do(ctx, "remove", merged(pathParameter{path}, o))
	return err
}

// Copy copies a node with its children and returns the id of the copy.
func (c *Client) Copy(ctx context.Context, source, destination string, o WriteOptions) (id string, err error) {
	answer, err := c.Do(ctx, "copy", merged(transplant{source, destination}, o))
	return firstText(answer), err
}

// Move moves or renames a node and returns its id. Moving a pool changes its parent.
func (c *Client) Move(ctx context.Context, source, destination string, o WriteOptions) (id string, err error) {
	answer, err := c.Do(ctx, "move", merged(transplant{source, destination}, o))
	return firstText(answer), err
}

type transplant struct {
	Source      string `yson:"source_path"`
	Destination string `yson:"destination_path"`
}

// Link creates a link to a node and returns the id of the link.
func (c *Client) Link(ctx context.Context, target, link string, o WriteOptions) (id string, err error) {
	answer, err := c.Do(ctx, "link", merged(struct {
		Target string `yson:"target_path"`
		Link   string `yson:"link_path"`
	}{target, link}, o))
	return firstText(answer), err
}

// CurrentUser returns the name of the user that the client acts as.
func (c *Client) CurrentUser(ctx context.Context) (string, error) {
	answer, err := c.Do(ctx, "get_current_user", nil)
	return firstText(answer), err
}
