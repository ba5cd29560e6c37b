package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/yson"
)

func addMember(c *call) (yson.Node, error) {
	return c.changeMember(func(member, group string) (auth.Change, *store.Batch) {
		batch := &store.Batch{}
		batch.Put.Members = append(batch.Put.Members, store.Member{Group: group, Member: member})
		return auth.AddMember{Member: member, Group: group}, batch
	})
}

func removeMember(c *call) (yson.Node, error) {
	return c.changeMember(func(member, group string) (auth.Change, *store.Batch) {
		batch := &store.Batch{}
		batch.Delete.Members = append(batch.Delete.Members, store.Member{Group: group, Member: member})
		return auth.RemoveMember{Member: member, Group: group}, batch
	})
}

func (c *call) changeMember(change func(member, group string) (auth.Change, *store.Batch)) (yson.Node, error) {
	group, err := c.Parameters.NeedText("group")
	if err != nil {
		return yson.Node{}, err
	}
	member, err := c.Parameters.NeedText("member")
	if err != nil {
		return yson.Node{}, err
	}
	path := pathtree.JoinPath("//sys/groups", group)
	return nothing(c.EditRegistry(path, func(r *server.Registry) (*store.Batch, error) {
		d, _ := pathtree.DirectoryOf(r)
		step, batch := change(member, group)
		if _, err := d.With(step); err != nil {
			return nil, err
		}
		return batch, nil
	}))
}
