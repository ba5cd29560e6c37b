package metrics

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirhq/weir/internal/control/notify"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/node/kube"
)

// DefaultMaxPools is the default number of pools that are shown one by one.
const DefaultMaxPools = 2000

var goVersion = runtime.Version()

// Options configure metrics.
type Options struct {
	// Version is the version of this program.
	Version string
	// MaxPools is the number of pools, in all trees together, that are shown one by
	// one; zero means [DefaultMaxPools]. The rest of each tree is summed up as
	// [Others].
	MaxPools int
	// Notifier delivers notifications; nil means that there are no targets.
	Notifier *notify.Notifier
	// Kube returns the figures of the driver of a Kubernetes cluster; nil means that there is none.
	Kube func() kube.Counts
}

// Metrics are the metrics of one scheduler. Its methods may be called from any
// goroutine.
type Metrics struct {
	server   *server.Server
	maxPools int
	registry *prometheus.Registry
	requests requestMetrics

	mutex    sync.Mutex // held while a page is built
	cluster  *cluster
	board    poolBoard
	promises map[string]*promises
}

// New returns the metrics of a server.
func New(s *server.Server, o Options) *Metrics {
	m := &Metrics{
		server: s, maxPools: cmp.Or(o.MaxPools, DefaultMaxPools), registry: prometheus.NewRegistry(),
		cluster: newCluster(s, o.Version), requests: newRequestMetrics(), promises: map[string]*promises{},
	}
	m.cluster.notifier, m.cluster.kube = o.Notifier, o.Kube
	m.registry.MustRegister(m.cluster, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.requests.register(m.registry)
	return m
}

// Handler returns the metrics page of a server whose API is not measured.
func Handler(s *server.Server, version string) http.Handler {
	return New(s, Options{Version: version}).Handler()
}

// gatherer gathers into memory that the next call reuses.
type gatherer Metrics

// Gather returns all metrics, sorted by name. They may be read until done is called.
func (g *gatherer) Gather() (families []*dto.MetricFamily, done func(), err error) {
	m := (*Metrics)(g)
	m.mutex.Lock()
	m.cluster.trees = m.readTrees()
	families, err = m.registry.Gather()
	m.board.refresh(m.server, m.cluster.trees)
	for _, family := range m.board.families[poolInfo:] {
		if len(family.Metric) > 0 {
			families = append(families, family)
		}
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families, m.mutex.Unlock, err
}

// readTrees reads what the last update published, and chooses which pools to show. A
// standby has no shares to show.
func (m *Metrics) readTrees() []poolTree {
	if !m.server.Leading() {
		return nil
	}
	view, configs, nodes := m.server.View(), m.server.Trees(), m.server.Nodes()
	trees := make([]poolTree, 0, len(view.Trees))
	before := m.promises
	m.promises = make(map[string]*promises, len(before))
	for _, tree := range view.Trees {
		t := poolTreeOf(tree)
		if config, there := configs.Find(t.name); there {
			t.config = config.Tree
			t.promises = promisesOf(before[t.name], t.name, t.config, t.total, nodes)
			m.promises[t.name] = t.promises
		}
		trees = append(trees, t)
	}
	choose(trees, m.maxPools)
	return trees
}

// Handler returns the page for Prometheus.
func (m *Metrics) Handler() http.Handler {
	pages := promhttp.HandlerForTransactional((*gatherer)(m), promhttp.HandlerOpts{
		// The page is compressed below, when other pages can already be built.
		DisableCompression: true,
	})
	buffers := sync.Pool{New: func() any { return &page{} }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := buffers.Get().(*page)
		defer buffers.Put(p)
		p.header, p.code = w.Header(), http.StatusOK
		p.body.Reset()
		pages.ServeHTTP(p, r)
		p.header = nil
		p.send(w, r)
	})
}

// page is a response in memory: a client that reads slowly must not block the others.
type page struct {
	header http.Header
	code   int
	body   bytes.Buffer
	packed *gzip.Writer // reused, because creating one costs more than using it
}

// Header returns the response's header.
func (p *page) Header() http.Header { return p.header }

// WriteHeader sets the status.
func (p *page) WriteHeader(code int) { p.code = code }

// Write appends to the body.
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// send writes the page, compressed if the client accepts it. Write errors mean that
// the client has gone.
func (p *page) send(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(p.code)
		_, _ = w.Write(p.body.Bytes())
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(p.code)
	if p.packed == nil {
		p.packed, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	}
	p.packed.Reset(w)
	_, _ = p.packed.Write(p.body.Bytes())
	_ = p.packed.Close()
	p.packed.Reset(nil)
}
