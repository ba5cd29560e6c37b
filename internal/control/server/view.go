package server

import (
	"time"

	"github.com/weirhq/weir/internal/engine/core"
)

// View is what readers see: the picture of the last update. It is immutable.
type View struct {
	At time.Time
	// Revision is that of the store which a standby has read.
	Revision int64
	Epoch    uint64
	// Reviving says that the leader waits for nodes of its predecessor.
	Reviving bool
	// Picture is everything that the core knew then. That of a standby is empty.
	Picture *core.Picture
	// Trees are those of the picture that exist: the core keeps the places of trees
	// that were removed.
	Trees []*core.Tree
}

// Tree returns a tree by its name.
func (v *View) Tree(name string) (*core.Tree, bool) {
	for _, tree := range v.Trees {
		if tree.Name == name {
			return tree, true
		}
	}
	return nil, false
}

// View returns what readers see now. A server that leads has a view of its own
// term before it says so.
func (s *Server) View() *View { return s.view.Load() }

// show gives readers a picture of what the core knows. It takes time in proportion
// to what has changed since the last one, so it is done whether there are readers
// or not.
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
