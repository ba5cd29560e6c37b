package api

import (
	"net/http"
	"strconv"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// writer is a node that can write its value directly, without building a tree of values: as pieces
// of text, which must not be modified. It returns false if it cannot; the value is then read as for
// any other node.
type writer interface {
	Written(c *call, as wire.Format) (text [][]byte, ok bool, err error)
}

// writeWhole answers a request for the whole value of a node that can write itself, if the answer
// has nothing else. The command then returns the entity, and reply replaces it with the text.
func (c *call) writeWhole(at *pathtree.Place, filter pathtree.AttributeFilter) (done bool, err error) {
	w, can := at.Object.(writer)
	if !can || c.command.name != "get" || c.outputAs == nil || !filter.IsEmpty() || !c.outputAs.Joins() {
		return false, nil
	}
	c.whole, done, err = w.Written(c, *c.outputAs)
	return done, err
}

// replyWhole writes an answer whose value is already written; n has the entity in its place.
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
			return // the client disconnected
		}
	}
}
