package sim

import (
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// specs remembers specifications: most operations of a template or a trace have the
// same, and reading one costs more than anything else about a small operation.
type specs map[specKey]*operation.Spec

// specKey is what a specification is made from, without the options for pool trees.
type specKey struct {
	spec      document.Value
	jobs      int
	resources resource.Amounts
}

// mostSpecs bounds the memory for specifications.
const mostSpecs = 10_000

// of returns the specification of an operation of equal jobs.
func (s *specs) of(w *workload.Operation) (*operation.Spec, error) {
	key := specKey{w.Spec, w.Jobs, w.Resources}
	known, ok := (*s)[key]
	if !ok {
		var err error
		if known, err = readSpec(w); err != nil {
			return nil, err
		}
		if *s == nil || len(*s) >= mostSpecs {
			*s = specs{}
		}
		(*s)[key] = known
	}
	spec := *known
	spec.OperationOptions = w.Options
	return &spec, nil
}

// readSpec writes a specification and reads it.
func readSpec(w *workload.Operation) (*operation.Spec, error) {
	tasks := document.Map(document.Pair("jobs", document.Map(
		document.Pair("job_count", document.Int(int64(w.Jobs))),
		document.Pair("cpu_limit", document.Float(w.Resources.Float(resource.CPU))),
		document.Pair("gpu_limit", document.Int(w.Resources[resource.GPU])),
		document.Pair("memory_limit", document.Int(max(w.Resources[resource.Memory], 1))),
		document.Pair("network_limit", document.Int(w.Resources[resource.Network])),
		document.Pair("user_job_memory_digest_default_value", document.Float(1)), // a scenario states what its jobs use
	)))
	value := w.Spec.With("tasks", withFurther(w.Spec, tasks))
	specification, err := operation.Read(value, operation.ReadOptions{CommandOptional: true})
	if err != nil {
		return nil, err
	}
	return specification.Spec, nil
}

// withFurther adds to the one task, named jobs, the other options that the
// scenario has for it.
func withFurther(spec, tasks document.Value) document.Value {
	given, _ := spec.Get("tasks")
	further, ok := given.Get("jobs")
	if !ok {
		return tasks
	}
	own, _ := tasks.Get("jobs")
	for _, e := range own.Entries() {
		further = further.With(e.Key, e.Value)
	}
	return tasks.With("jobs", further)
}
