package notify

import (
	"encoding/json"
	"slices"
	"time"
)

// Limits of a queue.
const (
	// maxWaiting is how many notices wait for a target; then the oldest are dropped.
	maxWaiting = 1000
	// maxAge is how long a notice is tried.
	maxAge = 24 * time.Hour
	// pause is the time between two messages about one kind and pool: what happens in between is one message.
	pause = time.Minute
	// maxMessage is the size of a message in bytes.
	maxMessage = 64 << 10

	leastBackoff = time.Second
	mostBackoff  = time.Hour
)

// Message is what a target receives.
type Message struct {
	Target string    `json:"target"`
	Kind   Kind      `json:"kind"`
	Time   time.Time `json:"time"`
	Tree   string    `json:"tree,omitempty"`
	Pool   string    `json:"pool,omitempty"`
	// Count is the number of notices; if they are too many for one message, Notices has the first ones. Of dropped
	// notices there is only the count.
	Count   int64    `json:"count"`
	Notices []Notice `json:"notices"`
}

// Body returns the message as JSON. It leaves out the last notices if there are too many.
func (m *Message) Body() []byte {
	for {
		body, err := json.Marshal(m)
		if err != nil || len(body) <= maxMessage || len(m.Notices) == 0 {
			return body
		}
		if len(m.Notices) == 1 {
			m.Notices[0].Details = nil
			if body, err = json.Marshal(m); err == nil && len(body) <= maxMessage {
				return body
			}
		}
		m.Notices = m.Notices[:len(m.Notices)/2]
	}
}

// group is what is told in one message.
type group struct {
	kind       Kind
	tree, pool string
}

func groupOf(n *Notice) group { return group{n.Kind, n.Tree, n.Pool} }

// waiting is a notice that is not delivered yet.
type waiting struct {
	Notice
	due time.Time
}

// Queue holds what one target is to be notified of, in the order of the log. The zero value is empty. It is not safe for
// concurrent use.
type Queue struct {
	Target string
	// Dropped is how many notices were dropped and not reported, and Lost how many were dropped in all.
	Dropped int64
	Lost    uint64

	notices []waiting
	read    int64 // the last event that was added or passed over
	sent    map[group]time.Time
	fails   int
	retry   time.Time
}

// Begin sets the position in the log after which the target is notified.
func (q *Queue) Begin(position int64) { q.read = position }

// Read returns the last event that the queue has seen.
func (q *Queue) Read() int64 { return q.read }

// Waiting returns how many notices wait.
func (q *Queue) Waiting() int { return len(q.notices) }

// Position returns the event up to which everything is delivered or dropped.
func (q *Queue) Position() int64 {
	if len(q.notices) == 0 {
		return q.read
	}
	return q.notices[0].ID - 1
}

// Add takes the next event of the log, which need not concern the target.
func (q *Queue) Add(rules []Rule, n Notice) {
	q.read = n.ID
	if n.over {
		q.notices = slices.DeleteFunc(q.notices, func(w waiting) bool {
			return w.Kind == Starvation && w.number == n.number && w.Tree == n.Tree && w.Pool == n.Pool && n.Time.Before(w.due)
		})
		return
	}
	after, wants := Wants(rules, q.Target, &n)
	if !wants {
		return
	}
	if len(q.notices) >= maxWaiting {
		q.dropOldest()
	}
	q.notices = append(q.notices, waiting{n, n.Time.Add(after)})
}

func (q *Queue) dropOldest() {
	q.notices = slices.Delete(q.notices, 0, 1)
	q.Dropped++
	q.Lost++
}

// Next returns the message to send now, if there is one. It drops notices that are too old.
func (q *Queue) Next(now time.Time) (m Message, ok bool) {
	for len(q.notices) > 0 && now.Sub(q.notices[0].Time) > maxAge {
		q.dropOldest()
	}
	if now.Before(q.retry) {
		return m, false
	}
	if q.Dropped > 0 {
		return Message{Target: q.Target, Kind: dropped, Time: now, Count: q.Dropped, Notices: []Notice{}}, true
	}
	for i := range q.notices {
		first := &q.notices[i]
		g := groupOf(&first.Notice)
		if now.Before(first.due) || now.Sub(q.sent[g]) < pause {
			continue
		}
		m = Message{Target: q.Target, Kind: g.kind, Time: now, Tree: g.tree, Pool: g.pool}
		for _, w := range q.notices[i:] {
			if groupOf(&w.Notice) == g && !now.Before(w.due) {
				m.Notices = append(m.Notices, w.Notice)
			}
		}
		m.Count = int64(len(m.Notices))
		return m, true
	}
	return m, false
}

// Sent removes what a message told, which was delivered.
func (q *Queue) Sent(now time.Time, m *Message) {
	q.fails, q.retry = 0, time.Time{}
	if m.Kind == dropped {
		q.Dropped -= m.Count
		return
	}
	if q.sent == nil {
		q.sent = map[group]time.Time{}
	}
	for g, at := range q.sent {
		if now.Sub(at) >= pause {
			delete(q.sent, g)
		}
	}
	g := group{m.Kind, m.Tree, m.Pool}
	q.sent[g] = now
	q.notices = slices.DeleteFunc(q.notices, func(w waiting) bool { return groupOf(&w.Notice) == g && !m.Time.Before(w.due) })
}

// Failed keeps what a message told, which could not be delivered, and puts off the next attempt.
func (q *Queue) Failed(now time.Time) {
	q.retry = now.Add(min(leastBackoff<<min(q.fails, 20), mostBackoff))
	q.fails++
}
