package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/server"
)

// discard is a response writer that discards the response.
type discard struct{ header http.Header }

func (d discard) Header() http.Header             { return d.header }
func (discard) WriteHeader(int)                   {}
func (discard) Write(b []byte) (int, error)       { return len(b), nil }
func (discard) WriteString(s string) (int, error) { return len(s), nil }

var _ io.StringWriter = discard{}

// BenchmarkScrape scrapes a cluster with this number of pools, three resources, and a guarantee
// for every fifth pool. It does not count the first scrape, which creates the series.
func BenchmarkScrape(b *testing.B) {
	for _, pools := range []int{200, 2000} {
		for _, encoding := range []string{"identity", "gzip"} {
			b.Run(fmt.Sprintf("pools=%d/%s", pools, encoding), func(b *testing.B) {
				handler := New(manyPools(b, pools), Options{}).Handler()
				request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
				request.Header.Set("Accept-Encoding", encoding)
				first := httptest.NewRecorder()
				handler.ServeHTTP(first, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				b.ReportAllocs()
				for b.Loop() {
					handler.ServeHTTP(discard{http.Header{}}, request)
				}
				b.ReportMetric(float64(strings.Count(first.Body.String(), "\n")), "lines")
				b.ReportMetric(float64(first.Body.Len())/(1<<20), "MiB")
			})
		}
	}
}

func manyPools(b *testing.B, count int) *server.Server {
	var text strings.Builder
	text.WriteString("pools:\n")
	for i := range count {
		more := ""
		if i%5 == 0 {
			more = ", strong_guarantee_resources: {cpu: 0.01}"
		}
		fmt.Fprintf(&text, "  pool-%d: {weight: %d%s}\n", i, 1+i%5, more)
	}
	s := newServer(b, text.String(), 3)
	await(b, s, "all pools are there", func(v *server.View) bool { return len(v.Trees) == 1 && v.Trees[0].PoolCount() == count+1 })
	// The server's updates are not part of a scrape.
	settings := s.Settings()
	settings.UpdatePeriod = time.Hour
	s.Configure(settings)
	seen := s.View()
	await(b, s, "the last update", func(v *server.View) bool { return v != seen })
	return s
}
