package api

import (
	"bytes"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// writer is a node whose value can be written at once, without a tree of values in
// between: pieces of text, which are not to be modified. It returns false if it
// cannot do so: the value is then read as that of any other node.
type writer interface {
	written(c *call, as format) (text [][]byte, ok bool, err error)
}

// writeWhole answers a request for the whole value of a node that can write
// itself, if nothing else is in the answer. The value that the command then
// returns is the entity, and reply puts the text in its place.
func (c *call) writeWhole(at *place, filter attributeFilter) (done bool, err error) {
	w, can := at.object.(writer)
	if !can || c.command.name != "get" || c.outputAs == nil || !filter.isEmpty() || !c.outputAs.joins() {
		return false, nil
	}
	c.whole, done, err = w.written(c, *c.outputAs)
	return done, err
}

// joins says whether maps in the format are their entries one after the other, so
// that they can be written in pieces.
func (f format) joins() bool {
	if f.json {
		return !f.options.Pretty && f.options.Attributes != yson.AttributesAlways
	}
	return f.flavour != yson.Pretty
}

// replyWhole writes an answer whose value is written already; n has the entity in
// its place.
func (a *API) replyWhole(w http.ResponseWriter, c *call, m *message, n yson.Node) {
	before, after, err := m.outputAs.around(n)
	if err != nil {
		a.refuse(w, errorf(codeGeneric, "The answer cannot be written in this format").because(err))
		return
	}
	w.Header().Set("Content-Type", m.outputAs.mediaType())
	w.Header().Set("Content-Length", strconv.Itoa(len(before)+length(c.whole)+len(after)))
	for _, piece := range append(append([][]byte{before}, c.whole...), after) {
		if _, err := w.Write(piece); err != nil {
			return // the client has gone
		}
	}
}

// around writes a value in which there is one entity, and returns what is before
// and after it.
func (f format) around(n yson.Node) (before, after []byte, err error) {
	text, err := f.write(n)
	entity := "#"
	if f.json {
		entity = "null"
	}
	before, after, _ = bytes.Cut(text, []byte(entity))
	return before, after, err
}

// entry writes an entry of a map behind dst.
func (f format) entry(dst []byte, e *yson.Entry) ([]byte, error) {
	at := len(dst)
	var err error
	if n := yson.Map(*e); f.json {
		dst, err = yson.AppendJSON(dst, n, f.options)
	} else {
		dst, err = yson.Append(dst, n, f.flavour)
	}
	if err != nil {
		return dst, err
	}
	// Without brackets; JSON needs a comma, YSON has a semicolon already.
	copy(dst[at:], dst[at+1:len(dst)-1])
	dst = dst[:len(dst)-2]
	if f.json {
		dst = append(dst, ',')
	}
	return dst, nil
}

// writeMap writes a map of count entries, on several processors if there are many.
// An entry is valid until the next one is asked for; entries makes a source of
// them for each processor.
func (f format) writeMap(count int, entries func() func(at int) yson.Entry) ([][]byte, error) {
	workers := min(runtime.GOMAXPROCS(0), count/poolsAtOnce+1)
	parts, problems := make([][]byte, workers+1), make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			entry := entries()
			first, end := count*w/workers, count*(w+1)/workers
			var text []byte
			if w == 0 {
				text = append(text, '{')
			}
			for at := first; at < end && problems[w] == nil; at++ {
				e := entry(at)
				text, problems[w] = f.entry(text, &e)
				if at == first {
					// The others are about as long.
					text = slices.Grow(text, len(text)*(end-first)*9/8)
				}
			}
			parts[w] = text
		})
	}
	group.Wait()
	if i := slices.IndexFunc(problems, func(err error) bool { return err != nil }); i >= 0 {
		return nil, problems[i]
	}
	parts[workers-1] = bytes.TrimSuffix(parts[workers-1], []byte(","))
	parts[workers] = []byte{'}'}
	return parts, nil
}

// Bounds of what is kept of written maps.
const (
	writtenKept = 64 << 20        // bytes of one tree
	writtenFor  = 5 * time.Second // after the first one was asked for
)

// writtenKey is what a written map depends on beside the snapshot.
type writtenKey struct {
	as     format
	fields string
}

// writtenText is a map that is being written or is written.
type writtenText struct {
	once sync.Once
	text [][]byte
	err  error
}

// writtenMaps are the maps of pools of one snapshot that readers have asked for:
// those who ask for the same get the same bytes. They are forgotten soon, because
// the next snapshot is as good as here, or nobody asks any more.
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
		switch size := length(found.text); {
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

// length is the sum of the lengths of pieces.
func length(pieces [][]byte) (sum int) {
	for _, piece := range pieces {
		sum += len(piece)
	}
	return sum
}

// writtenPools writes all pools of a tree with some fields; nil means all.
func (t *orchidTree) writtenPools(as format, names []string) ([][]byte, error) {
	key := writtenKey{as, "*"}
	if names != nil {
		key.fields = strings.Join(names, "\x00")
	}
	filter := poolFields.choose(names)
	return t.texts.get(key, func() ([][]byte, error) {
		return as.writeMap(len(t.info.Pools), func() func(at int) yson.Entry {
			v, entries := new(vectors), make([]yson.Entry, 0, len(poolFields.list))
			return func(at int) yson.Entry {
				v.reuse()
				e := t.pool(int32(at))
				entries = poolFields.into(entries[:0], v, e, filter)
				return yson.Entry{Key: e.pool.Name, Value: yson.Map(entries...)}
			}
		})
	})
}
