package pathtree

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// Names of settings in the store.
const (
	configSetting = "scheduler_config"
	agentsSetting = "controller_agents_config"
)

// settingNode is a document in the registry that configures the scheduler.
type settingNode struct {
	Bare
	setting string
	// check refuses a bad value; apply puts the value into effect once it is stored.
	check func(c *Request, value document.Value) error
	apply func(c *Request, value document.Value)
}

func (settingNode) Kind() string { return "document" }
func (settingNode) Shape() Shape { return DocumentShape }

func (n settingNode) Value(c *Request) (yson.Node, error) {
	return readSetting(c.Server.Registry(), n.setting)
}

func readSetting(r *server.Registry, name string) (yson.Node, error) {
	data, there := r.Setting(name)
	if !there {
		return yson.Map(), nil
	}
	v, err := notation.ParseJSON("", data)
	return wire.FromDocument(v), err
}

func (n settingNode) EditValue(c *Request, at *Place, e edit) error {
	if err := c.Require(auth.Requires(auth.Write, at.Chain(c))); err != nil {
		return err
	}
	var value document.Value
	err := c.EditRegistry(at.Path(), func(r *server.Registry) (*store.Batch, error) {
		old, err := readSetting(r, n.setting)
		if err != nil {
			return nil, err
		}
		next, keep, err := e(old, true)
		if err != nil {
			return nil, err
		}
		if !keep {
			next = yson.Map()
		}
		if next.Kind() != yson.MapKind {
			return nil, wire.Errorf(wire.CodeGeneric, "Cannot update map node with %s value; types must match", next.Kind())
		}
		if value, err = wire.ToDocument(next); err != nil {
			return nil, err
		}
		if n.check != nil {
			if err := n.check(c, value); err != nil {
				return nil, err
			}
		}
		data, err := value.JSON("")
		if err != nil {
			return nil, err
		}
		batch := &store.Batch{}
		batch.Put.Settings = append(batch.Put.Settings, store.Setting{Name: n.setting, Document: data})
		return batch, nil
	})
	if n.apply != nil {
		c.AfterCommit(func() { n.apply(c, value) })
	}
	return err
}

func checkConfig(c *Request, value document.Value) error {
	if c.Tree.Options.CheckConfig == nil {
		return nil
	}
	warnings, err := c.Tree.Options.CheckConfig(value)
	c.Warn(warnings)
	return err
}

func applyConfig(c *Request, value document.Value) {
	if c.Tree.Options.ApplyConfig != nil {
		c.Tree.Options.ApplyConfig(value)
	}
}

// checkDefaultPools requires a map from users to names of pools.
func checkDefaultPools(_ *Request, value document.Value) error {
	for _, e := range value.Entries() {
		if _, ok := e.Value.Text(); !ok {
			return wire.Errorf(wire.CodeGeneric, "Value of user %q has invalid type: expected string, actual %s", document.Shorten(e.Key), e.Value.Kind())
		}
	}
	return nil
}

// instancesNode lists the leader and this server.
func instancesNode(c *Request, orchid func(c *Request) Object) Object {
	return LazyMap{
		List: func() ([]string, error) {
			var addresses []string
			for _, address := range []string{c.Server.Leader().Address, c.Server.Address()} {
				if address != "" {
					addresses = append(addresses, address)
				}
			}
			return SortedUnique(addresses), nil
		},
		Get: func(key string) (Object, error) {
			if key != c.Server.Leader().Address && key != c.Server.Address() {
				return nil, nil
			}
			return LazyMap{
				Opaque: true,
				List:   func() ([]string, error) { return []string{"orchid"}, nil },
				Get: func(key string) (Object, error) {
					if key != "orchid" {
						return nil, nil
					}
					return orchid(c), nil
				},
			}, nil
		},
	}
}

// alertsNode is //sys/scheduler/@alerts.
func alertsNode(c *Request) yson.Node {
	var list []yson.Node
	for _, alert := range c.Server.Alerts() {
		list = append(list, wire.Errorf(wire.CodeGeneric, "%s", alert.Message).
			With("alert_type", yson.String(string(alert.Kind))).With("since", wire.Instant(alert.Since)).Node())
	}
	return yson.List(list...)
}
