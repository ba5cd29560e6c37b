package api

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/fakenode"
)

const (
	pollingClients    = 200
	pollingNodes      = 500
	pollingOperations = 3000
	pollingWarmUp     = 2 * time.Second
	pollingFor        = 5 * time.Second
)

// pollKinds are the requests that clients send. Most read what concerns them; a few keep the page
// with the whole tree open, which reads it every five seconds.
var pollKinds = []struct {
	name, command string
	weight        int
	parameters    func(r *rand.Rand, operations []string) string
}{
	{"pool", "get", 40, func(r *rand.Rand, _ []string) string {
		i, j := r.IntN(100), r.IntN(100)
		return fmt.Sprintf(`{path="//sys/scheduler/orchid/scheduler/pool_trees/default/pools/p%d-%d"}`, i, j)
	}},
	{"list_operations", "list_operations", 20, func(r *rand.Rand, _ []string) string {
		return fmt.Sprintf(`{limit=50;pool="p%d-%d"}`, r.IntN(100), r.IntN(100))
	}},
	{"get_operation", "get_operation", 20, func(r *rand.Rand, operations []string) string {
		return fmt.Sprintf(`{operation_id=%q}`, operations[r.IntN(len(operations))])
	}},
	{"attribute", "get", 20, func(r *rand.Rand, _ []string) string {
		i, j := r.IntN(100), r.IntN(100)
		return fmt.Sprintf(`{path="//sys/pools/p%d/p%d-%d/@weight"}`, i, i, j)
	}},
	{"whole_tree", "get", 0, func(*rand.Rand, []string) string {
		return `{path="//sys/scheduler/orchid/scheduler/pool_trees/default/pools";fields=[parent;mode;weight;dominant_resource;` +
			`usage_ratio;fair_share_ratio;demand_ratio;min_share_ratio;running_job_count;running_operation_count;operation_count;` +
			`starvation_status;is_ephemeral;integral_guarantee_type]}`
	}},
}

const wholeTree = 4 // index in pollKinds

// BenchmarkPollingClients lets two hundred clients poll a busy server with ten thousand pools
// over loopback. First each sends one request a second, which shows the latency; then they send
// as fast as they are answered, which shows the capacity.
func BenchmarkPollingClients(b *testing.B) {
	c := patientPools(b, time.Second)
	operations := startPolled(b, c)
	nodes := fakenode.New(fakenode.Config{
		Count: pollingNodes, Resources: resource.Amounts{resource.UserSlots: 8, resource.CPU: 800, resource.Memory: 32 << 30},
		Caller: func(int) fakenode.Caller { return fakenode.Direct(c.NodeService()) },
		Script: fakenode.Steady(time.Hour), Stagger: time.Second, Seed: 1,
	})
	b.Cleanup(nodes.Close)
	if err := nodes.Await(b.Context(), func(t fakenode.Totals) bool { return t.Registered == pollingNodes }); err != nil {
		b.Fatal(err)
	}
	for _, pause := range []time.Duration{time.Second, 0} {
		name := "once-a-second"
		if pause == 0 {
			name = "at-once"
		}
		b.Run(name, func(b *testing.B) {
			for range b.N {
				pollAll(b, c, operations, pause)
			}
		})
	}
}

// startPolled starts the operations that clients read.
func startPolled(b *testing.B, c *cluster) (ids []string) {
	ids = make([]string, pollingOperations)
	var users sync.WaitGroup
	for w := range 16 {
		users.Go(func() {
			for i := w; i < pollingOperations; i += 16 {
				text := fmt.Sprintf("{pool: p%d-%d, tasks: {t: {job_count: 10, command: 'true', cpu_limit: 1, memory_limit: 1GiB}}}", i%100, i/100)
				v, err := notation.ParseYAML("", []byte(text))
				if err != nil {
					b.Error(err)
					return
				}
				spec, err := operation.Read(v, operation.ReadOptions{})
				if err != nil {
					b.Error(err)
					return
				}
				id, err := c.StartOperation(b.Context(), server.Caller{User: "root", Command: "test"}, server.Start{Type: "vanilla", User: "anna", Spec: spec})
				if err != nil {
					b.Error(err)
					return
				}
				ids[i] = id.String()
			}
		})
	}
	users.Wait()
	return ids
}

// poller is one client.
type poller struct {
	url        string
	http       *http.Client
	random     *rand.Rand
	operations []string
	pause      time.Duration
	watches    bool // keeps the page with the whole tree open
	measured   time.Time
	took       [wholeTree + 1][]time.Duration
}

// next chooses the kind of the next request.
func (p *poller) next() int {
	if p.watches {
		return wholeTree
	}
	at := p.random.IntN(100)
	for kind := range pollKinds {
		if at -= pollKinds[kind].weight; at < 0 {
			return kind
		}
	}
	return 0
}

func (p *poller) run(stop <-chan time.Time) error {
	pause := p.pause
	if p.watches {
		pause = 5 * time.Second
	}
	wait := time.NewTimer(time.Duration(p.random.Int64N(int64(max(pause, time.Millisecond)))))
	defer wait.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-wait.C:
		}
		kind := p.next()
		began := time.Now()
		if err := p.ask(kind); err != nil {
			return err
		}
		if began.After(p.measured) {
			p.took[kind] = append(p.took[kind], time.Since(began))
		}
		wait.Reset(max(pause-time.Since(began), 0))
	}
}

func (p *poller) ask(kind int) error {
	k := &pollKinds[kind]
	request, err := http.NewRequest(http.MethodGet, p.url+"/api/v4/"+k.command, nil)
	if err != nil {
		return err
	}
	request.Header = http.Header{
		"X-Yt-Header-Format": {"<format=text>yson"}, "X-Yt-Parameters": {k.parameters(p.random, p.operations)}, "Accept": {"application/json"},
	}
	response, err := p.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %d %s", k.name, response.StatusCode, strings.TrimSpace(string(text)))
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func pollAll(b *testing.B, c *cluster, operations []string, pause time.Duration) {
	transport := &http.Transport{MaxIdleConnsPerHost: pollingClients}
	defer transport.CloseIdleConnections()
	stop := make(chan time.Time)
	pollers := make([]*poller, pollingClients)
	warm := time.Now().Add(pollingWarmUp)
	var group sync.WaitGroup
	for i := range pollers {
		pollers[i] = &poller{
			url: c.url, http: &http.Client{Transport: transport}, random: rand.New(rand.NewPCG(1, uint64(i))),
			operations: operations, pause: pause, watches: i%50 == 0, measured: warm,
		}
		group.Go(func() {
			if err := pollers[i].run(stop); err != nil {
				b.Error(err)
			}
		})
	}
	<-time.After(time.Until(warm))
	began, used := time.Now(), processorTime(b)
	<-time.After(pollingFor)
	close(stop)
	group.Wait()
	seconds, count := time.Since(began).Seconds(), 0
	used = processorTime(b) - used
	for kind := range pollKinds {
		var all []time.Duration
		for _, p := range pollers {
			all = append(all, p.took[kind]...)
		}
		count += len(all)
		if len(all) == 0 {
			b.Errorf("nobody asked for %s", pollKinds[kind].name)
			continue
		}
		slices.Sort(all)
		for _, quantile := range []int{50, 99} {
			took := all[(len(all)-1)*quantile/100]
			b.ReportMetric(float64(took.Microseconds())/1000, fmt.Sprintf("%s-p%d-ms", pollKinds[kind].name, quantile))
		}
	}
	b.ReportMetric(float64(count)/seconds, "requests/s")
	b.ReportMetric(used.Seconds()/seconds, "processors")
}
