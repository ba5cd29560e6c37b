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

// Options say which cluster to speak to, and as whom.
type Options struct {
	// Address is host:port or a URL of a server. Several servers of one cluster are
	// separated by commas.
	Address string
	// Token is the secret, empty if there is none.
	Token string
	// User is whom an administrator acts as.
	User string
	// Authority is a file with certificates to trust beside the system's.
	Authority string
	// Agent is how the client calls itself.
	Agent string
	// Patience is how long requests are repeated that reach no server. Without it each
	// server is tried once: a person waits.
	Patience time.Duration
	// Warn is told what servers say beside their answers; it may be nil.
	Warn func(warning string)
}

// Client speaks to a cluster. It may be used by several goroutines.
type Client struct {
	servers []string     // their URLs
	current atomic.Int64 // the one that answered last
	options Options
	http    *http.Client
}

// New returns a client. It does not connect yet.
func New(o Options) (*Client, error) {
	c := &Client{options: o}
	for address := range strings.SplitSeq(o.Address, ",") {
		server := strings.TrimSpace(address)
		if !strings.Contains(server, "://") {
			server = "http://" + server
		}
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q is not the address of a scheduler: want host:port or a URL like https://host:port", address)
		}
		c.servers = append(c.servers, strings.TrimRight(server, "/"))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // a scheduler is reached directly
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext
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

// Close gives idle connections back. The client may still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is one command with everything that can be said about it.
type Request struct {
	// Command is its name, such as get_operation.
	Command string
	// Parameters are a map or a struct, see ValueOf; nil if there are none.
	Parameters any
	// Input is the body of commands that have one, in YSON unless the parameter
	// input_format says otherwise.
	Input []byte
}

// Do runs any command of the API, with parameters that are a map or a struct, and returns
// its answer. Commands that have a method of their own are easier to call by it.
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

// ask runs a command and reads its answer into a struct.
func ask[T any](ctx context.Context, c *Client, command string, parameters any) (*T, error) {
	answer, err := c.Do(ctx, command, parameters)
	if err != nil {
		return nil, err
	}
	return decode[T](answer), nil
}

// Pauses between repetitions. A cluster without a leader is asked again for
// longer than it takes to find one.
const (
	firstPause     = 200 * time.Millisecond
	longestPause   = 2 * time.Second
	leaderPatience = 8 * time.Second
)

// Bytes runs a command and returns its answer as it comes: that of a command which
// returns data, or in the format of the parameter output_format.
func (c *Client) Bytes(ctx context.Context, r Request) ([]byte, error) {
	parameters, err := ValueOf(r.Parameters)
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", r.Command, err)
	}
	// A change that is repeated under its name happens once; reads do not mind.
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
		case again && tried%len(c.servers) != 0: // the next server may know better
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

// leave goes on to the next server, unless somebody has done so already.
func (c *Client) leave(at int64) { c.current.CompareAndSwap(at, (at+1)%int64(len(c.servers))) }

// patience is how long a request with this error is repeated: it may succeed a
// moment later if a leader has gone and the next is not there yet. A refusal is not.
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
	_, _ = rand.Read(random[:]) // it never fails
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
	return &Unreachable{Address: c.servers[at], Err: fmt.Errorf("the answer broke off: %w", err)}
}

// Stream runs a command and returns its answer while it comes, for answers that are
// large. Each server is asked once at most. The caller closes the answer.
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
	request, err := c.request(ctx, r, c.servers[at])
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		// What is wrong is inside: the outer part repeats method and address.
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return nil, &Unreachable{Address: c.servers[at], Err: err}
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
	method, body := http.MethodPost, parameters
	if r.Input != nil {
		method, body = http.MethodPut, r.Input
	}
	request, err := http.NewRequestWithContext(ctx, method, server+"/api/v4/"+r.Command, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-yt-yson-text")
	if r.Input != nil {
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

// tellWarnings passes on what the server says beside its answer.
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
