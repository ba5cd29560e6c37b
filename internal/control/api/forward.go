package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/wire"
)

// forwardedHeader marks requests that another scheduler has forwarded, so that two of them never
// forward a request back and forth.
const forwardedHeader = "X-Weir-Forwarded-By"

// forwards reports whether the leader, not this server, must answer a request. Reads also go to the
// leader, so that clients read their own writes, unless the request accepts a copy and this server
// has one. While nobody leads, the server refuses reads as well as writes: the copy may lack the
// last acknowledged changes.
func (a *API) forwards(c *call) bool {
	if a.server.Leading() || c.command.local {
		return false
	}
	if c.command.changes || !a.server.Loaded() {
		return true
	}
	from, err := c.Parameters.Text("read_from", "")
	return err != nil || from != "cache" && from != "follower"
}

// mayForward reports whether there is a leader to forward the request to.
func (a *API) mayForward(r *http.Request) bool {
	leader := a.server.Leader()
	return !a.server.Leading() && a.server.Standing() == "" && r.Header.Get(forwardedHeader) == "" && leader.Address != "" && leader.Address != a.server.Address()
}

// forward forwards a request to the leader. The leader cannot verify what this server's socket vouches for,
// so it would not know the caller.
func (a *API) forward(w http.ResponseWriter, r *http.Request, c *call, m *message) {
	if leader := a.server.Leader().Address; c.Who.Local && !a.options.TrustLoopback && leader != "" {
		a.refuse(w, wire.AsError(&auth.Unauthenticated{Cause: fmt.Errorf(
			"this scheduler stands by, and the leader, %s, does not know who uses a socket of this machine; run the command there, or use a token", leader)}))
		return
	}
	if !a.mayForward(r) {
		message := "there is no leader at the moment; try again"
		if reason := a.server.Standing(); reason != "" {
			message = "this scheduler does not lead: " + reason + "; try again"
		}
		a.refuse(w, wire.Unavailable(message))
		return
	}
	for _, name := range []string{"X-YT-Request-Id", "X-YT-Proxy", "Cache-Control"} {
		w.Header().Del(name) // the leader sets its own
	}
	if m.stream == nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(m.body)), int64(len(m.body))
	}
	a.proxy.ServeHTTP(w, r)
}

func (a *API) newProxy() *httputil.ReverseProxy {
	scheme := a.options.LeaderScheme
	if scheme == "" {
		scheme = "http"
	}
	return &httputil.ReverseProxy{
		Transport: a.options.Transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: scheme, Host: a.server.Leader().Address})
			p.Out.Header.Set(forwardedHeader, a.server.Address())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			a.log.Warn("the leader does not answer", "leader", a.server.Leader().Address, "error", err)
			a.refuse(w, wire.Unavailable("the leader does not answer; try again"))
		},
	}
}
