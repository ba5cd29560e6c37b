package api

import (
	"errors"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// mutations are the answers to recent commands, by mutation name. The store keeps them across
// restarts. This table also has the full answers, and makes a repeated request wait for the first
// one while that still runs.
type mutations struct {
	mutex sync.Mutex
	table map[string]*mutation
}

type mutation struct {
	done   chan struct{} // closed when the answer is known
	answer yson.Node
	key    string // the result's key in the answer, if it differs from the command's
	err    error
	until  time.Time // when the entry may be removed
}

// maxMutations bounds the table. Above it, entries past their time are removed.
const maxMutations = 100_000

// begin returns the entry of a mutation, and whether it is new. If it is, the caller must end it.
func (m *mutations) begin(name string, now time.Time) (entry *mutation, isNew bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if entry, there := m.table[name]; there && (entry.until.IsZero() || now.Before(entry.until)) {
		return entry, false
	}
	if m.table == nil {
		m.table = map[string]*mutation{}
	}
	if len(m.table) >= maxMutations {
		for other, entry := range m.table {
			if !entry.until.IsZero() && !now.Before(entry.until) {
				delete(m.table, other)
			}
		}
	}
	entry = &mutation{done: make(chan struct{})}
	m.table[name] = entry
	return entry, true
}

// end stores the answer of a command that succeeded. Refusals are not stored: they changed nothing,
// so a retry is safe.
func (m *mutations) end(name string, entry *mutation, done bool, until time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	entry.until = until
	if !done {
		delete(m.table, name)
	}
	close(entry.done)
}

// once runs the command unless a request with the same mutation id already did.
func (c *call) once() (yson.Node, error) {
	if !c.command.changes || c.Mutation == "" {
		return c.guarded()
	}
	entry, isNew := c.api.mutations.begin(c.Mutation, c.Now)
	if !isNew {
		if !c.retry {
			return yson.Node{}, wire.Errorf(wire.CodeGeneric, `Duplicate request is not marked as "retry"`)
		}
		select {
		case <-entry.done:
			c.resultKey = entry.key
			return entry.answer, entry.err
		case <-c.Context.Done():
			return yson.Node{}, c.Context.Err()
		}
	}
	answer, err := c.firstTime()
	entry.answer, entry.key, entry.err = answer, c.resultKey, err
	if err == nil && c.command.secret {
		entry.answer, entry.err = c.command.replay(c, []byte(c.Remembered))
	}
	c.api.mutations.end(c.Mutation, entry, err == nil, c.Now.Add(c.Server.Settings().MutationTTL))
	return answer, err
}

// firstTime runs a command that this process has not seen. Another process may have, or this one
// before a restart.
func (c *call) firstTime() (yson.Node, error) {
	if c.retry {
		known, err := c.Server.Store().Mutation(c.Context, c.Mutation)
		switch {
		case err == nil && c.command.replay != nil:
			return c.command.replay(c, known.Response)
		case err == nil:
			return yson.Map(), nil
		case !errors.Is(err, store.ErrNotFound):
			return yson.Node{}, err
		}
	}
	return c.guarded()
}
