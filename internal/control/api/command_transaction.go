package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

func startTransaction(c *call) (yson.Node, error) {
	timeout, err := c.Parameters.Duration("timeout", pathtree.DefaultLease)
	if err != nil {
		return yson.Node{}, err
	}
	above, err := c.Parameters.ID("transaction_id")
	if err != nil {
		return yson.Node{}, err
	}
	if !above.IsZero() {
		if _, err := c.Tree.Leases.Find(above, c.Now); err != nil {
			return yson.Node{}, err
		}
	}
	attributes, err := c.Parameters.Mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	entry := &pathtree.Lease{
		ID: pathtree.NewID(guid.Transaction), Parent: above, Owner: c.Who.User, Timeout: min(timeout, pathtree.MaxLease), Started: c.Now,
		Deadline: c.Now.Add(min(timeout, pathtree.MaxLease)), Attributes: attributes.Entries(),
	}
	return yson.String(entry.ID.String()), c.Tree.Leases.Start(entry)
}

// ownLease is the transaction that a request names. It must belong to the user.
func (c *call) ownLease() (guid.ID, error) {
	id, err := c.Parameters.NeedID("transaction_id")
	if err != nil {
		return id, err
	}
	entry, err := c.Tree.Leases.Find(id, c.Now)
	if err == nil && entry.Owner != c.Who.User && !c.Subjects.IsSuperuser(c.Who.User) {
		err = wire.Errorf(auth.CodeAuthorization, "Access denied for user %q: transaction %s is not theirs", c.Who.User, id)
	}
	return id, err
}

func pingTransaction(c *call) (yson.Node, error) {
	ancestors, err := c.Parameters.Boolean("ping_ancestor_transactions", true)
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Tree.Leases.Ping(c.lease, ancestors, c.Now))
}

func endTransaction(c *call) (yson.Node, error) {
	return nothing(c.Tree.Leases.End(c.lease, c.Now))
}

// lock acquires a lock, so that other requests for a conflicting lock fail. It does not prevent
// writes.
func lock(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	mode, err := c.Parameters.Text("mode", "exclusive")
	if err != nil {
		return yson.Node{}, err
	}
	if mode != "exclusive" && mode != "shared" && mode != "snapshot" {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing lock mode %q: it must be exclusive, shared or snapshot", wire.CutText(mode, 100))
	}
	child, err := c.Parameters.Text("child_key", "")
	if err != nil {
		return yson.Node{}, err
	}
	attribute, err := c.Parameters.Text("attribute_key", "")
	if err != nil {
		return yson.Node{}, err
	}
	key := t.Place.Path() + "\x00" + child + "\x00" + attribute
	if mode != "snapshot" {
		if err := c.Tree.Leases.Lock(key, t.Place.Path(), mode, c.lease, c.Now); err != nil {
			return yson.Node{}, err
		}
	}
	revision, _, err := c.AttributeAt(t.Place, "revision")
	return yson.Map(
		yson.Pair("lock_id", yson.String(pathtree.NewID(guid.Object).String())),
		yson.Pair("node_id", yson.String(t.Identity(c.Request).String())),
		yson.Pair("revision", revision)), err
}

func unlock(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	c.Tree.Leases.Unlock(t.Place.Path(), c.lease)
	return yson.Map(), nil
}
