package metrics

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// otherCommand is the label of requests that name no existing command.
const otherCommand = "other"

// apiVersions are the prefixes of commands.
var apiVersions = []string{"/api/v4", "/api/v3"}

// requestMetrics are the metrics of the API.
type requestMetrics struct {
	count    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newRequestMetrics() requestMetrics {
	count, duration, inFlight := &Definitions[apiRequests], &Definitions[apiDuration], &Definitions[apiInFlight]
	return requestMetrics{
		count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: count.Name, Help: count.Help}, count.Labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: duration.Name, Help: duration.Help, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, duration.Labels),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: inFlight.Name, Help: inFlight.Help}),
	}
}

func (r *requestMetrics) register(registry *prometheus.Registry) {
	registry.MustRegister(r.count, r.duration, r.inFlight)
}

// Instrument measures requests to the API. The commands that the API itself lists at
// /api/v4 and /api/v3 get their own series. Instrument requests these lists once.
func (m *Metrics) Instrument(next http.Handler) http.Handler {
	known := commandsOf(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.requests.inFlight.Inc()
		defer m.requests.inFlight.Dec()
		began := time.Now()
		watched := &watchedWriter{ResponseWriter: w}
		command := commandLabel(r.URL.Path, known)
		defer func() {
			m.requests.duration.WithLabelValues(command).Observe(time.Since(began).Seconds())
			m.requests.count.WithLabelValues(command, watched.class()).Inc()
		}()
		next.ServeHTTP(watched, r)
	})
}

// commandLabel returns the command that a path names.
func commandLabel(path string, known map[string]bool) string {
	for _, prefix := range apiVersions {
		if name, ok := strings.CutPrefix(path, prefix+"/"); ok && known[name] {
			return name
		}
	}
	return otherCommand
}

// commandsOf requests the list of commands from an API, as clients do.
func commandsOf(api http.Handler) map[string]bool {
	known := map[string]bool{}
	for _, path := range apiVersions {
		r, err := http.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			continue // the path is valid
		}
		answer := &page{header: http.Header{}, code: http.StatusOK}
		api.ServeHTTP(answer, r)
		var list []struct {
			Name string `json:"name"`
		}
		if err := json.NewDecoder(bytes.NewReader(answer.body.Bytes())).Decode(&list); err != nil {
			continue // not our API: all its requests count as other
		}
		for _, command := range list {
			known[command.Name] = true
		}
	}
	return known
}

// watchedWriter records the status of a response.
type watchedWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader records the first status that is not informational.
func (w *watchedWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Flush supports streaming responses.
func (w *watchedWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap gives http.ResponseController access to the wrapped writer.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// class returns the class of the status. A response without a status is a success,
// and so is no response.
func (w *watchedWriter) class() string {
	if w.code == 0 {
		return "2xx"
	}
	return strconv.Itoa(w.code/100) + "xx"
}
