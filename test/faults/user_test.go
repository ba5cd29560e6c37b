//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/yson"
)

// gateway calls the schedulers over HTTP and records when writes are acknowledged.
type gateway struct {
	clients []*client.Client

	mutex sync.Mutex
	since time.Time      // only writes sent later count
	first chan time.Time // receives the time of the first acknowledgement
}

// newGateway speaks to schedulers with a token, if there are any.
func newGateway(t *testing.T, schedulers []*scheduler, token string) *gateway {
	g := &gateway{}
	for _, s := range schedulers {
		c, err := client.New(client.Options{Address: s.address, User: "root", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		g.clients = append(g.clients, c)
	}
	return g
}

// watch returns a channel that receives the time of the first acknowledgement of a write sent from now
// on.
func (g *gateway) watch() <-chan time.Time {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.since, g.first = time.Now(), make(chan time.Time, 1)
	return g.first
}

func (g *gateway) acknowledged(sent time.Time) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.first != nil && sent.After(g.since) {
		g.first <- time.Now()
		g.first = nil
	}
}

// command is one request.
type command struct {
	name       string
	parameters []yson.Entry
	value      *yson.Node // the body
}

// attemptTimeout is how long a request waits for its answer. A stopped leader accepts requests and does
// not answer.
const attemptTimeout = 3 * time.Second

// once sends a command once to one scheduler.
func (g *gateway) once(ctx context.Context, to int, c command, more ...yson.Entry) (yson.Node, error) {
	parameters := yson.Map(append(append([]yson.Entry{}, c.parameters...), more...)...).
		With("output_format", yson.String("yson")).With("return_only_value", yson.Boolean(true))
	request := client.Request{Command: c.name, Parameters: parameters}
	if c.value != nil {
		text, err := yson.Append(nil, *c.value, yson.Text)
		if err != nil {
			return yson.Node{}, err
		}
		request.Input = text
	}
	body, err := g.clients[to].Stream(ctx, request)
	if err != nil {
		return yson.Node{}, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return yson.Node{}, &client.Unreachable{Err: err}
	}
	if len(data) == 0 {
		return yson.Node{}, nil
	}
	return yson.Parse(data)
}

// codeQueueSize is the error code of an overloaded leader.
const codeQueueSize client.Code = 108

// refused reports whether an error is final, so that retrying is useless.
func refused(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && !errors.Is(err, client.CodeUnavailable) && !errors.Is(err, codeQueueSize)
}

// write repeats a change until it is acknowledged or refused. Repetitions have the same mutation id, so
// that the change happens once.
func (g *gateway) write(ctx context.Context, c command) (yson.Node, error) {
	mutation := yson.Pair("mutation_id", yson.String(fmt.Sprintf("%x-%x-%x-%x", rand.Uint32(), rand.Uint32(), rand.Uint32(), 1+rand.Uint32N(1<<31))))
	return g.repeat(ctx, func(attempt context.Context, to int, again bool) (yson.Node, error) {
		sent := time.Now()
		more := []yson.Entry{mutation}
		if again {
			more = append(more, yson.Pair("retry", yson.Boolean(true)))
		}
		answer, err := g.once(attempt, to, c, more...)
		if err == nil {
			g.acknowledged(sent)
		}
		return answer, err
	})
}

// read repeats a query until it is answered.
func (g *gateway) read(ctx context.Context, c command) (yson.Node, error) {
	return g.repeat(ctx, func(attempt context.Context, to int, _ bool) (yson.Node, error) { return g.once(attempt, to, c) })
}

func (g *gateway) repeat(ctx context.Context, ask func(attempt context.Context, to int, again bool) (yson.Node, error)) (yson.Node, error) {
	to := rand.IntN(len(g.clients))
	for again := false; ; again = true {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		answer, err := ask(attempt, to, again)
		cancel()
		if err == nil || refused(err) {
			return answer, err
		}
		to = (to + 1) % len(g.clients)
		select {
		case <-ctx.Done():
			return yson.Node{}, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(time.Duration(10+rand.IntN(40)) * time.Millisecond):
		}
	}
}

func get(path string) command {
	return command{name: "get", parameters: []yson.Entry{yson.Pair("path", yson.String(path))}}
}

func set(path string, value yson.Node) command {
	return command{name: "set", parameters: []yson.Entry{yson.Pair("path", yson.String(path))}, value: &value}
}

func remove(path string) command {
	return command{name: "remove", parameters: []yson.Entry{yson.Pair("path", yson.String(path))}}
}

func createPool(name, parent string, attributes ...yson.Entry) command {
	attributes = append([]yson.Entry{yson.Pair("name", yson.String(name)), yson.Pair("pool_tree", yson.String("default"))}, attributes...)
	if parent != "" {
		attributes = append(attributes, yson.Pair("parent_name", yson.String(parent)))
	}
	return command{name: "create", parameters: []yson.Entry{
		yson.Pair("type", yson.String("scheduler_pool")), yson.Pair("attributes", yson.Map(attributes...)),
	}}
}

func abortOperation(id string) command {
	return command{name: "abort_operation", parameters: []yson.Entry{yson.Pair("operation_id", yson.String(id))}}
}

func getOperation(id string, attributes ...string) command {
	names := make([]yson.Node, len(attributes))
	for i, name := range attributes {
		names[i] = yson.String(name)
	}
	return command{name: "get_operation", parameters: []yson.Entry{
		yson.Pair("operation_id", yson.String(id)), yson.Pair("attributes", yson.List(names...)),
	}}
}

// dig returns the value at a path of keys.
func dig(n yson.Node, keys ...string) (yson.Node, error) {
	for i, key := range keys {
		inner, there := n.Get(key)
		if !there {
			return yson.Node{}, fmt.Errorf("there is no %v in %v", keys[:i+1], n)
		}
		n = inner
	}
	return n, nil
}
