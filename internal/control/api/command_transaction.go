package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(
	command{name: "start_transaction", v3: "start_tx", volatile: true, result: "transaction_id", run: startTransaction},
	command{name: "ping_transaction", v3: "ping_tx", volatile: true, silentV3: true, run: pingTransaction},
	command{name: "commit_transaction", v3: "commit_tx", volatile: true, silentV3: true, run: endTransaction},
	command{name: "abort_transaction", v3: "abort_tx", volatile: true, silentV3: true, run: endTransaction},
	command{name: "lock", volatile: true, run: lock},
	command{name: "unlock", volatile: true, silentV3: true, run: unlock},
)

func startTransaction(c *call) (yson.Node, error) {
	timeout, err := c.parameters.duration("timeout", defaultLease)
	if err != nil {
		return yson.Node{}, err
	}
	above, err := c.parameters.id("transaction_id")
	if err != nil {
		return yson.Node{}, err
	}
	if !above.IsZero() {
		if _, err := c.tree.leases.find(above, c.now); err != nil {
			return yson.Node{}, err
		}
	}
	attributes, err := c.parameters.mapping("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	if c.who.User == auth.Guest {
		return yson.Node{}, errorf(auth.CodeAuthorization, "Access denied for user %q: transactions need a token", c.who.User)
	}
	entry := &lease{
		id: newID(guid.Transaction), parent: above, owner: c.who.User, timeout: min(timeout, maxLease), started: c.now,
		deadline: c.now.Add(min(timeout, maxLease)), attributes: attributes.Entries(),
	}
	return yson.String(entry.id.String()), c.tree.leases.start(entry)
}

// ownLease is the transaction that a request names, which must be the user's.
func (c *call) ownLease() (guid.ID, error) {
	id, err := c.parameters.needID("transaction_id")
	if err != nil {
		return id, err
	}
	entry, err := c.tree.leases.find(id, c.now)
	if err == nil && entry.owner != c.who.User && !c.subjects.IsSuperuser(c.who.User) {
		err = errorf(auth.CodeAuthorization, "Access denied for user %q: transaction %s is not theirs", c.who.User, id)
	}
	return id, err
}

func pingTransaction(c *call) (yson.Node, error) {
	id, err := c.ownLease()
	if err != nil {
		return yson.Node{}, err
	}
	ancestors, err := c.parameters.boolean("ping_ancestor_transactions", true)
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.tree.leases.ping(id, ancestors, c.now))
}

func endTransaction(c *call) (yson.Node, error) {
	id, err := c.ownLease()
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.tree.leases.end(id, c.now))
}

// lock keeps others who ask from getting a lock. It keeps nobody from writing.
func lock(c *call) (yson.Node, error) {
	id, err := c.ownLease()
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	mode, err := c.parameters.text("mode", "exclusive")
	if err != nil {
		return yson.Node{}, err
	}
	if mode != "exclusive" && mode != "shared" && mode != "snapshot" {
		return yson.Node{}, errorf(codeGeneric, "Error parsing lock mode %q: it must be exclusive, shared or snapshot", cutText(mode, 100))
	}
	child, err := c.parameters.text("child_key", "")
	if err != nil {
		return yson.Node{}, err
	}
	attribute, err := c.parameters.text("attribute_key", "")
	if err != nil {
		return yson.Node{}, err
	}
	key := t.place.path() + "\x00" + child + "\x00" + attribute
	if mode != "snapshot" {
		if err := c.require(auth.Requires(auth.Write, t.chain(c))); err != nil {
			return yson.Node{}, err
		}
		if err := c.tree.leases.lock(key, t.place.path(), mode, id, c.now); err != nil {
			return yson.Node{}, err
		}
	}
	revision, _, err := c.attributeAt(t.place, "revision")
	return yson.Map(
		yson.Pair("lock_id", yson.String(newID(guid.Object).String())),
		yson.Pair("node_id", yson.String(t.identity(c).String())),
		yson.Pair("revision", revision)), err
}

func unlock(c *call) (yson.Node, error) {
	id, err := c.ownLease()
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	c.tree.leases.unlock(t.place.path(), id)
	return yson.Map(), nil
}
