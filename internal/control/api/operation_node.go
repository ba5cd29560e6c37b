package api

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// keyOf reads the name of an operation in a path: its id, or its alias.
func keyOf(name string) (key server.OperationKey, err error) {
	if name != "" && name[0] == '*' {
		return server.OperationKey{Alias: name}, nil
	}
	key.ID, err = guid.Parse(name)
	return key, err
}

func parsePathText(text string) (ypath.Path, error) { return ypath.Parse(text) }

// operationsNode is //sys/operations: 256 directories, in which operations are by
// the last byte of their ids.
type operationsNode struct{ bare }

func (operationsNode) kind() string { return "map_node" }

// shape keeps whoever reads something above from getting all operations.
func (operationsNode) shape() shape { return opaqueShape }

func (operationsNode) keys(*call) ([]string, error) {
	keys := make([]string, 256)
	for i := range keys {
		keys[i] = fmt.Sprintf("%02x", i)
	}
	return keys, nil
}

func (operationsNode) child(c *call, key string) (object, error) {
	var bucket uint8
	if n, err := fmt.Sscanf(key, "%02x", &bucket); len(key) == 2 && n == 1 && err == nil {
		return operationBucket{bucket: bucket}, nil
	}
	return operationObject(c, key, nil)
}

// operationBucket is //sys/operations/HH.
type operationBucket struct {
	bare
	bucket uint8
}

func (operationBucket) kind() string { return "map_node" }

func (operationBucket) shape() shape { return opaqueShape }

func bucketOf(id guid.ID) uint8 { return uint8(id[3]) }

// keys lists the operations that have not ended; others are found by their ids.
func (b operationBucket) keys(c *call) ([]string, error) {
	var keys []string
	for _, o := range c.server.Operations() {
		if bucketOf(o.ID) == b.bucket {
			keys = append(keys, o.ID.String())
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (b operationBucket) child(c *call, key string) (object, error) {
	return operationObject(c, key, func(id guid.ID) bool { return bucketOf(id) == b.bucket })
}

// operationObject finds an operation by its name in a path, or nil.
func operationObject(c *call, name string, belongs func(guid.ID) bool) (object, error) {
	key, err := keyOf(name)
	if err != nil || belongs != nil && (key.Alias != "" || !belongs(key.ID)) {
		return nil, nil // what is no id is not there
	}
	v, err := c.operationBy(key)
	if e := (*Error)(nil); err != nil {
		if e = asError(err); e.Code == codeNoSuchOperation {
			return nil, nil
		}
		return nil, err
	}
	return operationNode{view: v}, nil
}

// operationNode is an operation as a node: its attributes are those of
// get_operation.
type operationNode struct {
	bare
	view *operationView
}

func (operationNode) kind() string { return "map_node" }

func (operationNode) shape() shape { return opaqueShape }

func (n operationNode) meta(*call) meta {
	m := meta{id: n.view.id}
	if n.view.live != nil {
		m.created = n.view.live.Start
	} else {
		m.created, m.modified = n.view.row.StartTime, n.view.row.FinishTime
	}
	return m
}

// Attributes that nodes have by themselves and operations call differently.
var operationNodeHides = []string{"id", "type"}

func (n operationNode) attribute(c *call, _ *place, name string) (yson.Node, bool, error) {
	a, known := operationAttributeBy(name)
	if !known || slices.Contains(operationNodeHides, name) {
		return yson.Entity(), false, nil
	}
	if a.private {
		if err := c.mayRead(n.view); err != nil {
			return yson.Entity(), false, err
		}
	}
	return a.of(c, n.view)
}

func (n operationNode) attributeNames(c *call) (builtin, custom []string) {
	readable := c.mayRead(n.view) == nil
	for i := range operationAttributes {
		a := &operationAttributes[i]
		if a.private && !readable || slices.Contains(operationNodeHides, a.name) {
			continue
		}
		builtin = append(builtin, a.name)
	}
	return builtin, nil
}

func (n operationNode) keys(*call) ([]string, error) {
	if n.view.live == nil {
		return nil, nil
	}
	return []string{"controller_orchid"}, nil
}

func (n operationNode) child(_ *call, key string) (object, error) {
	if key != "controller_orchid" || n.view.live == nil {
		return nil, nil
	}
	return controllerOrchid(n.view), nil
}

// controllerOrchid is the inside of a running operation.
func controllerOrchid(v *operationView) object {
	return folder{list: []folderChild{
		childValue("state", func(*call) (yson.Node, error) { return yson.String(v.state()), nil }),
		childValue("controller_state", func(*call) (yson.Node, error) { return yson.String(v.state()), nil }),
		childValue("progress", func(c *call) (yson.Node, error) { return fullProgress(c, v) }),
		childValue("brief_progress", func(c *call) (yson.Node, error) { return briefProgress(c, v) }),
		childAt("running_jobs", func(c *call) object { return runningJobs(c, v) }),
		childValue("retained_finished_jobs", func(*call) (yson.Node, error) { return yson.Map(), nil }),
		childValue("unavailable_input_chunks", func(*call) (yson.Node, error) { return yson.List(), nil }),
	}}
}

// runningJobs has the running jobs of an operation by their ids.
func runningJobs(c *call, v *operationView) object {
	return lazyMap{
		list: func() (keys []string, _ error) {
			jobs := c.server.Jobs(v.number)
			slices.SortFunc(jobs, func(a, b *server.Job) int { return cmp.Compare(a.Number, b.Number) })
			for _, job := range jobs {
				keys = append(keys, job.ID.String())
			}
			return keys, nil
		},
		get: func(key string) (object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil // what is no id is not there
			}
			job, there := c.server.Job(id)
			if !there || job.Operation != v.number {
				return nil, nil
			}
			j := &jobView{id: id, operation: v.number, live: job}
			return valueNode(yson.Map(append(j.describeLive(v), yson.Pair("job_type", yson.String(jobType)))...)), nil
		},
	}
}
