// Package client speaks to a scheduler over HTTP, in the dialect of package api:
// a command, a map of parameters, a value back. It knows how to find a server and
// how errors travel, and nothing about what commands mean. It imports yson only.
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
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// Options say which server to speak to, and as whom.
type Options struct {
	// Address is host:port, or a URL.
	Address string
	// Token is the secret, empty if there is none.
	Token string
	// User is whom an administrator acts as.
	User string
	// Authority is a file with certificates to trust beside the system's.
	Authority string
	// Agent is how the client calls itself.
	Agent string
	// Patience is how long requests are repeated that do not reach a server.
	// Without it the first failure is the answer: a person waits.
	Patience time.Duration
	// Warn is told what servers say beside their answers; it may be nil.
	Warn func(warning string)
}

// Client speaks to one server. It may be used by several goroutines.
type Client struct {
	base    string
	options Options
	http    *http.Client
}

// New returns a client. It does not connect yet.
func New(o Options) (*Client, error) {
	base := o.Address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	base = strings.TrimRight(base, "/")
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
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the address of a scheduler: want host:port or a URL like https://host:port", o.Address)
	}
	return &Client{base: base, options: o, http: &http.Client{Transport: transport}}, nil
}

// Address is the URL of the server.
func (c *Client) Address() string { return c.base }

// Request is one command.
type Request struct {
	Command    string
	Parameters yson.Node
	// Input is the body of commands that have one, in YSON unless the parameter
	// input_format says otherwise.
	Input []byte
	// Mutating commands may be repeated without a second effect.
	Mutating bool
}

// Execute runs a command and returns its answer.
func (c *Client) Execute(ctx context.Context, r Request) (yson.Node, error) {
	r.Parameters = r.Parameters.With("output_format", yson.String("yson").WithAttributes(yson.Pair("format", yson.String("binary"))))
	data, err := c.Raw(ctx, r)
	if err != nil || len(data) == 0 {
		return yson.Node{}, err
	}
	answer, err := yson.Parse(data)
	if err != nil {
		return yson.Node{}, fmt.Errorf("the answer to %s cannot be read: %w", r.Command, err)
	}
	return answer, nil
}

// Get returns the value at a path, with the attributes asked for.
func (c *Client) Get(ctx context.Context, path string, attributes ...string) (yson.Node, error) {
	return c.Execute(ctx, Request{Command: "get", Parameters: reading(path, attributes)})
}

// List returns the names at a path, with the attributes asked for.
func (c *Client) List(ctx context.Context, path string, attributes ...string) ([]yson.Node, error) {
	answer, err := c.Execute(ctx, Request{Command: "list", Parameters: reading(path, attributes)})
	return answer.Items(), err
}

func reading(path string, attributes []string) yson.Node {
	p := yson.Map(yson.Pair("path", yson.String(path)), yson.Pair("return_only_value", yson.Boolean(true)))
	if len(attributes) > 0 {
		names := make([]yson.Node, len(attributes))
		for i, name := range attributes {
			names[i] = yson.String(name)
		}
		p = p.With("attributes", yson.List(names...))
	}
	return p
}

// Pauses between repetitions. A server without a leader is asked again for
// longer than it takes to find one.
const (
	firstPause     = 200 * time.Millisecond
	longestPause   = 2 * time.Second
	leaderPatience = 8 * time.Second
)

// Raw runs a command and returns its answer as it comes.
func (c *Client) Raw(ctx context.Context, r Request) ([]byte, error) {
	if r.Mutating {
		r.Parameters = r.Parameters.With("mutation_id", yson.String(newMutation()))
	}
	pause, waited := firstPause, time.Duration(0)
	for {
		data, err := c.once(ctx, r)
		if err == nil || ctx.Err() != nil || waited >= c.patience(err) {
			return data, cause(ctx, err)
		}
		if r.Mutating {
			r.Parameters = r.Parameters.With("retry", yson.Boolean(true))
		}
		select {
		case <-ctx.Done():
			return nil, cause(ctx, err)
		case <-time.After(pause):
		}
		waited += pause
		pause = min(2*pause, longestPause)
	}
}

// cause prefers the end of the context to the error that it made.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// patience is how long a request with this error is repeated: it may succeed a
// moment later if a leader has gone and the next is not there yet.
func (c *Client) patience(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		if e.Has(CodeUnavailable) {
			return max(leaderPatience, c.options.Patience)
		}
		return 0
	}
	return c.options.Patience
}

func newMutation() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	part := func(i int) uint32 { return binary.LittleEndian.Uint32(random[4*i:]) }
	return fmt.Sprintf("%x-%x-%x-%x", part(0), part(1), part(2), part(3))
}

func (c *Client) once(ctx context.Context, r Request) ([]byte, error) {
	body, err := c.Stream(ctx, r)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, &Unreachable{Address: c.base, Err: fmt.Errorf("the answer broke off: %w", err)}
	}
	return data, nil
}

// Stream runs a command once and returns its answer while it comes. The caller
// closes it.
func (c *Client) Stream(ctx context.Context, r Request) (io.ReadCloser, error) {
	request, err := c.request(ctx, r)
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
		return nil, &Unreachable{Address: c.base, Err: err}
	}
	c.tellWarnings(response)
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		const mostError = 4 << 20
		data, err := io.ReadAll(io.LimitReader(response.Body, mostError))
		if err != nil {
			return nil, &Unreachable{Address: c.base, Err: fmt.Errorf("the answer broke off: %w", err)}
		}
		return nil, readError(response, data)
	}
	return response.Body, nil
}

func (c *Client) request(ctx context.Context, r Request) (*http.Request, error) {
	parameters, err := yson.Append(nil, r.Parameters, yson.Text)
	if err != nil {
		return nil, err
	}
	method, body := http.MethodPost, parameters
	if r.Input != nil {
		method, body = http.MethodPut, r.Input
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v4/"+r.Command, bytes.NewReader(body))
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
