package api

import (
	"errors"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/notify"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// listNotificationTargets returns how deliveries go. Addresses, headers and secrets stay in the configuration.
func listNotificationTargets(c *call) (yson.Node, error) {
	states := c.notifier().States()
	items := make([]yson.Node, len(states))
	for i, s := range states {
		last, problem := yson.Entity(), yson.Entity()
		if !s.Last.IsZero() {
			last = wire.Instant(s.Last)
		}
		if s.Error != "" {
			problem = yson.String(s.Error)
		}
		items[i] = yson.Map(
			yson.Pair("name", yson.String(s.Target)), yson.Pair("type", yson.String(s.Type)), yson.Pair("waiting", yson.Int64(int64(s.Waiting))),
			yson.Pair("delivered", yson.Int64(int64(s.Delivered))), yson.Pair("failed", yson.Int64(int64(s.Failed))),
			yson.Pair("dropped", yson.Int64(int64(s.Dropped))), yson.Pair("last_attempt", last), yson.Pair("last_error", problem))
	}
	return yson.Map(yson.Pair("targets", yson.List(items...))), nil
}

// testNotification sends a message to a target.
func testNotification(c *call) (yson.Node, error) {
	target, err := c.Parameters.NeedText("target")
	if err != nil {
		return yson.Node{}, err
	}
	switch err := c.notifier().Test(c.Context, target, c.Who.User); {
	case errors.Is(err, notify.ErrNoTarget):
		return yson.Node{}, wire.Errorf(wire.CodeResolve, "There is no notification target %q%s", target, hint(target, c.notifier().Names()))
	case err != nil:
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Target %q did not accept the message", target).Because(err)
	}
	return yson.Map(yson.Pair("target", yson.String(target)), yson.Pair("delivered", yson.Boolean(true))), nil
}

// notifier is never nil: without targets it has none.
func (c *call) notifier() *notify.Notifier {
	if n := c.api.options.Notifier; n != nil {
		return n
	}
	return noNotifier
}

var noNotifier = notify.New(nil, nil, nil, nil, nil)

// checkNotify refuses targets that the configuration does not have.
func (c *call) checkNotify(spec *operation.Spec) error {
	for _, target := range spec.Notify.Value() {
		if !c.notifier().Has(target) {
			return wire.Errorf(wire.CodeGeneric, "notify: there is no notification target %q%s", target, hint(target, c.notifier().Names()))
		}
	}
	return nil
}

// hint says which name was meant, or which names there are.
func hint(name string, names []string) string {
	if nearest, found := document.Nearest(name, names); found {
		return "; did you mean " + nearest + "?"
	}
	if len(names) == 0 {
		return ": the scheduler's configuration names none"
	}
	names = slices.Sorted(slices.Values(names))
	return "; there are " + strings.Join(names, ", ")
}
