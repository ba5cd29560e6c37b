package server

import (
	"time"

	"github.com/weirhq/weir/internal/engine/core"
)

// View is the picture of the last update, for readers. It is immutable.
type View struct {
	At time.Time
	// Revision is the store revision that a standby has read.
	Revision int64
	Epoch    uint64
	// Reviving reports whether the leader still waits for its predecessor's nodes.
	Reviving bool
	// Picture is everything that the core knew at that time. A standby's picture is
	// empty.
	Picture *core.Picture
	// Trees are the picture's trees that still exist: the core keeps the slots of
	// removed trees.
	Trees []*core.Tree
}

// Tree returns the tree with this name.
func (v *View) Tree(name string) (*core.Tree, bool) {
	for _, tree := range v.Trees {
		if tree.Name == name {
			return tree, true
		}
	}
	return nil, false
}

// View returns the current view. A server that leads has a view of its own term
// before it reports that it leads.
func (s *Server) View() *View { return s.view.Load() }

// show publishes a picture of the core to readers. It takes time in proportion to
// what has changed since the last picture, so it runs whether or not there are
// readers.
func (t *term) show() {
	picture := t.core.Picture(t.now)
	v := &View{At: t.now, Epoch: t.epoch, Reviving: t.reviving, Picture: picture, Trees: make([]*core.Tree, 0, len(picture.Trees))}
	for _, tree := range picture.Trees {
		if _, there := t.trees.Find(tree.Name); there {
			v.Trees = append(v.Trees, tree)
		}
	}
	t.server.view.Store(v)
}
