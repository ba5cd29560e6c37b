package sim

import (
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// specOf writes the specification of an operation of equal jobs.
func specOf(w *workload.Operation) (*operation.Spec, error) {
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
	spec := *specification.Spec
	spec.OperationOptions = w.Options
	return &spec, nil
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
