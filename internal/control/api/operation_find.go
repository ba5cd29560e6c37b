package api

import (
	"errors"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// operationView is an operation as one request sees it: live, or from the archive.
// What is expensive is read when it is asked for.
type operationView struct {
	id     guid.ID
	number core.OperationID
	kind   string
	user   string
	live   *server.Operation // nil in the archive
	row    *store.Operation  // nil while it lives

	specs    *store.OperationSpec
	progress *store.OperationProgress
	spec     *operation.Spec
}

// operationKey reads which operation a request means.
func (c *call) operationKey() (server.OperationKey, error) {
	var key server.OperationKey
	alias, err := c.parameters.text("operation_alias", "")
	if err != nil {
		return key, err
	}
	id, err := c.parameters.text("operation_id", "")
	switch {
	case err != nil:
		return key, err
	case id != "" && alias != "":
		return key, errorf(codeGeneric, "Parameters /operation_id and /operation_alias cannot be given together")
	case id != "" && id[0] == '*':
		alias, id = id, ""
	case id == "" && alias == "":
		return key, missing("operation_id")
	}
	if alias != "" {
		key.Alias = alias
		return key, nil
	}
	key.ID, err = guid.Parse(id)
	if err != nil {
		return key, errorf(codeGeneric, "Error parsing parameter /operation_id: an operation is named by its id or by its alias, which begins with a star").because(err)
	}
	return key, nil
}

// noOperation is the answer about an operation that was never there or is
// forgotten.
func noOperation(key server.OperationKey) *Error {
	if key.Alias != "" {
		return errorf(codeNoSuchOperation, "No such operation %s", key.Alias).with("operation_alias", yson.String(key.Alias))
	}
	return errorf(codeNoSuchOperation, "No such operation %s", key.ID).with("operation_id", yson.String(key.ID.String()))
}

// findOperation returns the operation of the request.
func (c *call) findOperation() (*operationView, error) {
	key, err := c.operationKey()
	if err != nil {
		return nil, err
	}
	return c.operationBy(key)
}

func (c *call) operationBy(key server.OperationKey) (*operationView, error) {
	if live, there := c.server.Operation(key); there {
		return viewOfLive(live), nil
	}
	var row store.Operation
	var err error
	if key.Alias != "" {
		row, err = c.server.Store().OperationByAlias(c.ctx, key.Alias)
	} else {
		row, err = c.server.Store().OperationByID(c.ctx, key.ID.String())
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, noOperation(key)
	}
	if err != nil {
		return nil, err
	}
	return c.viewOfRow(&row)
}

func viewOfLive(live *server.Operation) *operationView {
	return &operationView{id: live.ID, number: live.Number, kind: live.Type, user: live.User, live: live, spec: live.Spec}
}

// viewOfRow is an operation of the store, which may live all the same.
func (c *call) viewOfRow(row *store.Operation) (*operationView, error) {
	if live, there := c.server.OperationByNumber(core.OperationID(row.Number)); there {
		return viewOfLive(live), nil
	}
	id, err := guid.Parse(row.ID)
	if err != nil {
		return nil, err
	}
	return viewOfStored(id, row), nil
}

func viewOfStored(id guid.ID, row *store.Operation) *operationView {
	return &operationView{id: id, number: core.OperationID(row.Number), kind: row.Type, user: row.User, row: row}
}

// stored reads the rows of an archived operation that are apart from the first.
func (v *operationView) storedSpecs(c *call) (*store.OperationSpec, error) {
	if v.specs == nil {
		specs, err := c.server.Store().OperationSpec(c.ctx, int32(v.number))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		v.specs = &specs
	}
	return v.specs, nil
}

func (v *operationView) storedProgress(c *call) (*store.OperationProgress, error) {
	if v.progress == nil {
		progress, err := c.server.Store().OperationProgress(c.ctx, int32(v.number))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		v.progress = &progress
	}
	return v.progress, nil
}

// resulting is the specification with every default; nil if it is lost.
func (v *operationView) resulting(c *call) (*operation.Spec, error) {
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
	read, err := operation.Read(resulting, operation.ReadOptions{CommandOptional: true})
	if err != nil {
		return nil, err
	}
	v.spec = read.Spec
	return v.spec, nil
}

// places are the pools that the operation is in, or was in, by tree.
func (v *operationView) places() []core.Place {
	if v.live != nil {
		return v.live.Places
	}
	var list []core.Place
	for _, p := range v.row.Pools {
		list = append(list, core.Place{Tree: p.Tree, Pool: p.Pool})
	}
	return list
}

// chain is the operation with what is above it, for questions about permissions.
func (v *operationView) chain(c *call) (auth.Chain, error) {
	spec, err := v.resulting(c)
	if err != nil {
		return nil, err
	}
	var owners []string
	var list auth.ACL
	if spec != nil {
		owners = spec.Owners.Value()
		if given, set := spec.ACL.Get(); set {
			// It was checked when it was set; one that cannot be read allows nothing.
			list, _ = auth.ParseACL(given)
		}
	}
	return auth.Chain{auth.OperationObject(v.id.String(), v.user, owners, list), operationsAccess(c)}, nil
}

// operationsPath is where operations are in the tree of paths.
const operationsPath = "//sys/operations"

// operationsAccess is what all operations inherit. Nothing above it counts: what
// jobs read and wrote is not for everybody.
func operationsAccess(c *call) auth.Object {
	o := auth.Object{Kind: auth.KindNode, Name: operationsPath, Owner: auth.Root, ACL: auth.OperationsACL(), Isolated: true}
	if _, set := c.server.Registry().ACL(operationsPath); set {
		return c.accessOf(auth.Object{Kind: auth.KindNode, Name: operationsPath}, operationsPath)
	}
	return o
}

// mayRead says whether the user may see the private parts of an operation.
func (c *call) mayRead(v *operationView) error {
	chain, err := v.chain(c)
	if err != nil {
		return err
	}
	return c.require(auth.ReadOperation(chain))
}

// manage refuses to those who may not manage an operation, and for operations that
// have ended.
func (c *call) manage() (*operationView, error) {
	v, err := c.findOperation()
	if err != nil {
		return nil, err
	}
	chain, err := v.chain(c)
	if err != nil {
		return nil, err
	}
	if err := c.require(auth.ManageOperation(chain)); err != nil {
		return nil, err
	}
	return v, v.mustLive()
}

// mustLive refuses what cannot be done with an operation that has ended.
func (v *operationView) mustLive() error {
	if v.live != nil {
		return nil
	}
	return errorf(codeOperationState, "Operation %s is in %q state: it has ended", v.id, v.row.State).
		with("operation_id", yson.String(v.id.String())).with("state", yson.String(v.row.State))
}

// poolChain is a pool with what is above it, for questions about permissions. A
// pool that does not exist would be made for the user below another one; then it is
// that.
func (c *call) poolChain(tree *server.TreeConfig, pool, user string) (auth.Chain, error) {
	found, there := tree.Tree.Pool(pool)
	if !there {
		found = c.defaultParent(tree.Tree, user)
	}
	path := "//sys/pool_trees/" + escapedTree(tree.Name)
	if !found.IsRoot() {
		path += found.Path()
	}
	return c.chainAt(path)
}

// defaultParent is the pool below which the core makes pools of a user: that of the
// map of users, that of the tree, or the root; FIFO pools are passed over.
func (c *call) defaultParent(tree *pooltree.Tree, user string) *pooltree.Pool {
	settings := tree.Settings()
	names := []string{settings.DefaultParentPool.Value()}
	if settings.UseUserDefaultParentPoolMap.Value() {
		names = append([]string{c.server.Registry().DefaultPools()[user]}, names...)
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
	return fromDocument(value)
}
