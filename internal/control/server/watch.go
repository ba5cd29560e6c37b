package server

import (
	"context"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/value/guid"
)

// watchers are the callers that wait for a new record of an operation. The zero value is ready to use.
type watchers struct {
	mutex   sync.Mutex
	waiting map[guid.ID]*watch
}

// watch is what the watchers of one operation share.
type watch struct {
	changed chan struct{} // closed when there is a new record
	count   int           // callers that wait
}

// add registers a caller, who must call remove with the same watch.
func (w *watchers) add(id guid.ID) *watch {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.waiting == nil {
		w.waiting = map[guid.ID]*watch{}
	}
	one := w.waiting[id]
	if one == nil {
		one = &watch{changed: make(chan struct{})}
		w.waiting[id] = one
	}
	one.count++
	return one
}

func (w *watchers) remove(id guid.ID, one *watch) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if one.count--; one.count == 0 && w.waiting[id] == one {
		delete(w.waiting, id)
	}
}

// notify wakes the watchers of an operation.
func (w *watchers) notify(id guid.ID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if one := w.waiting[id]; one != nil {
		close(one.changed)
		delete(w.waiting, id)
	}
}

// notifyAll wakes all watchers.
func (w *watchers) notifyAll() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for id, one := range w.waiting {
		close(one.changed)
		delete(w.waiting, id)
	}
}

// AwaitOperation waits until the record of an operation is younger than a time, which is usually that of the record that
// the caller has. It also returns when the operation has ended, when this server stops leading, after the given time
// at the latest, and when ctx is cancelled.
func (s *Server) AwaitOperation(ctx context.Context, id guid.ID, since time.Time, most time.Duration) {
	one := s.watchers.add(id)
	defer s.watchers.remove(id, one)
	// A record may have come before the caller was registered.
	record, lives := s.Operation(OperationKey{ID: id})
	if !lives || record.Built.Truncate(time.Microsecond).After(since) || s.term.Load() == nil {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-one.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
