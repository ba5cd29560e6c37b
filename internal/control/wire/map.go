package wire

import (
	"bytes"
	"runtime"
	"slices"
	"sync"

	"github.com/weirhq/weir/internal/value/yson"
)

// Joins reports whether a map in this format is the concatenation of its entries,
// so that it can be written in pieces.
func (f Format) Joins() bool {
	if f.JSON {
		return !f.Options.Pretty && f.Options.Attributes != yson.AttributesAlways
	}
	return f.Flavour != yson.Pretty
}

// Around writes a value that contains one entity, and returns the text before and
// after it.
func (f Format) Around(n yson.Node) (before, after []byte, err error) {
	text, err := f.Write(n)
	entity := "#"
	if f.JSON {
		entity = "null"
	}
	before, after, _ = bytes.Cut(text, []byte(entity))
	return before, after, err
}

// entry appends an entry of a map to dst.
func (f Format) entry(dst []byte, e *yson.Entry) ([]byte, error) {
	at := len(dst)
	var err error
	if n := yson.Map(*e); f.JSON {
		dst, err = yson.AppendJSON(dst, n, f.Options)
	} else {
		dst, err = yson.Append(dst, n, f.Flavour)
	}
	if err != nil {
		return dst, err
	}
	// Remove the brackets; JSON needs a comma, YSON already has a semicolon.
	copy(dst[at:], dst[at+1:len(dst)-1])
	dst = dst[:len(dst)-2]
	if f.JSON {
		dst = append(dst, ',')
	}
	return dst, nil
}

// WriteMap writes a map of count entries, on several processors if there are many.
// entries returns a separate source for each processor. An entry is valid until
// the next call of its source.
func (f Format) WriteMap(count int, entries func() func(at int) yson.Entry) ([][]byte, error) {
	workers := min(runtime.GOMAXPROCS(0), count/EntriesAtOnce+1)
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

// Length is the sum of the lengths of pieces.
func Length(pieces [][]byte) (sum int) {
	for _, piece := range pieces {
		sum += len(piece)
	}
	return sum
}

// EntriesAtOnce is the least number of pools that one goroutine builds or writes.
const EntriesAtOnce = 500
