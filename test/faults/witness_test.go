//go:build linux

package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/fakenode"
)

// witness sees what the schedulers of a campaign tell users and nodes, and when.
//
// Two leaders are seen in two ways. An answer of an epoch that was asked for after somebody had
// an answer of a later epoch: the witness sees this itself, in all answers to nodes and in
// /readyz of all schedulers. And a lease that is given away before it has ended: the leader that
// loses it logs an error, which checkLogs finds.
type witness struct {
	t *testing.T

	mutex     sync.Mutex
	epochs    []seenEpoch // in their order
	answers   int
	stopped   map[*scheduler][]interval // when it could not say anything
	writes    []time.Time               // when one was acknowledged
	starts    map[string][]time.Time    // of jobs, by node
	takeovers []takeover
}

// seenEpoch is when an epoch was heard of for the first time.
type seenEpoch struct {
	epoch int64
	at    time.Time
	by    string
}

// takeover is the first moment at which a scheduler said that it leads.
type takeover struct {
	leader *scheduler
	at     time.Time
}

type interval struct{ from, to time.Time }

func newWitness(t *testing.T) *witness {
	return &witness{t: t, stopped: map[*scheduler][]interval{}, starts: map[string][]time.Time{}}
}

// answered notes that a request got an answer of a leader with this epoch.
func (w *witness) answered(by string, epoch int64, sent, got time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.answers++
	for _, later := range w.epochs {
		if later.epoch > epoch && later.at.Before(sent) {
			w.t.Errorf("two leaders: %s gave an answer of epoch %d, %v after %s had given one of epoch %d",
				by, epoch, sent.Sub(later.at), later.by, later.epoch)
			break
		}
	}
	if !slices.ContainsFunc(w.epochs, func(e seenEpoch) bool { return e.epoch == epoch }) {
		w.epochs = append(w.epochs, seenEpoch{epoch, got, by})
	}
}

// silent notes that a scheduler could not say anything for some time. What it answers afterwards
// to earlier questions it says afterwards.
func (w *witness) silent(s *scheduler, from, to time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.stopped[s] = append(w.stopped[s], interval{from, to})
}

// sampleEvery is how often schedulers are asked whether they lead.
const sampleEvery = 50 * time.Millisecond

// sample asks a scheduler again and again whether it leads, without waiting for answers.
func (w *witness) sample(ctx context.Context, s *scheduler) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	defer client.CloseIdleConnections()
	places := make(chan struct{}, 100) // a scheduler that is stopped answers nobody
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	var mutex sync.Mutex
	last := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case places <- struct{}{}:
		default:
			continue
		}
		asking.Go(func() {
			defer func() { <-places }()
			sent := time.Now()
			epoch, leads := askReady(ctx, client, s.address)
			if !leads {
				return
			}
			got := time.Now()
			w.answered(s.address, epoch, w.spokenAfter(s, sent, got), got)
			mutex.Lock()
			defer mutex.Unlock()
			if epoch > last {
				last = epoch
				w.tookOver(s, got)
			}
		})
	}
}

func (w *witness) tookOver(s *scheduler, at time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.takeovers = append(w.takeovers, takeover{s, at})
}

// spokenAfter is the earliest time at which an answer can have been given.
func (w *witness) spokenAfter(s *scheduler, sent, got time.Time) time.Time {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, stop := range w.stopped[s] {
		if sent.After(stop.from) && sent.Before(stop.to) && got.After(stop.to) {
			sent = stop.to
		}
	}
	return sent
}

// askReady asks a scheduler whether it leads, and under which epoch.
func askReady(ctx context.Context, client *http.Client, address string) (epoch int64, leads bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return 0, false
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, false
	}
	defer response.Body.Close()
	epoch, err = strconv.ParseInt(response.Header.Get("Weir-Epoch"), 10, 64)
	return epoch, err == nil && response.StatusCode == http.StatusOK
}

// probeEvery is how often each scheduler is sent a write whose acknowledgement is noted.
const probeEvery = 50 * time.Millisecond

// probe writes through one scheduler again and again. The writes say when writes are possible;
// their values do not matter.
func (w *witness) probe(ctx context.Context, g *gateway, to int) {
	path := "//sys/pool_trees/default/" + probePool(to) + "/@weight"
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		attempt, cancel := context.WithTimeout(ctx, 10*probeEvery)
		sent := time.Now()
		_, err := g.once(attempt, to, set(path, yson.Double(float64(1+i%1000))))
		cancel()
		if err == nil {
			g.acknowledged(sent)
			w.wrote()
		}
	}
}

func probePool(i int) string { return fmt.Sprintf("probe-%d", i) }

func (w *witness) wrote() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.writes = append(w.writes, time.Now())
}

func (w *witness) started(node string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.starts[node] = append(w.starts[node], time.Now())
}

// wroteSince says whether a write was acknowledged after a time.
func (w *witness) wroteSince(at time.Time) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.writes) > 0 && w.writes[len(w.writes)-1].After(at)
}

// startedSince says whether a job was started on a node after a time.
func (w *witness) startedSince(node string, at time.Time) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	list := w.starts[node]
	return len(list) > 0 && list[len(list)-1].After(at)
}

// firstAfter returns the first of some times that is not before a time.
func firstAfter(list []time.Time, at time.Time) (time.Time, bool) {
	i, _ := slices.BinarySearchFunc(list, at, time.Time.Compare)
	if i == len(list) {
		return time.Time{}, false
	}
	return list[i], true
}

// longestGap is the longest time within an interval in which nothing happened.
func longestGap(list []time.Time, within interval) (longest time.Duration) {
	last := within.from
	for i, _ := slices.BinarySearchFunc(list, within.from, time.Time.Compare); i < len(list) && list[i].Before(within.to); i++ {
		longest = max(longest, list[i].Sub(last))
		last = list[i]
	}
	return max(longest, within.to.Sub(last))
}

// watched is how a node reaches schedulers; the witness hears the answers.
type watched struct {
	fakenode.Caller
	witness *witness
	node    string
}

// Register calls the leader.
func (c watched) Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	sent := time.Now()
	response, err := c.Caller.Register(ctx, request)
	if err == nil {
		c.witness.answered("the leader of "+c.node, int64(response.GetSession().GetEpoch()), sent, time.Now())
	}
	return response, err
}

// Heartbeat calls the leader.
func (c watched) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	sent := time.Now()
	response, err := c.Caller.Heartbeat(ctx, request)
	if err == nil {
		c.witness.answered("the leader of "+c.node, int64(response.GetSession().GetEpoch()), sent, time.Now())
	}
	return response, err
}
