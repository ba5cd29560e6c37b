package nodeproto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Client calls the leader among several schedulers. It stays with the scheduler that answered
// last, follows a standby's hint to the leader, and tries the others if one is unreachable. A
// scheduler that was silent gets no call until it answers a probe: a standby may still name it
// and be about to lead. A request might reach more than one scheduler; the protocol allows that.
// A Client is safe for concurrent use; copies made by As share connections.
//
// Client follows a hint only from a configured scheduler, or from one that such a scheduler
// named. With TLS it also verifies the certificate of the named scheduler.
type Client struct {
	pool  *schedulerPool
	token atomic.Pointer[string]
}

// schedulerPool holds the schedulers that a client knows and which of them it prefers.
type schedulerPool struct {
	addresses []string // as configured

	mu        sync.Mutex
	scheme    string
	transport *http.Transport
	calls     map[string]nodev1.NodeServiceClient
	current   string
	silent    map[string]bool // schedulers that took long not to answer
	dial      dialFunc
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// maxAttempts bounds the attempts per call: every configured scheduler once, and as many
// hints.
func (p *schedulerPool) maxAttempts() int { return 2*len(p.addresses) + 1 }

// Pings detect that a scheduler is gone although its connection is open. A slow scheduler
// answers them; one that is stopped or cut off does not. After a lost ping the transport dials
// the same scheduler once more. All of it takes little longer than a lease, so that a node reaches
// the next leader soon after it leads.
const (
	pingAfterSilence = time.Second
	pingTimeout      = time.Second
	dialTimeout      = 1500 * time.Millisecond
	idleTimeout      = 90 * time.Second
)

// probeTimeout is how long a scheduler that was silent may take to answer a probe. Even a busy
// one answers at once.
const probeTimeout = 500 * time.Millisecond

// NewClient returns a client of the schedulers at these addresses ("host:port"). Without a TLS
// configuration it uses clear text. The token may be empty if a client certificate identifies
// the node.
func NewClient(addresses []string, tlsConfig *tls.Config, token string) (*Client, error) {
	if len(addresses) == 0 {
		return nil, errors.New("a client needs the address of a scheduler")
	}
	pool := &schedulerPool{silent: map[string]bool{}, dial: (&net.Dialer{}).DialContext}
	pool.secure(tlsConfig)
	var problems []error
	for _, address := range addresses {
		if err := checkAddress(address); err != nil {
			problems = append(problems, err)
		} else if !slices.Contains(pool.addresses, address) {
			pool.addresses = append(pool.addresses, address)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	pool.current = pool.addresses[0]
	return newClient(pool, token), nil
}

func newClient(pool *schedulerPool, token string) *Client {
	c := &Client{pool: pool}
	c.token.Store(&token)
	return c
}

// secure replaces the transport. Calls in flight end on the old one.
func (p *schedulerPool) secure(tlsConfig *tls.Config) {
	transport := &http.Transport{
		Protocols:           new(http.Protocols),
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfterSilence, PingTimeout: pingTimeout},
		DialContext:         p.connect,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
	}
	scheme := "http"
	if tlsConfig != nil {
		scheme = "https"
		transport.TLSClientConfig = tlsConfig.Clone()
		transport.Protocols.SetHTTP2(true)
	} else {
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	p.scheme, p.transport, p.calls = scheme, transport, map[string]nodev1.NodeServiceClient{}
}

// Renew replaces the TLS configuration and the token. Later calls use the new ones. Copies made by As
// share the configuration and keep their tokens.
func (c *Client) Renew(tlsConfig *tls.Config, token string) {
	c.pool.secure(tlsConfig)
	c.token.Store(&token)
}

// checkAddress returns what is wrong with a scheduler's address.
func checkAddress(address string) error {
	if strings.ContainsAny(address, "/?#@ ") {
		return fmt.Errorf("scheduler address %q: want host:port", address)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("scheduler address %q: %w", address, err)
	}
	return nil
}

// As returns a client with another token over the same connections.
func (c *Client) As(token string) *Client { return newClient(c.pool, token) }

// DialWith makes new connections by another function than that of package net. Call it before
// the first call.
func (c *Client) DialWith(dial dialFunc) { c.pool.dial = dial }

func (p *schedulerPool) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return p.dial(ctx, network, address)
}

// Close closes connections that no call uses.
func (c *Client) Close() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.pool.transport.CloseIdleConnections()
}

// Current returns the address that the next call goes to first.
func (c *Client) Current() string {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.current
}

// Register calls the leader's Register.
func (c *Client) Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	return call(ctx, c, func(ctx context.Context, scheduler nodev1.NodeServiceClient) (*nodev1.RegisterResponse, error) {
		return scheduler.Register(ctx, request)
	})
}

// Heartbeat calls the leader's Heartbeat.
func (c *Client) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	return call(ctx, c, func(ctx context.Context, scheduler nodev1.NodeServiceClient) (*nodev1.HeartbeatResponse, error) {
		return scheduler.Heartbeat(ctx, request)
	})
}

// Upload calls the leader's Upload.
func (c *Client) Upload(ctx context.Context, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	return call(ctx, c, func(ctx context.Context, scheduler nodev1.NodeServiceClient) (*nodev1.UploadResponse, error) {
		return scheduler.Upload(ctx, request)
	})
}

// FetchContent calls the leader's FetchContent.
func (c *Client) FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	return call(ctx, c, func(ctx context.Context, scheduler nodev1.NodeServiceClient) (*nodev1.FetchContentResponse, error) {
		return scheduler.FetchContent(ctx, request)
	})
}

// UploadArtifacts calls the leader's UploadArtifacts.
func (c *Client) UploadArtifacts(ctx context.Context, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error) {
	return call(ctx, c, func(ctx context.Context, scheduler nodev1.NodeServiceClient) (*nodev1.UploadArtifactsResponse, error) {
		return scheduler.UploadArtifacts(ctx, request)
	})
}

// call finds the scheduler that leads and returns its answer, or the last error.
func call[R any](ctx context.Context, c *Client, do func(context.Context, nodev1.NodeServiceClient) (*R, error)) (*R, error) {
	var tried []string
	address := c.pool.first()
	for {
		tried = append(tried, address)
		headed, info := connect.NewClientContext(ctx)
		if token := *c.token.Load(); token != "" {
			info.RequestHeader().Set("Authorization", "Bearer "+token)
		}
		began := time.Now()
		var response *R
		err := c.pool.probe(ctx, address)
		if err == nil {
			response, err = do(headed, c.pool.scheduler(address))
		}
		if err == nil {
			c.pool.answered(address)
			return response, nil
		}
		err = FromConnect(err)
		next := c.pool.after(address, err, tried, time.Since(began))
		if next == "" {
			return nil, fmt.Errorf("scheduler %s: %w", address, err)
		}
		if ctx.Err() != nil || len(tried) >= c.pool.maxAttempts() {
			c.pool.prefer(next)
			return nil, fmt.Errorf("scheduler %s: %w", address, err)
		}
		address = next
	}
}

// scheduler returns the client of one scheduler.
func (p *schedulerPool) scheduler(address string) nodev1.NodeServiceClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls[address]
	if calls == nil {
		base := url.URL{Scheme: p.scheme, Host: address}
		calls = nodev1.NewNodeServiceClient(&http.Client{Transport: p.transport}, base.String(),
			connect.WithReadMaxBytes(MaxMessageSize), connect.WithSendMaxBytes(MaxMessageSize))
		p.calls[address] = calls
	}
	return calls
}

// first returns the address that a call tries first: the current one, unless it was silent and
// another one was not.
func (p *schedulerPool) first() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent[p.current] {
		for _, address := range p.addresses {
			if !p.silent[address] {
				return address
			}
		}
	}
	return p.current
}

// probe checks whether a scheduler that was silent answers again. Any answer will do.
func (p *schedulerPool) probe(ctx context.Context, address string) error {
	p.mu.Lock()
	silent, scheme, transport := p.silent[address], p.scheme, p.transport
	p.mu.Unlock()
	if !silent {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{Scheme: scheme, Host: address, Path: "/healthz"}).String(), nil)
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("it does not answer: %w", err))
	}
	return response.Body.Close()
}

// answered makes an address the first one to try.
func (p *schedulerPool) answered(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = address
	delete(p.silent, address)
}

// prefer makes an address the first one to try.
func (p *schedulerPool) prefer(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = address
}

// after returns the address to try after an attempt that failed, empty if there is none or the
// error is a final answer. took is how long the attempt took.
func (p *schedulerPool) after(address string, err error, tried []string, took time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var notLeader *NotLeaderError
	if errors.As(err, &notLeader) {
		delete(p.silent, address)
		if leader := notLeader.Leader; leader != "" && !slices.Contains(tried, leader) && checkAddress(leader) == nil {
			return leader
		}
		return p.untried(address, tried)
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		if took >= pingAfterSilence { // one that refuses connections costs no time
			p.silent[address] = true
		}
		return p.untried(address, tried)
	case connect.CodeUnknown:
		var remote *connect.Error
		if !errors.As(err, &remote) {
			return "" // an answer of this protocol
		}
		return p.untried(address, tried)
	default:
		return ""
	}
}

// untried returns the configured address that follows the given one and has not been tried,
// empty if there is none.
func (p *schedulerPool) untried(address string, tried []string) string {
	from := slices.Index(p.addresses, address) // -1 for one that was hinted at
	for i := range p.addresses {
		next := p.addresses[(from+1+i)%len(p.addresses)]
		if !slices.Contains(tried, next) {
			return next
		}
	}
	return ""
}
