package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// writeFile sets the content of a file, and creates the file if it does not exist.
func writeFile(c *call) (yson.Node, error) {
	path, err := c.Parameters.Path("path")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.Missing) > 0 {
		return nothing(c.createFile(&t))
	}
	n, ok := t.Object.(*pathtree.PlainNode)
	if !ok || n.Kind() != "file" || len(t.Attribute) > 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Node %s is not a file", t.Path)
	}
	if err := c.Require(auth.Requires(auth.Write, t.Chain(c.Request))); err != nil {
		return yson.Node{}, err
	}
	return nothing(c.setContent(n.Path))
}

// createFile creates a file with its content.
func (c *call) createFile(t *pathtree.Target) error {
	if err := c.Require(auth.Requires(auth.Write, t.Chain(c.Request))); err != nil {
		return err
	}
	if _, err := c.createAt(t, pathtree.Creation{Kind: "file", Attributes: yson.Map()}); err != nil {
		return err
	}
	path := t.Place.Path()
	for _, step := range t.Missing {
		path = pathtree.JoinPath(path, step.Name)
	}
	return c.setContent(path)
}

func (c *call) setContent(path string) error {
	return c.EditRegistry(path, func(r *server.Registry) (*store.Batch, error) {
		row, there := r.PathNode(path)
		if !there || row.Type != "file" {
			return nil, wire.Errorf(wire.CodeResolve, "File %s does not exist", path)
		}
		row.Document, row.Modified = c.data, c.Now
		batch := &store.Batch{}
		batch.Put.PathNodes = []store.PathNode{row}
		return batch, nil
	})
}

func readFile(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	n, ok := t.Object.(*pathtree.PlainNode)
	if !ok || n.Kind() != "file" || len(t.Attribute) > 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Node %s is not a file", t.Path)
	}
	offset, err := c.Parameters.Integer("offset", 0)
	if err != nil {
		return yson.Node{}, err
	}
	length, err := c.Parameters.Integer("length", int64(len(n.Row.Document)))
	if err != nil {
		return yson.Node{}, err
	}
	if offset < 0 || length < 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Expected >= 0, found offset %d and length %d", offset, length)
	}
	data := n.Row.Document[min(offset, int64(len(n.Row.Document))):]
	return c.answerBytes(data[:min(length, int64(len(data)))])
}
