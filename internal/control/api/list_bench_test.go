package api

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// The operations of these benchmarks, archived and live, and the numbers of their pools and
// users.
const (
	listedArchive = 47_000
	listedLive    = 3_000
	listedPools   = 200
	listedUsers   = 50
)

// withOperations returns a server with 50,000 operations.
func withOperations(b *testing.B) *cluster {
	directory := b.TempDir()
	archive(b, directory)
	c := startCluster(b, directory)
	settings := server.DefaultSettings()
	settings.UpdatePeriod, settings.LeaseTTL = time.Second, time.Minute
	settings.RetentionPeriod = time.Hour
	c.Configure(settings)
	var pools []document.Entry
	for i := range listedPools {
		pools = append(pools, document.Pair(fmt.Sprint("p", i), document.Map()))
	}
	tree, _, err := pooltree.FromValue(document.Map(document.Pair("pools", document.Map(pools...))), pooltree.Options{})
	if err == nil {
		err = c.EditTrees(b.Context(), server.Caller{User: "root", Command: "test"}, func(trees *server.Trees) (*server.Trees, error) {
			next := trees.Put("default", tree)
			next.Default = "default"
			return next, nil
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	var users sync.WaitGroup
	for w := range 16 {
		users.Go(func() {
			for i := w; i < listedLive; i += 16 {
				text := fmt.Sprintf("{title: report %d, pool: p%d, tasks: {t: {job_count: 10, command: 'true', cpu_limit: 1, memory_limit: 1GiB}}}", i, i%listedPools)
				var spec *operation.Specification
				v, err := notation.ParseYAML("", []byte(text))
				if err == nil {
					spec, err = operation.Read(v, operation.ReadOptions{})
				}
				if err == nil {
					_, err = c.StartOperation(b.Context(), server.Caller{User: "root", Command: "test"}, server.Start{Type: "vanilla", User: userOf(i), Spec: spec})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
	await(b, "lists are answered from memory", c.Catalogued)
	return c
}

func userOf(i int) string { return fmt.Sprint("user", i/7%listedUsers) }

// archive writes ended operations into a new store.
func archive(b *testing.B, directory string) {
	s, err := store.Open(b.Context(), "sqlite:"+filepath.Join(directory, "weir.db"))
	if err != nil {
		b.Fatal(err)
	}
	lease, err := s.Acquire(b.Context(), "archivist", "nowhere", time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now().Add(-listedArchive * time.Second)
	states := []string{"completed", "completed", "completed", "failed", "aborted"}
	for from := 1; from <= listedArchive; from += 1000 {
		batch := &store.Batch{}
		for n := from; n < from+1000; n++ {
			at := begin.Add(time.Duration(n) * time.Second)
			pool := fmt.Sprint("p", n%listedPools)
			batch.Put.Operations = append(batch.Put.Operations, store.Operation{
				Number: int32(n), ID: fmt.Sprintf("%x-%x-3ff03e8-%x", n*7919, n, n), Type: "vanilla", User: userOf(n), State: states[n%len(states)],
				Title: fmt.Sprint("report ", n), Pools: []store.TreePool{{Tree: "default", Pool: pool}}, HasFailedJobs: n%5 == 3,
				StartTime: at, FinishTime: at.Add(time.Minute), Filter: "t",
				BriefSpec:         fmt.Appendf(nil, `{"title":"report %d","pool":%q}`, n, pool),
				RuntimeParameters: fmt.Appendf(nil, `{"places":[{"tree":"default","pool":%q}]}`, pool),
				Events:            []byte(`[{"state":"starting"},{"state":"pending"},{"state":"running"},{"state":"completed"}]`),
			})
			batch.Put.OperationProgress = append(batch.Put.OperationProgress, store.OperationProgress{
				Operation: int32(n), Built: at, Brief: []byte(`{"state":"completed","jobs":{"total":10,"completed":{"total":10},"failed":0}}`), Progress: make([]byte, 1000),
			})
		}
		if _, err := s.Commit(b.Context(), lease, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Release(b.Context(), lease); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// listFilters are the filters of users who poll for their own operations.
var listFilters = []struct {
	name       string
	parameters func(i int) string
}{
	{"pool", func(i int) string { return fmt.Sprintf(`pool="p%d";pool_tree=default`, i%listedPools) }},
	{"user", func(i int) string { return fmt.Sprintf(`user=%q`, userOf(i*7)) }},
	{"running", func(int) string { return "state=running" }},
	{"failed-in-pool", func(i int) string { return fmt.Sprintf(`pool="p%d";state=failed`, i%listedPools) }},
	{"pool-and-user", func(i int) string { return fmt.Sprintf(`pool="p%d";user=%q`, i%listedPools, userOf(i)) }},
	{"none", func(int) string { return "" }},
}

func listHeader(filter string) http.Header {
	return http.Header{"X-Yt-Header-Format": {"<format=text>yson"}, "X-Yt-Parameters": {"{limit=50;" + filter + "}"}, "Accept": {"application/json"}}
}

// BenchmarkListOperations lists one page of 50 with its counters from 50,000 operations of 50
// users in 200 pools; 47,000 operations are archived. An unrelated commit precedes every request,
// as on a busy server. Then two hundred clients list operations with these filters over loopback
// as fast as the server answers, while it commits twenty times a second.
func BenchmarkListOperations(b *testing.B) {
	c := withOperations(b)
	h := handlerOf(c)
	for _, filter := range listFilters {
		b.Run(filter.name, func(b *testing.B) {
			for range 3 {
				measure(b, h, "list_operations", listHeader(filter.parameters(0)), "")
			}
			b.ReportAllocs()
			i, began := 0, processorTime(b)
			for b.Loop() {
				b.StopTimer()
				commitSomething(b, c)
				i++
				b.StartTimer()
				measure(b, h, "list_operations", listHeader(filter.parameters(i)), "")
			}
			b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
	b.Run("clients", func(b *testing.B) {
		for range b.N {
			listAll(b, c)
		}
	})
}

// commitSomething makes a commit that concerns no operation.
func commitSomething(t testing.TB, c *cluster) {
	err := c.EditNode(t.Context(), server.Caller{User: "root", Command: "test"}, "node-1", func(s *server.NodeSettings) error {
		s.BanMessage += "."
		s.BanMessage = s.BanMessage[max(0, len(s.BanMessage)-10):]
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// listAll lets clients list operations for some seconds.
func listAll(b *testing.B, c *cluster) {
	transport := &http.Transport{MaxIdleConnsPerHost: pollingClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(b.Context())
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				commitSomething(b, c)
			}
		}
	})
	took := make([][]time.Duration, pollingClients)
	warm := time.Now().Add(pollingWarmUp)
	for i := range took {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for ctx.Err() == nil {
				filter := listFilters[random.IntN(len(listFilters)-1)]
				began := time.Now()
				if err := pollList(client, c.url, filter.parameters(random.IntN(10_000))); err != nil {
					b.Error(err)
					return
				}
				if began.After(warm) {
					took[i] = append(took[i], time.Since(began))
				}
			}
		})
	}
	<-time.After(time.Until(warm))
	began, used := time.Now(), processorTime(b)
	<-time.After(pollingFor)
	cancel()
	used, seconds := processorTime(b)-used, time.Since(began).Seconds()
	group.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	for _, quantile := range []int{50, 99} {
		b.ReportMetric(float64(all[(len(all)-1)*quantile/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", quantile))
	}
	b.ReportMetric(float64(len(all))/seconds, "requests/s")
	b.ReportMetric(used.Seconds()/seconds, "processors")
}

func pollList(client *http.Client, url, filter string) error {
	request, err := http.NewRequest(http.MethodGet, url+"/api/v4/list_operations", nil)
	if err != nil {
		return err
	}
	request.Header = listHeader(filter)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", filter, response.StatusCode, text)
	}
	return err
}
