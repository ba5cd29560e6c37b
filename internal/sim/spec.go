package sim

import (
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// specOf writes the specification of an operation of equal jobs.
func specOf(w *workload.Operation) (*operation.Spec, error) {
	tasks, err := document.FromGo(map[string]any{"jobs": map[string]any{
		"job_count": w.Jobs, "cpu_limit": w.Resources.Float(resource.CPU), "gpu_limit": w.Resources[resource.GPU],
		"memory_limit": max(w.Resources[resource.Memory], 1), "network_limit": w.Resources[resource.Network],
		"user_job_memory_digest_default_value": 1.0, // a scenario states what its jobs use
	}})
	if err != nil {
		return nil, err
	}
	value := w.Spec
	if value.IsNull() {
		if value, err = document.FromGo(map[string]any{}); err != nil {
			return nil, err
		}
	}
	value = value.With("tasks", withFurther(value, tasks))
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
