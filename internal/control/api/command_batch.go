package api

import (
	"fmt"
	"strconv"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// maxBatch is the most commands in one request.
const maxBatch = 10_000

// executeBatch runs commands one after the other. Each succeeds or fails on its own.
func executeBatch(c *call) (yson.Node, error) {
	requests, given := c.Parameters.Get("requests")
	switch {
	case !given:
		return yson.Node{}, wire.Missing("requests")
	case requests.Kind() != yson.ListKind:
		return yson.Node{}, wire.WrongType("requests", "list", requests)
	case len(requests.Items()) > maxBatch:
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "The batch has %d requests; the limit is %d", len(requests.Items()), maxBatch)
	}
	results := make([]yson.Node, len(requests.Items()))
	for i, request := range requests.Items() {
		if err := c.Context.Err(); err != nil {
			return yson.Node{}, err
		}
		part, err := c.part(i, request)
		var n yson.Node
		if err == nil {
			n, err = part.run()
			c.Warn(part.Warnings)
		}
		switch {
		case err != nil:
			results[i] = yson.Map(yson.Pair("error", wire.AsError(err).Node()))
		case part.command.outputIn(c.version) == noData:
			results[i] = yson.Map()
		default:
			results[i] = yson.Map(yson.Pair("output", n))
		}
	}
	return yson.List(results...), nil
}

// part makes one command of a batch a separate call. Its mutation id is derived from the batch's,
// so repeating a half-finished batch runs only the other half.
func (c *call) part(index int, request yson.Node) (*call, error) {
	if request.Kind() != yson.MapKind {
		return nil, wire.WrongType("requests/"+strconv.Itoa(index), "map", request)
	}
	p := wire.Parameters{Node: request}
	name, err := p.NeedText("command")
	if err != nil {
		return nil, err
	}
	cmd, known := c.api.commands.find(c.version, name)
	switch {
	case !known:
		return nil, wire.Errorf(wire.CodeGeneric, "Command %q is not known", wire.CutText(name, 100))
	case cmd == c.command || cmd.secret || cmd.output == rawBytes || cmd.output == tabular || cmd.input == rawBytes || cmd.input == tabular:
		return nil, wire.Errorf(wire.CodeGeneric, "Command %q cannot be part of a batch", name)
	}
	inner, err := p.Mapping("parameters")
	if err != nil {
		return nil, err
	}
	// Users and groups may have changed since the batch started.
	subjects, _, err := c.Tree.People.Current(c.Tree, c.Now)
	if err != nil {
		return nil, err
	}
	part := &call{
		Request: &pathtree.Request{
			Context: c.Context, Server: c.Server, Tree: c.Tree, Command: cmd.name, Who: c.Who, Subjects: subjects, Now: c.Now,
			Parameters: wire.Parameters{Node: cmd.declared(inner)}, ID: c.ID,
		},
		api: c.api, command: cmd, version: c.version, retry: c.retry,
	}
	if input, given := request.Get("input"); given {
		part.value = &input
	}
	if err := part.readMutation(); err != nil {
		return nil, err
	}
	if part.Mutation == "" && c.Mutation != "" {
		part.Mutation = fmt.Sprintf("%s#%d", c.Mutation, index)
	}
	part.retry = part.retry || c.retry
	return part, nil
}
