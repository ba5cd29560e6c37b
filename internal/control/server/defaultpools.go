package server

import (
	"encoding/json"
	"slices"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
)

// DefaultPoolsSetting is the registry document that maps users to the pools below
// which their ephemeral pools are created, in trees with
// use_user_default_parent_pool_map: a map of names in JSON.
const DefaultPoolsSetting = "user_to_default_pool"

// DefaultPools returns the map in that document. It leaves out values that are
// not pool names: the code that sets the document validates it.
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

// obeyDefaultPools passes the users' default pools to the core.
func (t *term) obeyDefaultPools(r *Registry) {
	t.happens(&core.DefaultPoolsInput{Pools: r.DefaultPools()})
}

// changesDefaultPools reports whether rows of the registry include that document.
func changesDefaultPools(b *store.Batch) bool {
	concerns := func(s store.Setting) bool { return s.Name == DefaultPoolsSetting }
	return slices.ContainsFunc(b.Put.Settings, concerns) || slices.ContainsFunc(b.Delete.Settings, concerns)
}
