package api

import (
	"net/http"
	"strconv"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// writer is a node whose value can be written at once, without a tree of values in
// between: pieces of text, which are not to be modified. It returns false if it
// cannot do so: the value is then read as that of any other node.
type writer interface {
	Written(c *call, as wire.Format) (text [][]byte, ok bool, err error)
}

// writeWhole answers a request for the whole value of a node that can write
// itself, if nothing else is in the answer. The value that the command then
// returns is the entity, and reply puts the text in its place.
func (c *call) writeWhole(at *pathtree.Place, filter pathtree.AttributeFilter) (done bool, err error) {
	w, can := at.Object.(writer)
	if !can || c.command.name != "get" || c.outputAs == nil || !filter.IsEmpty() || !c.outputAs.Joins() {
		return false, nil
	}
	c.whole, done, err = w.Written(c, *c.outputAs)
	return done, err
}

// replyWhole writes an answer whose value is written already; n has the entity in
// its place.
func (a *API) replyWhole(w http.ResponseWriter, c *call, m *message, n yson.Node) {
	before, after, err := m.outputAs.Around(n)
	if err != nil {
		a.refuse(w, wire.Errorf(wire.CodeGeneric, "The answer cannot be written in this format").Because(err))
		return
	}
	w.Header().Set("Content-Type", m.outputAs.MediaType())
	w.Header().Set("Content-Length", strconv.Itoa(len(before)+wire.Length(c.whole)+len(after)))
	for _, piece := range append(append([][]byte{before}, c.whole...), after) {
		if _, err := w.Write(piece); err != nil {
			return // the client has gone
		}
	}
}
