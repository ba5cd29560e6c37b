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
	Writes []WriteCount
	Binds  []BindCount
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

// BindCount counts attempts to put a pod on a node by their result.
type BindCount struct {
	Result string
	Count  uint64
}

// WatchAge is the age of the newest thing that a watch has shown.
type WatchAge struct {
	Resource string
	Age      time.Duration
}

// tally counts what the driver does. Its methods may be called from any goroutine.
type tally struct {
	mutex  sync.Mutex
	writes map[[2]string]uint64
	binds  map[string]uint64
	rate   float64
	seen   map[string]sighting
}

// sighting is the version that a watch had last reached, and since when.
type sighting struct {
	version string
	since   time.Time
}

func newTally() *tally {
	return &tally{writes: map[[2]string]uint64{}, binds: map[string]uint64{}, seen: map[string]sighting{}}
}

// verbOf is the verb of a call, as permissions have it.
func verbOf(k picture.WriteKind) string {
	switch k {
	case picture.Create, picture.CreateFiles, picture.Bind, picture.Evict:
		return "create"
	case picture.Delete, picture.DeleteFiles:
		return "delete"
	case picture.Release, picture.Resize, picture.Explain:
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

// wrote counts a call and its outcome.
func (t *tally) wrote(kind picture.WriteKind, outcome *picture.Outcome, err error, rate float64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.writes[[2]string{verbOf(kind), codeOf(err)}]++
	t.rate = rate
	if kind == picture.Create || kind == picture.Bind {
		t.binds[resultOf(outcome.Kind)]++
	}
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
	f := Counts{Rate: t.rate}
	for _, key := range slices.SortedFunc(maps.Keys(t.writes), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		f.Writes = append(f.Writes, WriteCount{key[0], key[1], t.writes[key]})
	}
	for _, result := range slices.Sorted(maps.Keys(t.binds)) {
		f.Binds = append(f.Binds, BindCount{result, t.binds[result]})
	}
	for _, resource := range slices.Sorted(maps.Keys(t.seen)) {
		f.Watches = append(f.Watches, WatchAge{resource, now.Sub(t.seen[resource].since)})
	}
	return f
}

// Counts returns what the driver has done so far.
func (d *Driver) Counts() Counts { return d.tally.counts(time.Now()) }
