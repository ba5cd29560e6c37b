package orchid

import (
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// Limits of the cache of written maps.
const (
	writtenKept = 64 << 20        // bytes of one tree
	writtenFor  = 5 * time.Second // after the first request
)

// writtenKey is what a written map depends on besides the snapshot.
type writtenKey struct {
	as     wire.Format
	fields string
}

// writtenText is a map that is written or being written.
type writtenText struct {
	once sync.Once
	text [][]byte
	err  error
}

// writtenMaps are the maps of pools of one snapshot that readers have requested.
// Equal requests get the same bytes. They are dropped soon, because the next
// snapshot will replace them or no reader needs them any more.
type writtenMaps struct {
	mutex sync.Mutex
	texts map[writtenKey]*writtenText
	bytes int
}

// get returns a map in a format with these fields, written once.
func (m *writtenMaps) get(key writtenKey, write func() ([][]byte, error)) ([][]byte, error) {
	m.mutex.Lock()
	if m.texts == nil {
		m.texts = map[writtenKey]*writtenText{}
		time.AfterFunc(writtenFor, m.forget)
	}
	found := m.texts[key]
	if found == nil {
		found = &writtenText{}
		m.texts[key] = found
	}
	m.mutex.Unlock()
	found.once.Do(func() {
		found.text, found.err = write()
		m.mutex.Lock()
		defer m.mutex.Unlock()
		switch size := wire.Length(found.text); {
		case m.texts[key] != found: // it took too long
		case m.bytes+size > writtenKept:
			delete(m.texts, key)
		default:
			m.bytes += size
		}
	})
	return found.text, found.err
}

func (m *writtenMaps) forget() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.texts, m.bytes = nil, 0
}

// writtenPools writes all pools of a tree with some fields; nil means all.
func (t *Tree) writtenPools(as wire.Format, names []string) ([][]byte, error) {
	key := writtenKey{as, "*"}
	if names != nil {
		key.fields = strings.Join(names, "\x00")
	}
	filter := poolFields.choose(names)
	return t.texts.get(key, func() ([][]byte, error) {
		return as.WriteMap(t.Info.PoolCount(), func() func(at int) yson.Entry {
			v, entries := new(wire.Vectors), make([]yson.Entry, 0, len(poolFields.list))
			return func(at int) yson.Entry {
				v.Reuse()
				e := t.pool(t.Info.PoolAt(at))
				entries = poolFields.into(entries[:0], v, e, filter)
				return yson.Entry{Key: e.pool.Name, Value: yson.Map(entries...)}
			}
		})
	})
}
