package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/api"
	"github.com/weirhq/weir/internal/control/gate"
	"github.com/weirhq/weir/internal/control/metrics"
	"github.com/weirhq/weir/internal/control/web"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/node/nodeproto"
)

// handler serves all HTTP paths of the scheduler.
func (s *Scheduler) handler(c *config.Scheduler, registries *image.Registries) http.Handler {
	mux := http.NewServeMux()
	scheme := "http"
	if c.TLS.Certificate.IsSet() || c.TLS.SelfSigned.Value() {
		scheme = "https"
	}
	measured := metrics.New(s.Server, metrics.Options{Version: s.version, Notifier: s.notifier, Kube: s.kubeCounts()})
	limits := limitsOf(&c.Overload)
	answers := api.New(s.Server, api.Options{
		Version: s.version, Log: s.log, LeaderScheme: scheme, CheckConfig: s.checkPatch, Budget: gate.NewBudget(limits),
		TrustLoopback: c.TrustLoopback.Value(), Key: s.Key, Notifier: s.notifier, Images: registries, Review: s.review(), Pods: s.pods(),
	})
	s.mayUse = answers.MayUse
	figures := measured.Handler()
	if !c.OpenMetrics.Value() {
		figures = answers.ReadersOnly(figures)
	}
	mux.Handle("GET /metrics", figures)
	dialect := measured.Instrument(answers)
	for _, prefix := range []string{"/api", "/api/", "/hosts", "/auth/", "/ping", "/version", "/service"} {
		mux.Handle(prefix, dialect)
	}
	mux.Handle("/", web.Handler(s.version))
	known := nodeproto.EitherOf{nodeproto.Certificates{}, nodeTokens{answers.Identify}}
	// Nodes have a separate budget, so that users cannot use up the memory for heartbeats.
	mux.Handle(nodeproto.NewHandler(s.Server.NodeService(), known, nodeIntake(gate.NewBudget(limits))))
	if c.Kubernetes.Enabled.Value() {
		newPodFiles(s.Server).register(mux)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	if c.Pprof.Value() {
		handleProfiles(mux)
	}
	return mux
}

// limitsOf returns the limits on the memory of requests.
func limitsOf(c *config.Overload) gate.Limits {
	return gate.Limits{Total: c.BytesInFlight.Or(gate.DefaultLimits.Total), Caller: c.BytesPerCaller.Or(gate.DefaultLimits.Caller)}
}

// ready reports whether this server accepts requests: as a leader, or as a standby that knows one.
// A scheduler whose store does not answer reports that. The header Weir-Epoch has the epoch of a leader.
func (s *Scheduler) ready(w http.ResponseWriter, _ *http.Request) {
	leader, standing := s.Server.Leader(), s.Server.Standing()
	switch {
	case s.Server.Leading():
		w.Header().Set("Weir-Epoch", fmt.Sprint(leader.Epoch))
		fmt.Fprintln(w, "leading")
		if held := s.Server.HeldBackText(); held != "" {
			fmt.Fprintln(w, held)
		}
	case standing != "":
		http.Error(w, "standing by: "+standing, http.StatusServiceUnavailable)
	case leader.Address == s.Server.Address():
		http.Error(w, "taking over", http.StatusServiceUnavailable)
	case leader.Address != "":
		fmt.Fprintln(w, "standing by; leader:", leader.Address)
	default:
		http.Error(w, "there is no leader yet", http.StatusServiceUnavailable)
	}
}

// withPassword inserts the password from a file into the address of a database.
func withPassword(address, file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("store_password_file: %w", err)
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("store: the address cannot be read") // the error would repeat it
	}
	u.User = url.UserPassword(u.User.Username(), strings.TrimSpace(string(data)))
	return u.String(), nil
}
