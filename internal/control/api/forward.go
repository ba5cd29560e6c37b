package api

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/weirhq/weir/internal/control/wire"
)

// forwardedHeader marks requests that another scheduler has passed on, so that
// two of them never play ball.
const forwardedHeader = "X-Weir-Forwarded-By"

// forwards says whether a request is for the leader and not for this server.
// Reads go to the leader too, so that everybody reads what they wrote, unless
// they say that a copy will do, and there is one. While nobody leads, a read is refused
// as a write is: the copy may lack what was acknowledged last.
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

// mayForward says whether there is a leader to whom the request can go.
func (a *API) mayForward(r *http.Request) bool {
	leader := a.server.Leader()
	return !a.server.Leading() && a.server.Standing() == "" && r.Header.Get(forwardedHeader) == "" && leader.Address != "" && leader.Address != a.server.Address()
}

// forward passes a request on to the leader.
func (a *API) forward(w http.ResponseWriter, r *http.Request, m *message) {
	if !a.mayForward(r) {
		message := "nobody leads at the moment; try again"
		if reason := a.server.Standing(); reason != "" {
			message = "this scheduler does not lead: " + reason + "; try again"
		}
		a.refuse(w, wire.Unavailable(message))
		return
	}
	for _, name := range []string{"X-YT-Request-Id", "X-YT-Proxy", "Cache-Control"} {
		w.Header().Del(name) // the leader sets its own
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(m.body)), int64(len(m.body))
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
