package client

import (
	"context"

	"github.com/weirhq/weir/internal/value/yson"
)

// The tree of paths holds pools, nodes, users and documents, as YTsaurus has them:
// //sys/pools/research/@weight is an attribute of a pool.

// ReadOptions say how much of a path to read.
type ReadOptions struct {
	// Attributes to return with each value.
	Attributes []string `yson:"attributes"`
	// Fields of parts of the live state to return, instead of all.
	Fields []string `yson:"fields"`
	// MaxSize is the most children to return; 0 means as many as the server likes.
	MaxSize int64 `yson:"max_size"`
}

type readParameters struct {
	Path string `yson:"path"`
	Only bool   `yson:"return_only_value"`
}

// Get returns what is at a path, with everything below it.
func (c *Client) Get(ctx context.Context, path string, o ReadOptions) (Value, error) {
	return c.read(ctx, "get", path, o)
}

// List returns the names at a path; each has the attributes that were asked for.
func (c *Client) List(ctx context.Context, path string, o ReadOptions) ([]Value, error) {
	answer, err := c.read(ctx, "list", path, o)
	return answer.Items(), err
}

// Exists says whether there is something at a path.
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

// merged is the entries of several structs as one map.
func merged(parts ...any) Value {
	var entries []yson.Entry
	for _, part := range parts {
		if value, err := ValueOf(part); err == nil { // our own structs always can be encoded
			entries = append(entries, value.node.Entries()...)
		}
	}
	return Value{yson.Map(entries...)}
}

// WriteOptions say how to change a path.
type WriteOptions struct {
	// Recursive makes nodes that are missing on the way; Remove takes nodes that have
	// children.
	Recursive bool `yson:"recursive"`
	// Force replaces what is there; Remove does not mind if nothing is.
	Force bool `yson:"force"`
	// IgnoreExisting does nothing if there is something already.
	IgnoreExisting bool `yson:"ignore_existing"`
}

// Set makes a value be at a path: an attribute, or a node.
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

// Create makes an object of a type and returns its id. Objects that have a name instead of
// a path, such as scheduler_pool and user, take an empty path and their attribute name.
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

// orNil is nil for null, so that a parameter is left out.
func (v Value) orNil() *Value {
	if v.IsNull() {
		return nil
	}
	return &v
}

// Remove removes a node, or an attribute.
func (c *Client) Remove(ctx context.Context, path string, o WriteOptions) error {
	_, err := c.Do(ctx, "remove", merged(pathParameter{path}, o))
	return err
}

// Copy copies a node with everything below it and returns the id of the copy.
func (c *Client) Copy(ctx context.Context, source, destination string, o WriteOptions) (id string, err error) {
	answer, err := c.Do(ctx, "copy", merged(transplant{source, destination}, o))
	return firstText(answer), err
}

// Move moves or renames a node and returns its id; a pool gets another parent.
func (c *Client) Move(ctx context.Context, source, destination string, o WriteOptions) (id string, err error) {
	answer, err := c.Do(ctx, "move", merged(transplant{source, destination}, o))
	return firstText(answer), err
}

type transplant struct {
	Source      string `yson:"source_path"`
	Destination string `yson:"destination_path"`
}

// Link makes a node that leads to another one and returns its id.
func (c *Client) Link(ctx context.Context, target, link string, o WriteOptions) (id string, err error) {
	answer, err := c.Do(ctx, "link", merged(struct {
		Target string `yson:"target_path"`
		Link   string `yson:"link_path"`
	}{target, link}, o))
	return firstText(answer), err
}

// CurrentUser is the user as whom the client acts.
func (c *Client) CurrentUser(ctx context.Context) (string, error) {
	answer, err := c.Do(ctx, "get_current_user", nil)
	return firstText(answer), err
}
