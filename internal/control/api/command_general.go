package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

func getVersion(c *call) (yson.Node, error) { return yson.String(c.api.options.Version), nil }

func getSupportedFeatures(*call) (yson.Node, error) { return orchid.SupportedFeatures(), nil }

func getCurrentUser(c *call) (yson.Node, error) {
	return yson.Map(yson.Pair("user", yson.String(c.Who.User))), nil
}

// generateTimestamp returns a number that grows with time, in YTsaurus's layout: seconds and a
// 30-bit counter.
func generateTimestamp(c *call) (yson.Node, error) {
	return yson.Uint64(uint64(c.Now.Unix())<<30 | uint64(c.Now.Nanosecond())), nil
}

func discoverProxies(c *call) (yson.Node, error) {
	return yson.Map(yson.Pair("proxies", wire.Texts([]string{c.Server.Address()}))), nil
}

// parsePath splits a rich path into a string and attributes.
func parsePath(c *call) (yson.Node, error) {
	given, ok := c.Parameters.Get("path")
	if !ok {
		return given, wire.Missing("path")
	}
	text, ok := given.Text()
	if !ok {
		return given, wire.WrongType("path", "string", given)
	}
	attributes, rest, err := yson.CutAttributes([]byte(text))
	if err != nil {
		return given, wire.Errorf(wire.CodeGeneric, "Error parsing attributes of path %q", wire.CutText(text, 200)).Because(err)
	}
	plain, suffix := ypath.CutSuffix(string(rest))
	if _, err := ypath.Parse(plain); err != nil {
		return given, wire.Errorf(wire.CodeGeneric, "Error parsing path").Because(err)
	}
	if suffix != "" {
		attributes = append(attributes, yson.Pair("suffix", yson.String(suffix)))
	}
	return yson.String(plain).WithAttributes(wire.Distinct(append(attributes, given.Attributes()...))...), nil
}

// checkPermission answers whether a user has a permission. Every user may ask about themselves. To
// ask about others, a user needs to read the object.
func checkPermission(c *call) (yson.Node, error) {
	user, err := c.Parameters.Text("user", c.Who.User)
	if err != nil {
		return yson.Node{}, err
	}
	name, err := c.Parameters.NeedText("permission")
	if err != nil {
		return yson.Node{}, err
	}
	permission, err := auth.ParsePermission(name)
	if err != nil {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing permission %q", wire.CutText(name, 100)).Because(err)
	}
	path, err := c.Parameters.Path("path")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Find(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	if !c.Subjects.IsUser(user) {
		return yson.Node{}, wire.Errorf(auth.CodeNoSuchUser, "No such user %q", wire.CutText(user, 100))
	}
	return permissionAnswer(c.Subjects.Check(user, permission, t.Chain(c.Request))), nil
}

func permissionAnswer(a auth.Answer) yson.Node {
	action := auth.Deny
	if a.Allowed {
		action = auth.Allow
	}
	entries := []yson.Entry{
		yson.Pair("action", yson.String(action.String())),
		yson.Pair("reason", yson.String(a.Reason.String())),
	}
	if a.DecidedAt != "" {
		entries = append(entries,
			yson.Pair("object_name", yson.String(a.DecidedAt)),
			yson.Pair("subject_name", yson.String(a.Subject)))
	}
	return yson.Map(entries...)
}
