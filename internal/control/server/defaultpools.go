package server

import (
	"encoding/json"
	"slices"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
)

// DefaultPoolsSetting is the document of the registry that says, user by user,
// below which pool their ephemeral pools are made, in trees that want so
// (use_user_default_parent_pool_map): a map of names in JSON.
const DefaultPoolsSetting = "user_to_default_pool"

// DefaultPools is what that document says. What is no name of a pool is left out:
// whoever sets it checks it.
func (r *Registry) DefaultPools() map[string]string {
	data, there := r.Setting(DefaultPoolsSetting)
	var values map[string]any
	if !there || json.Unmarshal(data, &values) != nil {
		return nil
	}
	pools := map[string]string{}
	for user, value := range values {
		if pool, ok := value.(string); ok {
			pools[user] = pool
		}
	}
	return pools
}

// obeyDefaultPools tells the core which pools are users' own.
func (t *term) obeyDefaultPools(r *Registry) {
	t.happens(&core.DefaultPoolsInput{Pools: r.DefaultPools()})
}

// changesDefaultPools says whether rows of the registry have that document.
func changesDefaultPools(b *store.Batch) bool {
	concerns := func(s store.Setting) bool { return s.Name == DefaultPoolsSetting }
	return slices.ContainsFunc(b.Put.Settings, concerns) || slices.ContainsFunc(b.Delete.Settings, concerns)
}
