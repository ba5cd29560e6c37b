package api

import (
	"fmt"
	"strconv"

	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(command{name: "execute_batch", volatile: true, result: "results", run: executeBatch})

// maxBatch is how many commands one request may have.
const maxBatch = 10_000

// executeBatch runs commands one after the other. Each succeeds or fails for
// itself.
func executeBatch(c *call) (yson.Node, error) {
	requests, given := c.parameters.get("requests")
	switch {
	case !given:
		return yson.Node{}, missing("requests")
	case requests.Kind() != yson.ListKind:
		return yson.Node{}, wrongType("requests", "list", requests)
	case len(requests.Items()) > maxBatch:
		return yson.Node{}, errorf(codeGeneric, "The batch has %d requests; the most is %d", len(requests.Items()), maxBatch)
	}
	results := make([]yson.Node, len(requests.Items()))
	for i, request := range requests.Items() {
		if err := c.ctx.Err(); err != nil {
			return yson.Node{}, err
		}
		part, err := c.part(i, request)
		var n yson.Node
		if err == nil {
			n, err = part.run()
			c.warn(part.warnings)
		}
		switch {
		case err != nil:
			results[i] = yson.Map(yson.Pair("error", asError(err).node()))
		case part.command.outputIn(c.version) == noData:
			results[i] = yson.Map()
		default:
			results[i] = yson.Map(yson.Pair("output", n))
		}
	}
	return yson.List(results...), nil
}

// part is one command of a batch as a call of its own. Its mutation id is made of
// the batch's, so that a batch that is repeated after half of it was done does the
// other half.
func (c *call) part(index int, request yson.Node) (*call, error) {
	if request.Kind() != yson.MapKind {
		return nil, wrongType("requests/"+strconv.Itoa(index), "map", request)
	}
	p := parameters{request}
	name, err := p.needText("command")
	if err != nil {
		return nil, err
	}
	cmd, known := commandOf(c.version, name)
	switch {
	case !known:
		return nil, errorf(codeGeneric, "Command %q is not known", cutText(name, 100))
	case cmd == c.command || cmd.secret || cmd.output == rawBytes || cmd.output == tabular || cmd.input == rawBytes || cmd.input == tabular:
		return nil, errorf(codeGeneric, "Command %q cannot be part of a batch", name)
	}
	inner, err := p.mapping("parameters")
	if err != nil {
		return nil, err
	}
	// Users and groups may have changed since the batch began.
	subjects, _, err := c.tree.people.current(c.tree, c.now)
	if err != nil {
		return nil, err
	}
	part := &call{
		ctx: c.ctx, api: c.api, server: c.server, tree: c.tree, command: cmd, commandName: cmd.name, version: c.version, who: c.who, subjects: subjects, now: c.now,
		parameters: parameters{inner}, request: c.request, retry: c.retry,
	}
	if input, given := request.Get("input"); given {
		part.value = &input
	}
	if err := part.readMutation(); err != nil {
		return nil, err
	}
	if part.mutation == "" && c.mutation != "" {
		part.mutation = fmt.Sprintf("%s#%d", c.mutation, index)
	}
	part.retry = part.retry || c.retry
	return part, nil
}
