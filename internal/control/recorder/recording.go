package recorder

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
)

const (
	// updatesPerHash is the number of updates between two hashes of the state.
	updatesPerHash = 1000
	// flushPeriod is how long a record waits for others to share its frame.
	flushPeriod = time.Second
	// retainPeriod is the interval between searches for files to remove.
	retainPeriod = time.Minute
	// resumePause is how long a recording that failed waits before it starts another
	// segment.
	resumePause = 5 * time.Second
)

// Term describes what is recorded. Core, Names and Gates are used on the loop.
type Term struct {
	Epoch                         uint64
	UpdatePeriod, HeartbeatPeriod time.Duration
	Core                          *core.Core
	// Names returns the names of all operations that have not ended.
	Names func() []journal.Name
	// Gates returns the gates that are closed now.
	Gates func() *journal.Gates
}

// Recording is the journal of one term. Only the loop calls its methods. A nil
// Recording records nothing.
type Recording struct {
	recorder *Recorder
	term     Term
	encoder  *journal.Encoder // nil while there is a gap
	number   uint64           // of the next segment
	started  time.Time        // when the segment started
	updates  int              // since its start
	scratch  []byte
	last     time.Time // the last input
	alerted  bool      // a gap was reported
	retryAt  time.Time // when the gap may end
	failed   atomic.Bool
	written  atomic.Int64 // bytes of the current file

	gates journal.Gates // those recorded last
	queue queue
	done  chan struct{}
}

// queue passes items to the goroutine that writes.
type queue struct {
	mutex  sync.Mutex
	items  []item
	size   int // bytes of records
	most   int
	wake   chan struct{} // has a value when the goroutine should look
	closed bool
}

// item is what the goroutine writes next. One of records, start, hashed and synced is set.
type item struct {
	records []byte
	// synced is closed when everything before it is written.
	synced chan struct{}
	// start begins a segment with the state of a fork; the fork is nil for a new core.
	start *journal.Header
	fork  *core.Core
	// hashed is a fork whose hash follows the record.
	hashed *core.Core
	// end is why the segment ends.
	end journal.End
}

// Record starts the journal of a term, whose core is new. now is the time of the
// first input.
func (r *Recorder) Record(now time.Time, t Term) *Recording {
	rec := &Recording{
		recorder: r, term: t, last: now, queue: queue{most: r.options.Queue, wake: make(chan struct{}, 1)}, done: make(chan struct{}),
	}
	go rec.write()
	r.mutex.Lock()
	r.recording = rec
	r.mutex.Unlock()
	rec.begin(now, false)
	// A new core has default settings when it is played.
	rec.Applied(now, &core.SettingsInput{Settings: t.Core.Settings()}, false, journal.Outcome{})
	return rec
}

// begin starts a segment with the state of the core.
func (rec *Recording) begin(now time.Time, checkpoint bool) {
	h := &journal.Header{
		Build: rec.recorder.options.Build, Epoch: rec.term.Epoch, Number: rec.number, Start: now,
		UpdatePeriod: rec.term.UpdatePeriod, HeartbeatPeriod: rec.term.HeartbeatPeriod,
	}
	start := item{start: h}
	if checkpoint {
		start.fork = rec.term.Core.Fork()
	}
	rec.number++
	rec.encoder, rec.started, rec.updates = journal.NewEncoder(rec.recorder.types, now), now, 0
	rec.written.Store(0)
	rec.queue.put(start)
	if checkpoint && rec.term.Names != nil {
		for _, n := range rec.term.Names() {
			rec.Named(now, n)
		}
	}
	if checkpoint && rec.term.Gates != nil && rec.encoder != nil {
		rec.gated(now, rec.term.Gates())
	}
}

// Gated records the gates that are closed from now on, if others are than before.
func (rec *Recording) Gated(now time.Time) {
	if rec == nil || rec.encoder == nil || rec.term.Gates == nil {
		return
	}
	if g := rec.term.Gates(); !g.Same(&rec.gates) {
		rec.gated(now, g)
	}
}

func (rec *Recording) gated(now time.Time, g *journal.Gates) {
	rec.gates = *g
	rec.scratch = rec.encoder.Gates(rec.scratch[:0], now, g)
	rec.push()
}

// Named records the name of an operation.
func (rec *Recording) Named(now time.Time, n journal.Name) {
	if rec == nil || rec.encoder == nil {
		return
	}
	rec.scratch = rec.encoder.Name(rec.scratch[:0], now, n)
	rec.push()
}

// Applied records an input that was applied to the core, whether the core refused it,
// and what it decided.
func (rec *Recording) Applied(now time.Time, input core.Input, refused bool, outcome journal.Outcome) {
	if rec == nil {
		return
	}
	rec.last = now
	if rec.failed.CompareAndSwap(true, false) {
		rec.encoder, rec.retryAt = nil, now.Add(resumePause)
	}
	if rec.encoder == nil {
		// The checkpoint of the next segment has this input already.
		if !now.Before(rec.retryAt) && rec.queue.isEmpty() {
			rec.begin(now, true)
		}
		return
	}
	rec.scratch = rec.encoder.Input(rec.scratch[:0], now, input, refused, outcome)
	rec.push()
	if _, is := input.(*core.UpdateInput); !is || rec.encoder == nil {
		return
	}
	rec.updates++
	switch {
	case now.Sub(rec.started) >= rec.recorder.options.SegmentTime || rec.written.Load() >= rec.recorder.options.SegmentSize:
		rec.queue.put(item{records: rec.encoder.End(nil, now, journal.EndContinued), end: journal.EndContinued})
		rec.begin(now, true)
		if rec.alerted { // a whole segment was written since the gap
			rec.alerted = false
			rec.recorder.options.Alert("")
		}
	case rec.updates%updatesPerHash == 0:
		rec.queue.put(item{records: rec.encoder.HashHead(nil, now), hashed: rec.term.Core.Fork()})
	}
}

// push queues the record in scratch. If the queue is full, the segment ends with a
// gap.
func (rec *Recording) push() {
	if rec.queue.add(rec.scratch) {
		return
	}
	rec.encoder, rec.retryAt, rec.alerted = nil, rec.last, true
	rec.recorder.gaps.Add(1)
	rec.queue.put(item{records: journal.EndRecord(journal.EndGap), end: journal.EndGap})
	rec.recorder.options.Alert("the journal has a gap: the disk was too slow at " + rec.last.Format(time.RFC3339))
}

// Close ends the journal and waits until it is written.
func (rec *Recording) Close() {
	if rec == nil {
		return
	}
	if rec.encoder != nil {
		rec.queue.put(item{records: rec.encoder.End(nil, rec.last, journal.EndTerm), end: journal.EndTerm})
	}
	rec.queue.close()
	<-rec.done
}

// add appends a record, and reports whether there was room.
func (q *queue) add(record []byte) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.size+len(record) > q.most {
		return false
	}
	n := len(q.items)
	if n == 0 || q.items[n-1].start != nil || q.items[n-1].hashed != nil || q.items[n-1].synced != nil || q.items[n-1].end != journal.EndCut || len(q.items[n-1].records) >= journal.FrameSize {
		q.items = append(q.items, item{})
		n++
	}
	q.items[n-1].records = append(q.items[n-1].records, record...)
	q.size += len(record)
	if q.size >= journal.FrameSize {
		q.signal()
	}
	return true
}

// put appends an item that does not count as records.
func (q *queue) put(i item) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.items = append(q.items, i)
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.closed = true
	q.signal()
}

// take removes all items.
func (q *queue) take() (items []item, closed bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	items, q.items, q.size = q.items, nil, 0
	return items, q.closed
}

// sync returns a channel that is closed when everything that is queued now is written; nil if the queue is closed.
func (q *queue) sync() <-chan struct{} {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.closed {
		return nil
	}
	synced := make(chan struct{})
	q.items = append(q.items, item{synced: synced})
	q.signal()
	return synced
}

func (q *queue) isEmpty() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return len(q.items) == 0
}

// write writes what is queued until the recording is closed.
func (rec *Recording) write() {
	defer close(rec.done)
	w := writer{recording: rec, framer: journal.NewFramer(rec.recorder.types)}
	ticker := time.NewTicker(flushPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-rec.queue.wake:
		case <-ticker.C:
		}
		items, closed := rec.queue.take()
		for i := range items {
			w.write(&items[i])
		}
		w.flush()
		w.retain()
		if closed {
			w.close()
			return
		}
	}
}

// writer writes one segment after another.
type writer struct {
	recording *Recording
	framer    *journal.Framer
	file      *os.File // nil if there is none
	frame     []byte   // records that are not written
	out       []byte
	retained  time.Time
	unwell    bool // the last write failed
}

func (w *writer) write(i *item) {
	if i.start != nil {
		w.begin(i)
		return
	}
	if i.synced != nil {
		w.flush()
		close(i.synced)
		return
	}
	if w.file == nil {
		return // it could not be created or written; a new segment follows
	}
	w.frame = append(w.frame, i.records...)
	if i.hashed != nil {
		sum, err := i.hashed.Hash()
		if err != nil {
			w.fail(err)
			return
		}
		w.frame = append(w.frame, sum[:]...)
	}
	if len(w.frame) >= journal.FrameSize {
		w.flush()
	}
	if i.end != journal.EndCut {
		w.flush()
		w.close()
	}
}

// begin creates the file of a segment.
func (w *writer) begin(i *item) {
	r := w.recording.recorder
	w.close()
	var checkpoint []byte
	if i.fork != nil {
		sum, err := i.fork.Hash()
		if err == nil {
			i.start.Hash = sum
			checkpoint, err = i.fork.Save()
		}
		if err != nil {
			w.fail(err)
			return
		}
	}
	if err := os.MkdirAll(r.options.Directory, 0o700); err != nil {
		w.fail(err)
		return
	}
	name := fileName(i.start.Start, i.start.Epoch, i.start.Number)
	file, err := os.OpenFile(filepath.Join(r.options.Directory, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		w.fail(err)
		return
	}
	w.file = file
	r.mutex.Lock()
	r.current = name
	r.mutex.Unlock()
	r.segments.Add(1)
	w.out = w.framer.AppendStart(w.out[:0], i.start, checkpoint)
	w.append()
}

// flush writes the records as a frame.
func (w *writer) flush() {
	if w.file == nil || len(w.frame) == 0 {
		w.frame = w.frame[:0]
		return
	}
	w.out = w.framer.AppendRecords(w.out[:0], w.frame)
	w.frame = w.frame[:0]
	w.append()
}

// append appends w.out to the file.
func (w *writer) append() {
	if _, err := w.file.Write(w.out); err != nil {
		w.fail(err)
		return
	}
	r := w.recording.recorder
	w.recording.written.Add(int64(len(w.out)))
	r.bytes.Add(uint64(len(w.out)))
	if cap(w.out) > 4*journal.FrameSize { // the memory of a checkpoint
		w.out = nil
	}
	if w.unwell {
		w.unwell = false
		r.options.Alert("")
	}
}

// fail gives the segment up. The loop starts another one later.
func (w *writer) fail(err error) {
	r := w.recording.recorder
	r.options.Log.Error("cannot write the journal", "error", err)
	r.options.Alert("the journal cannot be written: " + err.Error())
	r.gaps.Add(1)
	w.unwell = true
	w.close()
	w.recording.failed.Store(true)
}

func (w *writer) close() {
	if w.file == nil {
		return
	}
	if err := w.file.Close(); err != nil {
		w.recording.recorder.options.Log.Warn("cannot close a file of the journal", "error", err)
	}
	w.file, w.frame = nil, w.frame[:0]
	r := w.recording.recorder
	r.mutex.Lock()
	r.current = ""
	r.mutex.Unlock()
}

// retain removes old files now and then.
func (w *writer) retain() {
	now := time.Now()
	if now.Sub(w.retained) < retainPeriod {
		return
	}
	w.retained = now
	if err := w.recording.recorder.retain(now); err != nil {
		w.recording.recorder.options.Log.Warn("cannot remove old files of the journal", "error", err)
	}
}
