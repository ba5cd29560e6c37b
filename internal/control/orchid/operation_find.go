package orchid

import (
	"errors"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// OperationView is an operation as one request sees it: live, or from the archive. Expensive parts
// are read on request.
type OperationView struct {
	ID     guid.ID
	Number core.OperationID
	kind   string
	User   string
	Live   *server.Operation // nil in the archive
	row    *store.Operation  // nil while it lives

	specs    *store.OperationSpec
	Progress *store.OperationProgress
	spec     *operation.Spec
}

// operationKey reads which operation a request names.
func operationKey(c *pathtree.Request) (server.OperationKey, error) {
	var key server.OperationKey
	alias, err := c.Parameters.Text("operation_alias", "")
	if err != nil {
		return key, err
	}
	id, err := c.Parameters.Text("operation_id", "")
	switch {
	case err != nil:
		return key, err
	case id != "" && alias != "":
		return key, wire.Errorf(wire.CodeGeneric, "Parameters /operation_id and /operation_alias cannot be given together")
	case id != "" && id[0] == '*':
		alias, id = id, ""
	case id == "" && alias == "":
		return key, wire.Missing("operation_id")
	}
	if alias != "" {
		key.Alias = alias
		return key, nil
	}
	key.ID, err = guid.Parse(id)
	if err != nil {
		return key, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /operation_id: an operation is named by its id or by its alias, which begins with a star").Because(err)
	}
	return key, nil
}

// noOperation is the error for an operation that never existed or is no longer stored.
func noOperation(key server.OperationKey) *wire.Error {
	if key.Alias != "" {
		return wire.Errorf(wire.CodeNoSuchOperation, "No such operation %s", key.Alias).With("operation_alias", yson.String(key.Alias))
	}
	return wire.Errorf(wire.CodeNoSuchOperation, "No such operation %s", key.ID).With("operation_id", yson.String(key.ID.String()))
}

// FindOperation returns the operation of the request.
func FindOperation(c *pathtree.Request) (*OperationView, error) {
	key, err := operationKey(c)
	if err != nil {
		return nil, err
	}
	return operationBy(c, key)
}

func operationBy(c *pathtree.Request, key server.OperationKey) (*OperationView, error) {
	if live, there := c.Server.Operation(key); there {
		return ViewOfLive(live), nil
	}
	var row store.Operation
	var err error
	if key.Alias != "" {
		row, err = c.Server.Store().OperationByAlias(c.Context, key.Alias)
	} else {
		row, err = c.Server.Store().OperationByID(c.Context, key.ID.String())
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, noOperation(key)
	}
	if err != nil {
		return nil, err
	}
	return ViewOfRow(c, &row)
}

// ViewOfLive is the view of an operation that has not ended.
func ViewOfLive(live *server.Operation) *OperationView {
	return &OperationView{ID: live.ID, Number: live.Number, kind: live.Type, User: live.User, Live: live, spec: live.Spec}
}

// ViewOfRow is the view of an operation in the store, which may still be live.
func ViewOfRow(c *pathtree.Request, row *store.Operation) (*OperationView, error) {
	if live, there := c.Server.OperationByNumber(core.OperationID(row.Number)); there {
		return ViewOfLive(live), nil
	}
	id, err := guid.Parse(row.ID)
	if err != nil {
		return nil, err
	}
	return ViewOfStored(id, row), nil
}

// ViewOfStored is the view of an archived operation.
func ViewOfStored(id guid.ID, row *store.Operation) *OperationView {
	return &OperationView{ID: id, Number: core.OperationID(row.Number), kind: row.Type, User: row.User, row: row}
}

// storedSpecs reads the rows of an archived operation that are stored separately from the first.
func (v *OperationView) storedSpecs(c *pathtree.Request) (*store.OperationSpec, error) {
	if v.specs == nil {
		specs, err := c.Server.Store().OperationSpec(c.Context, int32(v.Number))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		v.specs = &specs
	}
	return v.specs, nil
}

func (v *OperationView) storedProgress(c *pathtree.Request) (*store.OperationProgress, error) {
	if v.Progress == nil {
		progress, err := c.Server.Store().OperationProgress(c.Context, int32(v.Number))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		v.Progress = &progress
	}
	return v.Progress, nil
}

// resulting is the specification with all defaults; nil if it is lost.
func (v *OperationView) resulting(c *pathtree.Request) (*operation.Spec, error) {
	if v.spec != nil {
		return v.spec, nil
	}
	specs, err := v.storedSpecs(c)
	if err != nil || len(specs.Resulting) == 0 {
		return nil, err
	}
	resulting, err := notation.ParseJSON("", specs.Resulting)
	if err != nil {
		return nil, err
	}
	read, err := operation.Read(resulting, operation.ReadOptions{CommandOptional: true, External: true})
	if err != nil {
		return nil, err
	}
	v.spec = read.Spec
	return v.spec, nil
}

// Places are the operation's pools, now or when it ended, by tree.
func (v *OperationView) Places() []core.Place {
	if v.Live != nil {
		return v.Live.Places
	}
	var list []core.Place
	for _, p := range v.row.Pools {
		list = append(list, core.Place{Tree: p.Tree, Pool: p.Pool})
	}
	return list
}

// Chain is the operation with everything above it, for permission checks.
func (v *OperationView) Chain(c *pathtree.Request) (auth.Chain, error) {
	spec, err := v.resulting(c)
	if err != nil {
		return nil, err
	}
	var owners []string
	var list auth.ACL
	if spec != nil {
		owners = spec.Owners.Value()
		if given, set := spec.ACL.Get(); set {
			// It was validated when it was set; an unreadable list allows nothing.
			list, _ = auth.ParseACL(given)
		}
	}
	return auth.Chain{auth.OperationObject(v.ID.String(), v.User, owners, list), operationsAccess(c)}, nil
}

// OperationsPath is the path of the operations.
const OperationsPath = "//sys/operations"

// operationsAccess is what all operations inherit. Nothing above it counts: not everybody may see
// what jobs read and wrote.
func operationsAccess(c *pathtree.Request) auth.Object {
	o := auth.Object{Kind: auth.KindNode, Name: OperationsPath, Owner: auth.Root, ACL: auth.OperationsACL(), Isolated: true}
	if _, set := c.Server.Registry().ACL(OperationsPath); set {
		return c.AccessOf(auth.Object{Kind: auth.KindNode, Name: OperationsPath}, OperationsPath)
	}
	return o
}

// MayRead checks whether the user may read an operation's private parts.
func MayRead(c *pathtree.Request, v *OperationView) error {
	chain, err := v.Chain(c)
	if err != nil {
		return err
	}
	return c.Require(auth.ReadOperation(chain))
}

// MustLive refuses requests that an ended operation cannot serve.
func (v *OperationView) MustLive() error {
	if v.Live != nil {
		return nil
	}
	return wire.Errorf(wire.CodeOperationState, "Operation %s is in %q state: it has ended", v.ID, v.row.State).
		With("operation_id", yson.String(v.ID.String())).With("state", yson.String(v.row.State))
}

// PoolChain is a pool with everything above it, for permission checks. A pool that does not exist
// would be created for the user below another one; the chain is then that pool's.
func PoolChain(c *pathtree.Request, tree *server.TreeConfig, pool, user string) (auth.Chain, error) {
	found, there := tree.Tree.Pool(pool)
	if !there {
		found = defaultParent(c, tree.Tree, user)
	}
	path := "//sys/pool_trees/" + wire.EscapedTree(tree.Name)
	if !found.IsRoot() {
		path += found.Path()
	}
	return c.ChainAt(path)
}

// defaultParent is the pool below which the core creates a user's pools: the one in the map of
// users, the tree's default, or the root. It skips FIFO pools.
func defaultParent(c *pathtree.Request, tree *pooltree.Tree, user string) *pooltree.Pool {
	settings := tree.Settings()
	names := []string{settings.DefaultParentPool.Value()}
	if settings.UseUserDefaultParentPoolMap.Value() {
		names = append([]string{c.Server.Registry().DefaultPools()[user]}, names...)
	}
	for _, name := range names {
		if pool, there := tree.Pool(name); there && pool.Effective().Mode != pooltree.FIFO {
			return pool
		}
	}
	return tree.Root()
}

// optionalMap is a document that may be unset.
func optionalMap(o document.Optional[document.Value]) yson.Node {
	value, set := o.Get()
	if !set || value.IsNull() {
		return yson.Map()
	}
	return wire.FromDocument(value)
}

// IsIn reports whether the operation is in a tree.
func (v *OperationView) IsIn(tree string) bool {
	for _, p := range v.Places() {
		if p.Tree == tree {
			return true
		}
	}
	return false
}

// Key identifies the operation.
func (v *OperationView) Key() server.OperationKey { return server.OperationKey{ID: v.ID} }
