package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(
	command{name: "write_file", input: rawBytes, volatile: true, heavy: true, run: writeFile},
	command{name: "read_file", output: rawBytes, heavy: true, run: readFile},
)

// writeFile sets the content of a file, which is made if it is not there.
func writeFile(c *call) (yson.Node, error) {
	path, err := c.parameters.path("path")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.walk(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	if len(t.missing) > 0 {
		if _, err := c.createAt(&t, creation{kind: "file", attributes: yson.Map()}); err != nil {
			return yson.Node{}, err
		}
		if t, err = c.find(path, false); err != nil {
			return yson.Node{}, err
		}
	}
	n, ok := t.object.(*plainNode)
	if !ok || n.kind() != "file" || len(t.attribute) > 0 {
		return yson.Node{}, errorf(codeGeneric, "Node %s is not a file", t.path)
	}
	if err := c.require(auth.Requires(auth.Write, t.chain(c))); err != nil {
		return yson.Node{}, err
	}
	return nothing(c.editRegistry(n.path, func(r *server.Registry) (*store.Batch, error) {
		row, there := r.PathNode(n.path)
		if !there || row.Type != "file" {
			return nil, errorf(codeResolve, "File %s does not exist", n.path)
		}
		row.Document, row.Modified = c.data, c.now
		batch := &store.Batch{}
		batch.Put.PathNodes = []store.PathNode{row}
		return batch, nil
	}))
}

func readFile(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	n, ok := t.object.(*plainNode)
	if !ok || n.kind() != "file" || len(t.attribute) > 0 {
		return yson.Node{}, errorf(codeGeneric, "Node %s is not a file", t.path)
	}
	offset, err := c.parameters.integer("offset", 0)
	if err != nil {
		return yson.Node{}, err
	}
	length, err := c.parameters.integer("length", int64(len(n.row.Document)))
	if err != nil {
		return yson.Node{}, err
	}
	if offset < 0 || length < 0 {
		return yson.Node{}, errorf(codeGeneric, "Expected >= 0, found offset %d and length %d", offset, length)
	}
	data := n.row.Document[min(offset, int64(len(n.row.Document))):]
	return c.answerBytes(data[:min(length, int64(len(data)))])
}
