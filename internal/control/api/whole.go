package api

import (
	"net/http"
	"strconv"

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
