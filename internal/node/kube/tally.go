package kube

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirhq/weir/internal/node/picture"
)

// Counts are what a driver has done so far, for metrics. All lists are sorted.
type Counts struct {
	Writes                    []WriteCount
	Binds, Evictions, Resizes []ResultCount
	// BindTimes is how long the API server took to answer attempts to put a pod on a node.
	BindTimes Times
	// Waits is how long pods of others waited from when they were first seen until they had a node.
	Waits []WaitTimes
	// Standing is what the picture has now.
	Standing picture.Standing
	// Rate is how many writes per second the API server gets at most now.
	Rate float64
	// Watches is how long ago each watch showed something last.
	Watches []WatchAge
}

// WriteCount counts calls of the API server by verb and by the code of the answer, "none" if there was no answer.
type WriteCount struct {
	Verb, Code string
	Count      uint64
}

// ResultCount counts calls of a kind by their result.
type ResultCount struct {
	Result string
	Count  uint64
}

// Times is durations, counted by upper bounds. A duration counts for all bounds that are not below it.
type Times struct {
	Bounds []time.Duration
	Counts []uint64
	Count  uint64
	Sum    time.Duration
}

func (t *Times) add(d time.Duration) {
	if t.Counts == nil {
		t.Counts = make([]uint64, len(t.Bounds))
	}
	for i, bound := range t.Bounds {
		if d <= bound {
			t.Counts[i]++
		}
	}
	t.Count++
	t.Sum += d
}

// copied returns durations that do not change any more.
func (t *Times) copied() Times {
	c := *t
	c.Counts = append(make([]uint64, 0, len(t.Bounds)), t.Counts...)
	for len(c.Counts) < len(c.Bounds) {
		c.Counts = append(c.Counts, 0)
	}
	return c
}

// WaitTimes is how long the pods of a pool waited.
type WaitTimes struct {
	Tree, Pool string
	Times
}

// Bounds of the distributions.
var (
	bindBounds = []time.Duration{
		2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second,
	}
	waitBounds = []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 10 * time.Hour}
)

// WatchAge is the age of the newest thing that a watch has shown.
type WatchAge struct {
	Resource string
	Age      time.Duration
}

// tally counts what the driver does. Its methods may be called from any goroutine.
type tally struct {
	mutex    sync.Mutex
	writes   map[[2]string]uint64
	results  map[picture.WriteKind]map[string]uint64 // of binds, creations included, evictions and resizes
	times    Times
	waits    map[[2]string]*Times // by tree and pool
	standing picture.Standing
	rate     float64
	seen     map[string]sighting
}

// sighting is the version that a watch had last reached, and since when.
type sighting struct {
	version string
	since   time.Time
}

func newTally() *tally {
	return &tally{
		writes: map[[2]string]uint64{}, waits: map[[2]string]*Times{}, seen: map[string]sighting{}, times: Times{Bounds: bindBounds},
		results: map[picture.WriteKind]map[string]uint64{picture.Bind: {}, picture.Evict: {}, picture.Resize: {}},
	}
}

// verbOf is the verb of a call, as permissions have it.
func verbOf(k picture.WriteKind) string {
	switch k {
	case picture.Create, picture.CreateFiles, picture.Bind, picture.Evict:
		return "create"
	case picture.Delete, picture.DeleteFiles:
		return "delete"
	case picture.Release, picture.Resize, picture.Explain, picture.ExplainGroup:
		return "patch"
	}
	return "get"
}

// codeOf is the code of an answer.
func codeOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "200"
	case errors.As(err, &status):
		return strconv.Itoa(int(status.Status().Code))
	}
	return "none"
}

// wrote counts a call, its outcome and how long it took.
func (t *tally) wrote(kind picture.WriteKind, outcome *picture.Outcome, err error, took time.Duration, rate float64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.writes[[2]string{verbOf(kind), codeOf(err)}]++
	t.rate = rate
	if kind == picture.Create || kind == picture.Bind {
		kind = picture.Bind
		t.times.add(took)
	}
	if counts := t.results[kind]; counts != nil {
		counts[resultOf(outcome.Kind)]++
	}
}

// waited takes in how long pods waited.
func (t *tally) waited(list []picture.Waited) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, w := range list {
		key := [2]string{w.Tree, w.Pool}
		times := t.waits[key]
		if times == nil {
			times = &Times{Bounds: waitBounds}
			t.waits[key] = times
		}
		times.add(w.For)
	}
}

// stands takes in what the picture has now.
func (t *tally) stands(s picture.Standing) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.standing = s
}

// resultOf names an outcome.
func resultOf(k picture.OutcomeKind) string {
	switch k {
	case picture.Done:
		return "done"
	case picture.Refused:
		return "refused"
	case picture.Missing:
		return "missing"
	case picture.Protected:
		return "protected"
	}
	return "retried"
}

// watched takes in the version that a watch has reached.
func (t *tally) watched(resource, version string, now time.Time) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if last, there := t.seen[resource]; !there || last.version != version {
		t.seen[resource] = sighting{version, now}
	}
}

func (t *tally) counts(now time.Time) Counts {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	f := Counts{Rate: t.rate, BindTimes: t.times.copied(), Standing: t.standing}
	for _, key := range slices.SortedFunc(maps.Keys(t.writes), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		f.Writes = append(f.Writes, WriteCount{key[0], key[1], t.writes[key]})
	}
	f.Binds, f.Evictions, f.Resizes = resultsOf(t.results[picture.Bind]), resultsOf(t.results[picture.Evict]), resultsOf(t.results[picture.Resize])
	for _, key := range slices.SortedFunc(maps.Keys(t.waits), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		f.Waits = append(f.Waits, WaitTimes{key[0], key[1], t.waits[key].copied()})
	}
	for _, resource := range slices.Sorted(maps.Keys(t.seen)) {
		f.Watches = append(f.Watches, WatchAge{resource, now.Sub(t.seen[resource].since)})
	}
	return f
}

func resultsOf(counts map[string]uint64) (list []ResultCount) {
	for _, result := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, ResultCount{result, counts[result]})
	}
	return list
}

// Counts returns what the driver has done so far.
func (d *Driver) Counts() Counts { return d.tally.counts(time.Now()) }
