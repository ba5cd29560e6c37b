package api

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/pathtree"
)

// MayUse returns why a member of a group, who need not be a user, must not use a pool; nil if it may. For a pool that does
// not exist, the pool below which it would be created counts.
func (a *API) MayUse(ctx context.Context, name, group, tree, pool string) error {
	now := time.Now()
	subjects, _, err := a.tree.People.Current(a.tree, now)
	if err != nil {
		return err
	}
	config, there := a.server.Trees().Find(tree)
	if !there {
		return fmt.Errorf("there is no pool tree %q", tree)
	}
	request := &pathtree.Request{Context: ctx, Server: a.server, Tree: a.tree, Subjects: subjects, Now: now}
	chain, err := orchid.PoolChain(request, config, pool, name)
	if err != nil {
		return err
	}
	return subjects.CheckMember(name, group, auth.Use, chain).Err()
}
