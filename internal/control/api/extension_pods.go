package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/value/yson"
)

// listPods is a table of the pods of Kubernetes that Weir schedules, by namespace and name, with counts by namespace.
func listPods(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	var namespace, name, state, text string
	err := c.Parameters.TextsInto(wire.TextInto("namespace", &namespace), wire.TextInto("name", &name), wire.TextInto("state", &state), wire.TextInto("filter", &text))
	if err != nil {
		return yson.Node{}, err
	}
	limit, err := c.Parameters.Integer("limit", 1000)
	if err != nil {
		return yson.Node{}, err
	}
	var pods []picture.Pod
	if c.api.options.Pods != nil {
		if pods, err = c.api.options.Pods(c.Context, namespace, name); err != nil {
			return yson.Node{}, err
		}
	}
	items, total := []yson.Node{}, 0
	namespaces := map[string]*podCounts{}
	for i := range pods {
		p := &pods[i]
		if text != "" && !strings.Contains(p.Name, text) {
			continue
		}
		counts := namespaces[p.Namespace]
		if counts == nil {
			counts = &podCounts{}
			namespaces[p.Namespace] = counts
		}
		counts.add(p.State)
		if state != "" && p.State != state {
			continue
		}
		if total++; int64(total) <= limit {
			items = append(items, podRow(p))
		}
	}
	entries := []yson.Entry{}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		n := namespaces[name]
		entries = append(entries, yson.Pair(name, yson.Map(yson.Pair("waiting", yson.Int64(n.waiting)), yson.Pair("running", yson.Int64(n.running)), yson.Pair("all", yson.Int64(n.all)))))
	}
	return yson.Map(
		yson.Pair("pods", yson.List(items...)), yson.Pair("total", yson.Int64(int64(total))), yson.Pair("namespaces", yson.Map(entries...)),
		yson.Pair("incomplete", yson.Boolean(total > len(items)))), nil
}

// podCounts counts the pods of a namespace.
type podCounts struct{ waiting, running, all int64 }

func (n *podCounts) add(state string) {
	n.all++
	switch state {
	case "waiting":
		n.waiting++
	case "running":
		n.running++
	}
}

func podRow(p *picture.Pod) yson.Node {
	return yson.Map(
		yson.Pair("namespace", yson.String(p.Namespace)), yson.Pair("name", yson.String(p.Name)), yson.Pair("state", yson.String(p.State)),
		yson.Pair("node", yson.String(p.Node)), yson.Pair("creation_time", wire.Instant(p.Created)),
		yson.Pair("operation_id", yson.String(p.Operation)), yson.Pair("alias", yson.String(p.Alias)), yson.Pair("task_name", yson.String(p.Task)),
		yson.Pair("pool_tree", yson.String(p.Tree)), yson.Pair("pool", yson.String(p.Pool)),
		yson.Pair("reason", yson.String(p.Reason)), yson.Pair("message", yson.String(p.Message)))
}
