package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// Names of settings in the store.
const (
	configSetting = "scheduler_config"
	agentsSetting = "controller_agents_config"
)

var (
	_ = mountAt("//sys/scheduler/config", func(*call) object { return settingNode{setting: configSetting, check: checkConfig, apply: applyConfig} })
	_ = mountAt("//sys/scheduler/user_to_default_pool", func(*call) object { return settingNode{setting: server.DefaultPoolsSetting, check: checkDefaultPools} })
	_ = mountAt("//sys/controller_agents/config", func(*call) object { return settingNode{setting: agentsSetting} })
	_ = mountAt("//sys/scheduler/instances", func(c *call) object { return instancesNode(c, func() object { return hook(schedulerOrchid, c) }) })
	_ = mountAt("//sys/controller_agents/instances", func(c *call) object { return instancesNode(c, func() object { return hook(agentOrchid, c) }) })
)

func hook(make func(c *call) object, c *call) object {
	if make == nil {
		return nil
	}
	return make(c)
}

// settingNode is a document of the registry that the scheduler obeys.
type settingNode struct {
	bare
	setting string
	// check refuses a value; apply puts it into force when it is stored.
	check func(c *call, value document.Value) error
	apply func(c *call, value document.Value)
}

func (settingNode) kind() string { return "document" }
func (settingNode) shape() shape { return documentShape }

func (n settingNode) value(c *call) (yson.Node, error) {
	return readSetting(c.server.Registry(), n.setting)
}

func readSetting(r *server.Registry, name string) (yson.Node, error) {
	data, there := r.Setting(name)
	if !there {
		return yson.Map(), nil
	}
	v, err := notation.ParseJSON("", data)
	return fromDocument(v), err
}

func (n settingNode) editValue(c *call, at *place, e edit) error {
	if err := c.require(auth.Requires(auth.Write, at.chain(c))); err != nil {
		return err
	}
	var value document.Value
	err := c.editRegistry(at.path(), func(r *server.Registry) (*store.Batch, error) {
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
			return nil, errorf(codeGeneric, "Cannot update map node with %s value; types must match", next.Kind())
		}
		if value, err = toDocument(next); err != nil {
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
	if err == nil && n.apply != nil {
		n.apply(c, value)
	}
	return err
}

func checkConfig(c *call, value document.Value) error {
	if c.api.options.CheckConfig == nil {
		return nil
	}
	warnings, err := c.api.options.CheckConfig(value)
	c.warn(warnings)
	return err
}

func applyConfig(c *call, value document.Value) {
	if c.api.options.ApplyConfig != nil {
		c.api.options.ApplyConfig(value)
	}
}

// checkDefaultPools wants names of pools by users.
func checkDefaultPools(_ *call, value document.Value) error {
	for _, e := range value.Entries() {
		if _, ok := e.Value.Text(); !ok {
			return errorf(codeGeneric, "Value of user %q has invalid type: expected string, actual %s", document.Shorten(e.Key), e.Value.Kind())
		}
	}
	return nil
}

// instancesNode lists the schedulers that lead or answer here.
func instancesNode(c *call, orchid func() object) object {
	return lazyMap{
		list: func() ([]string, error) {
			var addresses []string
			for _, address := range []string{c.server.Leader().Address, c.server.Address()} {
				if address != "" {
					addresses = append(addresses, address)
				}
			}
			return sortedUnique(addresses), nil
		},
		get: func(key string) (object, error) {
			if key != c.server.Leader().Address && key != c.server.Address() {
				return nil, nil
			}
			return lazyMap{
				opaque: true,
				list:   func() ([]string, error) { return []string{"orchid"}, nil },
				get: func(key string) (object, error) {
					if key != "orchid" {
						return nil, nil
					}
					return orchid(), nil
				},
			}, nil
		},
	}
}

// alertsNode is //sys/scheduler/@alerts.
func alertsNode(c *call) yson.Node {
	var list []yson.Node
	for _, alert := range c.server.Alerts() {
		list = append(list, errorf(codeGeneric, "%s", alert.Message).
			with("alert_type", yson.String(string(alert.Kind))).with("since", instant(alert.Since)).node())
	}
	return yson.List(list...)
}
