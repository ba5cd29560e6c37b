package orchid

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// keyOf reads the name of an operation in a path: its id or its alias.
func keyOf(name string) (key server.OperationKey, err error) {
	if name != "" && name[0] == '*' {
		return server.OperationKey{Alias: name}, nil
	}
	key.ID, err = guid.Parse(name)
	return key, err
}

func parsePathText(text string) (ypath.Path, error) { return ypath.Parse(text) }

// operationsNode is //sys/operations: 256 directories that hold operations by the last byte of
// their ids.
type operationsNode struct{ pathtree.Bare }

func (operationsNode) Kind() string { return "map_node" }

// Shape is opaque, so that reading an ancestor does not return all operations.
func (operationsNode) Shape() pathtree.Shape { return pathtree.OpaqueShape }

func (operationsNode) Keys(*pathtree.Request) ([]string, error) {
	keys := make([]string, 256)
	for i := range keys {
		keys[i] = fmt.Sprintf("%02x", i)
	}
	return keys, nil
}

func (operationsNode) Child(c *pathtree.Request, key string) (pathtree.Object, error) {
	var bucket uint8
	if n, err := fmt.Sscanf(key, "%02x", &bucket); len(key) == 2 && n == 1 && err == nil {
		return operationBucket{bucket: bucket}, nil
	}
	return operationObject(c, key, nil)
}

// operationBucket is //sys/operations/HH.
type operationBucket struct {
	pathtree.Bare
	bucket uint8
}

func (operationBucket) Kind() string { return "map_node" }

func (operationBucket) Shape() pathtree.Shape { return pathtree.OpaqueShape }

func bucketOf(id guid.ID) uint8 { return uint8(id[3]) }

// Keys lists the live operations; ended ones are found by id.
func (b operationBucket) Keys(c *pathtree.Request) ([]string, error) {
	var keys []string
	for _, o := range c.Server.Operations() {
		if bucketOf(o.ID) == b.bucket {
			keys = append(keys, o.ID.String())
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (b operationBucket) Child(c *pathtree.Request, key string) (pathtree.Object, error) {
	return operationObject(c, key, func(id guid.ID) bool { return bucketOf(id) == b.bucket })
}

// operationObject finds an operation by its name in a path, or nil.
func operationObject(c *pathtree.Request, name string, belongs func(guid.ID) bool) (pathtree.Object, error) {
	key, err := keyOf(name)
	if err != nil || belongs != nil && (key.Alias != "" || !belongs(key.ID)) {
		return nil, nil // a name that is no id matches nothing
	}
	v, err := operationBy(c, key)
	if e := (*wire.Error)(nil); err != nil {
		if e = wire.AsError(err); e.Code == wire.CodeNoSuchOperation {
			return nil, nil
		}
		return nil, err
	}
	return operationNode{view: v}, nil
}

// operationNode is an operation as a node: its attributes are those of
// get_operation.
type operationNode struct {
	pathtree.Bare
	view *OperationView
}

func (operationNode) Kind() string { return "map_node" }

func (operationNode) Shape() pathtree.Shape { return pathtree.OpaqueShape }

func (n operationNode) Meta(*pathtree.Request) pathtree.Meta {
	m := pathtree.Meta{ID: n.view.ID}
	if n.view.Live != nil {
		m.Created = n.view.Live.Start
	} else {
		m.Created, m.Modified = n.view.row.StartTime, n.view.row.FinishTime
	}
	return m
}

// Attributes that all nodes have and operations name differently.
var operationNodeHides = []string{"id", "type"}

func (n operationNode) Attribute(c *pathtree.Request, _ *pathtree.Place, name string) (yson.Node, bool, error) {
	a, known := OperationAttributeBy(name)
	if !known || slices.Contains(operationNodeHides, name) {
		return yson.Entity(), false, nil
	}
	if a.private {
		if err := MayRead(c, n.view); err != nil {
			return yson.Entity(), false, err
		}
	}
	return a.of(c, n.view)
}

// Normal treats hyphens in the names of options of the resulting specification as underscores: it
// has primary names. Names of tasks stay as they are.
func (operationNode) Normal(name string, steps []ypath.Step) []ypath.Step {
	if name != "full_spec" || len(steps) == 0 || steps[0].Kind != ypath.Child {
		return steps
	}
	steps = slices.Clone(steps)
	steps[0].Name = document.Normal(steps[0].Name)
	return steps
}

func (n operationNode) AttributeNames(c *pathtree.Request) (builtin, custom []string) {
	readable := MayRead(c, n.view) == nil
	for i := range operationAttributes {
		a := &operationAttributes[i]
		if a.private && !readable || slices.Contains(operationNodeHides, a.name) {
			continue
		}
		builtin = append(builtin, a.name)
	}
	return builtin, nil
}

func (n operationNode) Keys(*pathtree.Request) ([]string, error) {
	if n.view.Live == nil {
		return nil, nil
	}
	return []string{"controller_orchid"}, nil
}

func (n operationNode) Child(_ *pathtree.Request, key string) (pathtree.Object, error) {
	if key != "controller_orchid" || n.view.Live == nil {
		return nil, nil
	}
	return controllerOrchid(n.view), nil
}

// controllerOrchid is the orchid of a running operation.
func controllerOrchid(v *OperationView) pathtree.Object {
	return folder{list: []folderChild{
		childValue("state", func(*pathtree.Request) (yson.Node, error) { return yson.String(v.state()), nil }),
		childValue("controller_state", func(*pathtree.Request) (yson.Node, error) { return yson.String(v.state()), nil }),
		childValue("progress", func(c *pathtree.Request) (yson.Node, error) { return fullProgress(c, v) }),
		childValue("brief_progress", func(c *pathtree.Request) (yson.Node, error) { return briefProgress(c, v) }),
		childAt("running_jobs", func(c *pathtree.Request) pathtree.Object { return runningJobs(c, v) }),
		childValue("retained_finished_jobs", func(*pathtree.Request) (yson.Node, error) { return yson.Map(), nil }),
		childValue("unavailable_input_chunks", func(*pathtree.Request) (yson.Node, error) { return yson.List(), nil }),
	}}
}

// runningJobs has an operation's running jobs by id.
func runningJobs(c *pathtree.Request, v *OperationView) pathtree.Object {
	return pathtree.LazyMap{
		List: func() (keys []string, _ error) {
			jobs := c.Server.Jobs(v.Number)
			slices.SortFunc(jobs, func(a, b *server.Job) int { return cmp.Compare(a.Number, b.Number) })
			for _, job := range jobs {
				keys = append(keys, job.ID.String())
			}
			return keys, nil
		},
		Get: func(key string) (pathtree.Object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil // a name that is no id matches nothing
			}
			job, there := c.Server.Job(id)
			if !there || job.Operation != v.Number {
				return nil, nil
			}
			j := &JobView{ID: id, Operation: v.Number, Live: job}
			return pathtree.ValueNode(yson.Map(append(j.describeLive(v), yson.Pair("job_type", yson.String(JobType)))...)), nil
		},
	}
}
