package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// Options configure a Client: which cluster it calls, and as which user.
type Options struct {
	// Address is the host:port or URL of a server, or unix: and the path of its socket.
	// Separate several servers of one cluster by commas. If empty, it is the scheduler on
	// this machine: its socket if it has one, otherwise DefaultAddress.
	Address string
	// Token authenticates the caller. It is empty if the cluster requires none.
	Token string
	// User is the user to impersonate; only administrators may set it. If empty, the
	// client acts as the owner of the token.
	User string
	// Authority is a PEM file with certificates to trust in addition to the system's.
	Authority string
	// Agent is the User-Agent header of requests.
	Agent string
	// Patience is how long to retry a request while no server can be reached. If it is
	// zero, the client tries each server once, so that a person need not wait.
	Patience time.Duration
	// Warn receives the warnings that servers attach to their answers. It may be nil.
	Warn func(warning string)
}

// Client calls the servers of a cluster. It is safe for concurrent use.
type Client struct {
	servers []server
	current atomic.Int64 // index of the server to call next
	options Options
	http    *http.Client
}

// socketScheme precedes the path of a socket in an address.
const socketScheme = "unix:"

// server is one server of a cluster.
type server struct {
	address string // as errors name it
	url     string
}

// readServer parses the address of a server. sockets collects the paths of sockets by the host name
// under which the transport knows them.
func readServer(address string, sockets map[string]string) (server, error) {
	text := strings.TrimSpace(address)
	if path, local := strings.CutPrefix(text, socketScheme); local {
		if path = strings.TrimPrefix(path, "//"); !strings.HasPrefix(path, "/") {
			return server{}, fmt.Errorf("%q is not the address of a scheduler: want an absolute path after %s", address, socketScheme)
		}
		host := fmt.Sprintf("socket-%d.localhost", len(sockets))
		sockets[net.JoinHostPort(host, "80")] = path
		return server{address: text, url: "http://" + host}, nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return server{}, fmt.Errorf("%q is not the address of a scheduler: want host:port, a URL like https://host:port, or unix:/path", address)
	}
	text = strings.TrimRight(text, "/")
	return server{address: text, url: text}, nil
}

// New returns a client. It does not send a request.
func New(o Options) (*Client, error) {
	c := &Client{options: o}
	if o.Address == "" {
		o.Address = DefaultAddress
		if local, found := LocalAddress(o.Address); found {
			o.Address = local
		}
	}
	sockets := map[string]string{}
	for address := range strings.SplitSeq(o.Address, ",") {
		s, err := readServer(address, sockets)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, s)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // connect to schedulers directly
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if path, local := sockets[address]; local {
			network, address = "unix", path
		}
		return dialer.DialContext(ctx, network, address)
	}
	if o.Authority != "" {
		pem, err := os.ReadFile(o.Authority)
		if err != nil {
			return nil, fmt.Errorf("authority: %w", err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authority: %s has no certificates", o.Authority)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	c.http = &http.Client{Transport: transport}
	return c, nil
}

// Close closes idle connections. The client remains usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is one call of an API command.
type Request struct {
	// Command is the command's name, such as get_operation.
	Command string
	// Parameters is a map or a struct as ValueOf accepts it, or nil.
	Parameters any
	// Input is the request body of commands that have one, in YSON unless the parameter
	// input_format names another format.
	Input []byte
	// About receives what the server says about the data of its answer, such as its whole
	// size. It may be nil.
	About func(Value)
	// Content is a request body that is sent as it is read, instead of Input.
	Content *Content
}

// Do runs any API command and returns its answer. The parameters are a map or a struct as
// ValueOf accepts it, or nil. Prefer a command's own method if there is one.
func (c *Client) Do(ctx context.Context, command string, parameters any) (Value, error) {
	return c.structured(ctx, Request{Command: command, Parameters: parameters})
}

func (c *Client) structured(ctx context.Context, r Request) (Value, error) {
	parameters, err := ValueOf(r.Parameters)
	if err != nil {
		return Value{}, fmt.Errorf("parameters of %s: %w", r.Command, err)
	}
	r.Parameters = parameters.node.With("output_format", yson.String("yson").WithAttributes(yson.Pair("format", yson.String("binary"))))
	data, err := c.Bytes(ctx, r)
	if err != nil || len(data) == 0 {
		return Value{}, err
	}
	answer, err := yson.Parse(data)
	if err != nil {
		return Value{}, fmt.Errorf("the answer to %s cannot be read: %w", r.Command, err)
	}
	return Value{answer}, nil
}

// ask runs a command and decodes its answer.
func ask[T any](ctx context.Context, c *Client, command string, parameters any) (*T, error) {
	answer, err := c.Do(ctx, command, parameters)
	if err != nil {
		return nil, err
	}
	return decode[T](answer), nil
}

// Pauses between retries. While a cluster has no leader, requests are retried for longer
// than an election takes.
const (
	firstPause     = 200 * time.Millisecond
	longestPause   = 2 * time.Second
	leaderPatience = 8 * time.Second
)

// Bytes runs a command and returns the body of the answer unchanged: the data of a command
// that returns data, otherwise a value in the format that output_format names. It retries
// as Options.Patience states.
func (c *Client) Bytes(ctx context.Context, r Request) ([]byte, error) {
	parameters, err := ValueOf(r.Parameters)
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", r.Command, err)
	}
	// The mutation id makes retries of a change safe; reads ignore it.
	named := parameters.node.With("mutation_id", yson.String(newMutation()))
	pause, waited := firstPause, time.Duration(0)
	for tried := 1; ; tried++ {
		r.Parameters = named
		at := c.current.Load()
		data, err := c.once(ctx, r, at)
		switch patience, again := c.patience(err); {
		case err == nil:
			return data, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case again && tried%len(c.servers) != 0: // try the next server at once
		case waited >= patience:
			return nil, err
		default:
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(pause):
			}
			waited += pause
			pause = min(2*pause, longestPause)
		}
		c.leave(at)
		named = named.With("retry", yson.Boolean(true))
	}
}

// leave switches from server at to the next one, unless another goroutine already has.
func (c *Client) leave(at int64) { c.current.CompareAndSwap(at, (at+1)%int64(len(c.servers))) }

// patience returns how long to retry a request that failed with err, and whether to retry
// it: it may succeed once a new leader is elected. Refusals are not retried.
func (c *Client) patience(err error) (patience time.Duration, again bool) {
	var away *Unreachable
	switch {
	case errors.Is(err, CodeUnavailable):
		return max(leaderPatience, c.options.Patience), true
	case errors.As(err, &away):
		return c.options.Patience, true
	}
	return 0, false
}

func newMutation() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	part := func(i int) uint32 { return binary.LittleEndian.Uint32(random[4*i:]) }
	return fmt.Sprintf("%x-%x-%x-%x", part(0), part(1), part(2), part(3))
}

func (c *Client) once(ctx context.Context, r Request, at int64) ([]byte, error) {
	body, err := c.open(ctx, r, at)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, c.brokeOff(at, err)
	}
	return data, nil
}

func (c *Client) brokeOff(at int64, err error) error {
	return &Unreachable{Address: c.servers[at].address, Err: fmt.Errorf("the answer broke off: %w", err)}
}

// Stream runs a command and returns the body of the answer as a stream, for large answers.
// It tries each server at most once. The caller must close the stream.
func (c *Client) Stream(ctx context.Context, r Request) (io.ReadCloser, error) {
	for tried := 1; ; tried++ {
		at := c.current.Load()
		body, err := c.open(ctx, r, at)
		var away *Unreachable
		if ctx.Err() != nil || !errors.As(err, &away) || tried == len(c.servers) {
			return body, err
		}
		c.leave(at)
	}
}

// open sends a request to one server and returns the answer.
func (c *Client) open(ctx context.Context, r Request, at int64) (io.ReadCloser, error) {
	request, err := c.request(ctx, r, c.servers[at].url)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		// Keep the cause only: url.Error repeats the method and the address.
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return nil, &Unreachable{Address: c.servers[at].address, Err: err}
	}
	c.tellWarnings(response)
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		const mostError = 4 << 20
		data, err := io.ReadAll(io.LimitReader(response.Body, mostError))
		if err != nil {
			return nil, c.brokeOff(at, err)
		}
		return nil, readError(response, data)
	}
	if text := response.Header.Get("X-YT-Response-Parameters"); text != "" && r.About != nil {
		if about, err := yson.Parse([]byte(text)); err == nil {
			r.About(Value{about})
		}
	}
	return response.Body, nil
}

func (c *Client) request(ctx context.Context, r Request, server string) (*http.Request, error) {
	given, err := ValueOf(r.Parameters)
	if err != nil {
		return nil, err
	}
	if given.IsNull() {
		given = Value{yson.Map()}
	}
	parameters, err := yson.Append(nil, given.node, yson.Text)
	if err != nil {
		return nil, err
	}
	method, body := http.MethodPost, io.Reader(bytes.NewReader(parameters))
	switch {
	case r.Content != nil:
		method = http.MethodPut
		if body, err = r.Content.Open(); err != nil {
			return nil, err
		}
	case r.Input != nil:
		method, body = http.MethodPut, bytes.NewReader(r.Input)
	}
	request, err := http.NewRequestWithContext(ctx, method, server+"/api/v4/"+r.Command, body)
	if err != nil {
		return nil, err
	}
	if r.Content != nil {
		request.ContentLength = r.Content.Size
	}
	request.Header.Set("Content-Type", "application/x-yt-yson-text")
	if method == http.MethodPut {
		request.Header.Set("X-YT-Header-Format", "<format=text>yson")
		request.Header.Set("X-YT-Parameters", string(parameters))
	}
	if c.options.Token != "" {
		request.Header.Set("Authorization", "OAuth "+c.options.Token)
	}
	if c.options.User != "" {
		request.Header.Set("X-YT-User-Name", c.options.User)
	}
	if c.options.Agent != "" {
		request.Header.Set("User-Agent", c.options.Agent)
	}
	return request, nil
}

// tellWarnings passes the server's warnings to Options.Warn.
func (c *Client) tellWarnings(response *http.Response) {
	text := response.Header.Get("X-Weir-Warnings")
	if text == "" || c.options.Warn == nil {
		return
	}
	list, err := yson.ParseJSON([]byte(text), yson.JSONOptions{UTF8: true})
	if err != nil {
		return
	}
	for _, item := range list.Items() {
		if warning, ok := item.Text(); ok {
			c.options.Warn(warning)
		}
	}
}
