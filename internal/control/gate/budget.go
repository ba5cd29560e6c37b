package gate

import (
	"fmt"
	"io"
	"sync"
)

// Limits are the greatest numbers of bytes that request bodies and answers may hold at a time.
type Limits struct {
	Total  int64 // of all callers
	Caller int64 // of each caller
}

// DefaultLimits leave room for several of the largest requests at a time.
var DefaultLimits = Limits{Total: 256 << 20, Caller: 64 << 20}

// Budget counts the bytes that request bodies and answers hold in memory. It is safe for concurrent use.
type Budget struct {
	limits Limits

	mutex   sync.Mutex
	taken   int64
	callers map[string]int64
}

// NewBudget returns an unused budget.
func NewBudget(limits Limits) *Budget {
	return &Budget{limits: limits, callers: map[string]int64{}}
}

// Full is the error for bytes that do not fit into a budget.
type Full struct {
	// Own reports whether the caller's own limit is exceeded; otherwise it is the limit of all
	// callers.
	Own bool
	// Taken is what is already held, Wanted the bytes requested in addition, Limit the maximum.
	Taken, Wanted, Limit int64
}

func (e *Full) Error() string {
	whose := "all requests and answers hold"
	if e.Own {
		whose = "your requests and answers hold"
	}
	return fmt.Sprintf("%s %d bytes, and %d more would exceed the limit of %d; try again later", whose, e.Taken, e.Wanted, e.Limit)
}

// Taken returns the bytes that are held now.
func (b *Budget) Taken() int64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.taken
}

// Open returns an empty account for a caller. A non-zero most can lower the caller's limit.
// Close the account when its bytes are no longer needed.
func (b *Budget) Open(caller string, most int64) *Account {
	limit := b.limits.Caller
	if most > 0 {
		limit = min(limit, most)
	}
	return &Account{budget: b, caller: caller, limit: limit}
}

// Account is the part of a budget that one request holds. Only one goroutine may use it at a time.
type Account struct {
	budget *Budget
	caller string
	limit  int64
	taken  int64
}

// Take acquires n bytes, or returns *Full and acquires none.
func (a *Account) Take(n int64) error {
	b := a.budget
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if own := b.callers[a.caller]; own+n > a.limit {
		return &Full{Own: true, Taken: own, Wanted: n, Limit: a.limit}
	}
	if b.taken+n > b.limits.Total {
		return &Full{Taken: b.taken, Wanted: n, Limit: b.limits.Total}
	}
	b.taken += n
	b.callers[a.caller] += n
	a.taken += n
	return nil
}

// TakeAnswer takes the bytes of an answer until the account is closed. A long answer counts as at most half of
// the caller's limit, so that answers of any length can be sent.
func (a *Account) TakeAnswer(n int64) error { return a.Take(min(n, a.limit/2)) }

// give releases n bytes.
func (a *Account) give(n int64) {
	b := a.budget
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.taken -= n
	if b.callers[a.caller] -= n; b.callers[a.caller] == 0 {
		delete(b.callers, a.caller)
	}
	a.taken -= n
}

// Close releases everything that the account holds.
func (a *Account) Close() {
	if a.taken > 0 {
		a.give(a.taken)
	}
}

// smallest is the size of the first buffer of a body of unknown length.
const smallest = 4 << 10

// ReadAll reads everything. The account holds the bytes until it is closed. It acquires memory as
// data arrives, not as it is announced, because an announcement costs the sender nothing. length is
// the announced length, negative if there is none.
func (a *Account) ReadAll(r io.Reader, length int64) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	if err := a.Take(smallest); err != nil {
		return nil, err
	}
	buffer := make([]byte, 0, smallest)
	for {
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if err == io.EOF {
			return buffer, nil
		}
		if err != nil {
			return nil, err
		}
		if len(buffer) < cap(buffer) {
			continue
		}
		next := int64(2 * cap(buffer))
		if length > int64(len(buffer)) {
			next = min(next, length+1) // one more finds the end
		}
		if err := a.Take(next); err != nil {
			return nil, err
		}
		grown := make([]byte, len(buffer), next)
		copy(grown, buffer)
		a.give(int64(cap(buffer)))
		buffer = grown
	}
}

// Body returns a body that charges the account for the bytes read from it, and fails with *Full.
// The account holds the bytes until it is closed.
func (a *Account) Body(body io.ReadCloser) io.ReadCloser { return &countedBody{body, a} }

type countedBody struct {
	io.ReadCloser
	account *Account
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if full := b.account.Take(int64(n)); full != nil {
			return 0, full
		}
	}
	return n, err
}
