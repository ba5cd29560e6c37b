package api

import (
	"fmt"
	"net/http"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
)

// permission is what a command requires of its caller. Every row of the table declares one. Once
// there are tokens, the server refuses a command that is not public to callers without a token,
// before it reads the body.
type permission struct {
	// name describes it to people: "read on the path".
	name string
	// public commands need no token.
	public bool
	// check decides before the command runs. If it is nil, the decision depends on the objects that
	// the command finds to change, and is made together with the change: by the nodes of the path
	// tree, by the edit of a pool tree, by the token.
	check func(c *call) error
	// users reports whether every user may run the command; owners, whether the object's owners and
	// those on its list may; administrators, whether members of admins may. Superusers may do
	// everything. This describes the initial access lists, before anybody has changed them.
	users, owners, administrators bool
}

var (
	// public commands reveal nothing about the cluster, or only what a page needs before a user
	// signs in.
	public = permission{name: "nothing", public: true, users: true, owners: true, administrators: true}
	// signedIn commands are for every user with a token.
	signedIn = permission{name: "a token", users: true, owners: true, administrators: true}

	readPath = permission{name: "`read` on the path", check: (*call).mayReadPath, users: true, owners: true, administrators: true}
	// changeNodes is decided by each changed node.
	changeNodes = permission{name: "the permissions that each changed node requires", owners: true, administrators: true}
	askAbout    = permission{name: "a token; about other users, `read` on the path", check: (*call).mayAskAbout, users: true, owners: true, administrators: true}

	readOperations   = readAt(orchid.OperationsPath)
	readOperation    = permission{name: "`read` on //sys/operations or on the operation", check: (*call).mayReadOperation, users: true, owners: true, administrators: true}
	readJob          = permission{name: "`read` on //sys/operations or on the operation", check: (*call).mayReadJob, users: true, owners: true, administrators: true}
	readJobData      = permission{name: "`read` on the operation", check: (*call).mayReadJobData, owners: true, administrators: true}
	manageOperation  = permission{name: "`manage` on the operation", check: (*call).mayManageOperation, owners: true, administrators: true}
	manageJob        = permission{name: "`manage` on the operation", check: (*call).mayManageJob, owners: true, administrators: true}
	updateParameters = permission{
		name:  "`manage` on the operation; `manage` on the pool to change the weight; `use` on pools that it moves to",
		check: (*call).mayUpdateOperation, owners: true, administrators: true,
	}
	usePools = permission{name: "`use` on the pools", check: (*call).mayUsePools, users: true, owners: true, administrators: true}

	// changePools is decided on the tree at the time of the change.
	changePools = permission{name: "the permissions to make each change directly", owners: true, administrators: true}
	writeGroup  = permission{name: "`write` on the group; for superusers, to be one", check: (*call).mayWriteGroup, administrators: true}
	writeNode   = permission{name: "`write` on the node", check: (*call).mayMaintain, owners: true, administrators: true}

	ruleTokens = permission{name: "a token; for tokens of other users, the right to manage them", check: (*call).mayRuleTokensOf, owners: true, administrators: true}
	// revokeTokens is decided by the revoked token.
	revokeTokens = permission{name: "a token; for tokens of other users, the right to manage them", owners: true, administrators: true}
	ownLease     = permission{name: "a transaction of the caller", check: (*call).mayUseLease, owners: true}
	lockNode     = permission{name: "a transaction of the caller, `read` on the path, and `write` unless the mode is snapshot", check: (*call).mayLock, owners: true}

	administer = permission{name: "`administer` on //sys", check: (*call).mayAdminister, administrators: true}
	superuser  = permission{name: "to be a superuser", check: func(c *call) error { return c.Require(auth.Needs{auth.Need{}}) }}
)

// readAt is the permission to read the node at a path.
func readAt(path string) permission {
	return permission{
		name: "`read` on " + path, check: func(c *call) error { return c.mayReadAt(path) }, users: true, owners: true, administrators: true,
	}
}

// admit refuses a command to guests, except public commands. As long as there are no tokens, guests may also
// give the commands that every user may and that change nothing.
func (c *command) admit(who auth.Identity) error {
	if c.needs.public || who.User != auth.Guest || who.Token != "" {
		return nil
	}
	if who.Open {
		if c.needs.users && !c.changes {
			return nil
		}
		return &wire.Error{
			Code: auth.CodeAuthentication, Status: http.StatusUnauthorized,
			Message: fmt.Sprintf("Authentication failed: without a token, requests over TCP may only read, and %q does more. "+
				"On the scheduler's machine, its user and root need none: weir finds the scheduler's socket. Others need a token from weir token create", c.name),
		}
	}
	return noToken(wire.Errorf(auth.CodeAuthorization, "Access denied for user %q: command %q needs a token", auth.Guest, c.name))
}

// noToken is the error for what the guest may not do. It is about authentication, because a user
// with a token may have the permission. Clients then ask for a token.
func noToken(e *wire.Error) *wire.Error {
	return &wire.Error{
		Code: auth.CodeAuthentication, Status: http.StatusUnauthorized, Inner: []*wire.Error{e},
		Message: "Authentication failed: no token was sent, and without one this is not allowed",
	}
}

// permitted decides whether the command may run. It is the only place that enforces the table's
// permissions.
func (c *call) permitted() error {
	if err := c.command.admit(c.Who); err != nil {
		return err
	}
	if c.command.needs.check == nil {
		return nil
	}
	return c.command.needs.check(c)
}

// mayReadPath finds the target of the path. If there is none, the command reports that.
func (c *call) mayReadPath() error {
	if _, err := c.found(); !pathtree.IsResolve(err) {
		return err
	}
	return nil
}

// mayReadAt checks whether the user may read the node at a path.
func (c *call) mayReadAt(path string) error {
	chain, err := c.ChainAt(path)
	if err != nil {
		return err
	}
	return c.Require(auth.Requires(auth.Read, chain))
}

func (c *call) mayAdminister() error {
	chain, err := c.ChainAt("//sys")
	if err != nil {
		return err
	}
	return c.Require(auth.Requires(auth.Administer, chain))
}

func (c *call) mayAskAbout() error {
	user, err := c.Parameters.Text("user", c.Who.User)
	if err != nil || user == c.Who.User {
		return err
	}
	path, err := c.Parameters.Path("path")
	if err != nil {
		return err
	}
	t, err := c.Find(path, false)
	if err != nil {
		return err
	}
	return c.Require(auth.Requires(auth.Read, t.Chain(c.Request)))
}

// seesOperation checks the permission to read an operation's public parts.
func (c *call) seesOperation(v *orchid.OperationView) error {
	own, err := v.Chain(c.Request)
	if err != nil {
		return err
	}
	all, err := c.ChainAt(orchid.OperationsPath)
	if err != nil {
		return err
	}
	return c.Require(auth.Needs{{{Permission: auth.Read, Chain: all}, {Permission: auth.Read, Chain: own}}})
}

func (c *call) mayReadOperation() (err error) {
	if c.operation, err = orchid.FindOperation(c.Request); err != nil {
		return err
	}
	return c.seesOperation(c.operation)
}

func (c *call) mayManageOperation() (err error) {
	if c.operation, err = orchid.FindOperation(c.Request); err != nil {
		return err
	}
	chain, err := c.operation.Chain(c.Request)
	if err != nil {
		return err
	}
	return c.Require(auth.ManageOperation(chain))
}

// findJob finds the request's job and its operation.
func (c *call) findJob() (err error) {
	if c.job, err = c.jobOf(); err != nil {
		return err
	}
	c.operation, err = c.operationOfJob(c.job)
	return err
}

func (c *call) mayReadJob() error {
	if err := c.findJob(); err != nil {
		return err
	}
	return c.seesOperation(c.operation)
}

func (c *call) mayReadJobData() error {
	if err := c.findJob(); err != nil {
		return err
	}
	return orchid.MayRead(c.Request, c.operation)
}

func (c *call) mayManageJob() error {
	if err := c.findJob(); err != nil {
		return err
	}
	chain, err := c.operation.Chain(c.Request)
	if err != nil {
		return err
	}
	return c.Require(auth.ManageOperation(chain))
}

func (c *call) mayWriteGroup() error {
	group, err := c.Parameters.NeedText("group")
	if err != nil {
		return err
	}
	chain, err := c.ChainAtPath(pathtree.JoinPath("//sys/groups", group))
	if err != nil {
		return wire.Errorf(auth.CodeNoSuchUser, "No such group %q", wire.CutText(group, 100))
	}
	return c.Require(c.Subjects.ChangeSubject(auth.Write, group, chain))
}

// mayRuleTokensOf checks whether the user may make and list tokens of the user that the request
// names.
func (c *call) mayRuleTokensOf() error {
	user, err := c.Parameters.Text("user", c.Who.User)
	if err != nil {
		return err
	}
	return c.mayRuleTokens(user)
}

func (c *call) mayUseLease() (err error) {
	c.lease, err = c.ownLease()
	return err
}

func (c *call) mayLock() error {
	if err := c.mayUseLease(); err != nil {
		return err
	}
	t, err := c.found()
	if err != nil {
		return err
	}
	if mode, err := c.Parameters.Text("mode", "exclusive"); err != nil || mode == "snapshot" || c.command.name == "unlock" {
		return err
	}
	return c.Require(auth.Requires(auth.Write, t.Chain(c.Request)))
}
