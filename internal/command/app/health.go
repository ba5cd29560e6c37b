package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/gate"
	"github.com/weirhq/weir/internal/node/agent"
)

// health serves whether a node is alive and connected to the scheduler. A nil health serves
// nothing.
type health struct {
	listener net.Listener
	server   *http.Server // nil until it serves
	pprof    bool
	log      *slog.Logger
}

// newHealth listens at the configured address, if there is one.
func newHealth(c *config.Node, log *slog.Logger) (*health, error) {
	address, given := c.Listen.Get()
	if !given {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &health{listener: listener, pprof: c.Pprof.Value(), log: log}, nil
}

// addressOr is the address it listens at, or else the given name for the node.
func (h *health) addressOr(name string) string {
	if h == nil {
		return name
	}
	host, port, err := net.SplitHostPort(h.listener.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort(name, port)
	}
	return h.listener.Addr().String()
}

// serve answers until close. The returned function waits for the end.
func (h *health) serve(a *agent.Agent) (wait func() error) {
	if h == nil {
		return func() error { return nil }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !a.Heard() {
			http.Error(w, "the scheduler does not answer yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "the scheduler answers")
	})
	if h.pprof {
		handleProfiles(mux)
	}
	h.server = gate.NewServer(mux, nil, nil, h.log)
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(h.listener) }()
	return func() error {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

func (h *health) close() error {
	if h == nil {
		return nil
	}
	var closed error
	if h.server != nil {
		closed = h.server.Close()
	}
	err := h.listener.Close() // the server closes it only if it serves
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(closed, err)
}

// handleProfiles serves profiles of the process.
func handleProfiles(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}
