package journal

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/resource"
)

// Gates are reasons outside the core for which nodes get no jobs, from a moment on. A journal has them
// whenever they change and at the start of every segment with a checkpoint. They do not
// change what the core decides: only answers about a moment need them.
type Gates struct {
	// Cluster has the gates that keep all nodes from getting jobs, Nodes those of single nodes in the
	// order of their numbers.
	Cluster []Gate     `json:"cluster,omitempty"`
	Nodes   []NodeGate `json:"nodes,omitempty"`
}

// Gate keeps all nodes from getting jobs. Code is that of its blocker.
type Gate struct {
	Code  string    `json:"code"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Nodes []string  `json:"nodes,omitempty"` // that a new leader awaits
}

// NodeGate keeps one node from getting jobs.
type NodeGate struct {
	Node      core.NodeID      `json:"node"`
	Name      string           `json:"name"`
	Code      string           `json:"code"`
	Resources resource.Amounts `json:"resources"`
	Tags      []string         `json:"tags,omitempty"`
}

// Same reports whether the same gates are closed, since whenever.
func (g *Gates) Same(other *Gates) bool {
	return slices.EqualFunc(g.Cluster, other.Cluster, func(a, b Gate) bool { return a.Code == b.Code && slices.Equal(a.Nodes, b.Nodes) }) &&
		slices.EqualFunc(g.Nodes, other.Nodes, func(a, b NodeGate) bool {
			return a.Node == b.Node && a.Name == b.Name && a.Code == b.Code && a.Resources == b.Resources && slices.Equal(a.Tags, b.Tags)
		})
}

// Gates appends the gates that are closed from now on.
func (e *Encoder) Gates(into []byte, now time.Time, g *Gates) []byte {
	data, err := json.Marshal(g)
	if err != nil {
		panic(err) // it has only texts, numbers and times
	}
	into = binary.AppendUvarint(e.head(into, now, gatesTag), uint64(len(data)))
	return append(into, data...)
}

func (d *Decoder) gates(e Event) (Event, error) {
	length, n := binary.Uvarint(d.rest)
	if n <= 0 || length > uint64(len(d.rest)-n) {
		return Event{}, d.frames.wrong("the gates of a moment are incomplete")
	}
	data := d.rest[n : n+int(length)]
	d.rest = d.rest[n+int(length):]
	e.Gates = &Gates{}
	if err := json.Unmarshal(data, e.Gates); err != nil {
		return Event{}, d.frames.wrong("the gates of a moment: %v", err)
	}
	return e, nil
}

// rename returns the gates with other names of nodes and tags.
func (g *Gates) rename(text func(Class, string) string) *Gates {
	renamed := func(class Class, names []string) (list []string) {
		for _, name := range names {
			list = append(list, text(class, name))
		}
		return list
	}
	r := &Gates{Cluster: slices.Clone(g.Cluster), Nodes: slices.Clone(g.Nodes)}
	for i := range r.Cluster {
		r.Cluster[i].Nodes = renamed(Nodes, r.Cluster[i].Nodes)
	}
	for i := range r.Nodes {
		r.Nodes[i].Name, r.Nodes[i].Tags = text(Nodes, r.Nodes[i].Name), renamed(Tags, r.Nodes[i].Tags)
	}
	return r
}
