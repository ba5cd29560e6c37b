package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	live "github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
)

// patientPools is manyPools with the periods of a real server, except for the update period.
func patientPools(b *testing.B, update time.Duration) *cluster {
	c := manyPools(b)
	settings := server.DefaultSettings()
	settings.UpdatePeriod, settings.LeaseTTL = update, time.Minute // other processes may delay renewals
	c.Configure(settings)
	return c
}

// counter is a response writer that only counts bytes.
type counter struct {
	header http.Header
	status int
	size   int
}

func (c *counter) Header() http.Header    { return c.header }
func (c *counter) WriteHeader(status int) { c.status = status }
func (c *counter) Write(data []byte) (int, error) {
	c.size += len(data)
	return len(data), nil
}

// measure runs a command and returns the length of the answer.
func measure(b *testing.B, h http.Handler, command string, header http.Header, body string) int {
	request := httptest.NewRequest(http.MethodPut, "/api/v4/"+command, strings.NewReader(body))
	request.Header, request.RemoteAddr, request.Host = header, "127.0.0.1:1", "localhost:80"
	w := &counter{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(w, request)
	if w.status != http.StatusOK {
		b.Fatalf("%s: %d %v", command, w.status, w.header)
	}
	return w.size
}

// processorTime returns the processor time that the process has used. On a busy machine it is a
// better measure than elapsed time.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkSetOfMany changes one of ten thousand pools.
func BenchmarkSetOfMany(b *testing.B) {
	h := handlerOf(patientPools(b, time.Second))
	header := http.Header{"X-Yt-Header-Format": {"<format=text>yson"}, "X-Yt-Parameters": {`{path="//sys/pools/p50/p50-50/@weight"}`}}
	b.ReportAllocs()
	began := processorTime(b)
	for i := 0; b.Loop(); i++ {
		measure(b, h, "set", header, fmt.Sprint(i%100+1))
	}
	b.ReportMetric(float64((processorTime(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// BenchmarkWholeTree reads all of ten thousand pools in the ways that clients do. "Fresh" means
// the first reader after an update; later readers share its work.
func BenchmarkWholeTree(b *testing.B) {
	c := patientPools(b, time.Hour)
	h := handlerOf(c)
	const (
		orchid    = "//sys/scheduler/orchid/scheduler/pool_trees/default/pools"
		oldOrchid = "//sys/scheduler/orchid/scheduler/scheduling_info_per_pool_tree/default/fair_share_info/pools"
		shown     = `fields=[parent;mode;weight;is_ephemeral;running_operation_count;operation_count;resource_usage;resource_demand;` +
			`usage_share;demand_share;detailed_fair_share;strong_guarantee_resources;integral_guarantee_type;` +
			`accumulated_resource_ratio_volume;starvation_status;satisfaction_ratio]`
	)
	for _, bench := range []struct{ name, command, parameters, accept string }{
		{"orchid/json", "get", `{path="` + orchid + `"}`, "application/json"},
		{"orchid/text", "get", `{path="` + orchid + `"}`, "application/x-yt-yson-text"},
		{"orchid/binary", "get", `{path="` + orchid + `"}`, "application/x-yt-yson-binary"},
		{"old orchid/json", "get", `{path="` + oldOrchid + `"}`, "application/json"},
		{"weir pools/binary", "get", `{path="` + orchid + `";` + shown + `}`, "application/x-yt-yson-binary"},
		{"list with attributes/json", "list", `{path="//sys/pool_trees/default/p50";attributes=[weight;mode;strong_guarantee_resources;name;id]}`, "application/json"},
		{"get with attributes/json", "get", `{path="//sys/pool_trees/default";attributes=[weight;mode;strong_guarantee_resources;name;id]}`, "application/json"},
		{"get/json", "get", `{path="//sys/pool_trees/default"}`, "application/json"},
	} {
		header := http.Header{"X-Yt-Header-Format": {"<format=text>yson"}, "X-Yt-Parameters": {bench.parameters}, "Accept": {bench.accept}}
		for _, fresh := range []bool{true, false} {
			name := bench.name + "/shared"
			if fresh {
				name = bench.name + "/fresh"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				size, began := 0, processorTime(b)
				for b.Loop() {
					if fresh {
						b.StopTimer()
						live.Forget(c.Server)
						b.StartTimer()
					}
					size = measure(b, h, bench.command, header, "")
				}
				b.ReportMetric(float64(size)/1e6, "MB")
				b.ReportMetric(float64((processorTime(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
