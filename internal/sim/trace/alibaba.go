package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/resource"
)

// AlibabaOptions set how the GPU cluster trace of 2023 becomes operations.
type AlibabaOptions struct {
	Span
	// GPUThousandths counts GPUs in thousandths, on nodes too, so that pods can
	// share one. Otherwise a part of a GPU is rounded up to a whole one.
	GPUThousandths bool
	// UserSlots is how many jobs a node can run at once; zero means 256, more
	// than ever fit.
	UserSlots int
}

const defaultSlots = 256

// The columns of the two lists.
var (
	alibabaPods = []string{
		"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec",
		"qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time",
	}
	alibabaNodes = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
)

// ReadAlibaba reads the list of pods and the list of nodes of the trace
// cluster-trace-gpu-v2023. A pod becomes an operation with one job in the pool
// of its quality class; it may use nodes with the GPU models that it names. Pods
// that were never scheduled have no known running time and are skipped.
func ReadAlibaba(podFile string, pods io.Reader, nodeFile string, nodes io.Reader, options AlibabaOptions) (*Log, error) {
	a := &alibaba{
		builder: newBuilder(podFile, options.Span), options: options,
		groups: map[nodeKind]int{}, sizes: map[string]int{},
	}
	if err := a.table(podFile, pods, alibabaPods, a.pod); err != nil {
		return nil, err
	}
	if nodes != nil {
		a.file = nodeFile
		if err := a.table(nodeFile, nodes, alibabaNodes, a.node); err != nil {
			return nil, err
		}
	}
	return a.finish()
}

type alibaba struct {
	*builder
	options AlibabaOptions
	groups  map[nodeKind]int // index in Log.Nodes
	sizes   map[string]int   // kinds of nodes by their model
}

// nodeKind is what makes nodes equal.
type nodeKind struct {
	model     string
	resources resource.Amounts
}

// record is a line of a table, by the names of its columns.
type record struct {
	line   int
	fields []string
	column map[string]int
}

func (r record) text(column string) string { return strings.TrimSpace(r.fields[r.column[column]]) }

// number reads a column; empty is -1.
func (r record) number(column string) (float64, error) {
	text := r.text(column)
	if text == "" {
		return -1, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v || v < -1 || v > 1e15 {
		return 0, fmt.Errorf("%s is %q, which is no number from 0 to 1e15", column, shorten(text))
	}
	return v, nil
}

// numbers reads several columns.
func (r record) numbers(columns ...string) (values []float64, err error) {
	for _, column := range columns {
		v, err := r.number(column)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// table reads a list whose first line names its columns, in any order.
func (a *alibaba) table(file string, input io.Reader, columns []string, take func(record) (stop bool)) error {
	plain, err := unzipped(file, input)
	if err != nil {
		return err
	}
	lines := csv.NewReader(plain)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if errors.Is(err, io.EOF) {
		a.refuse(1, "the file is empty; its first line names the columns %s", strings.Join(columns, ", "))
		return nil
	}
	if err != nil {
		return a.broken(file, err)
	}
	column := map[string]int{}
	for i, name := range header {
		column[strings.TrimPrefix(strings.TrimSpace(name), "\ufeff")] = i
	}
	var missing []string
	for _, name := range columns {
		if _, ok := column[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		a.refuse(1, "there is no column %s; needed are %s", strings.Join(missing, ", "), strings.Join(columns, ", "))
	}
	if len(a.problems) > 0 {
		return nil
	}
	for {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return a.broken(file, err)
		}
		line, _ := lines.FieldPos(0)
		if take(record{line, fields, column}) {
			return nil
		}
	}
}

// broken reports text that is not a table with its line; other errors are read
// errors.
func (a *alibaba) broken(file string, err error) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		a.refuse(syntax.Line, "%v", syntax.Err)
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

func (a *alibaba) pod(r record) (stop bool) {
	v, err := r.numbers("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
	if err != nil {
		return a.refuse(r.line, "%v", err)
	}
	cpu, memory, gpus, part, created, deleted, scheduled := v[0], v[1], v[2], v[3], v[4], v[5], v[6]
	qos := r.text("qos")
	switch {
	case r.text("name") == "" || qos == "":
		return a.refuse(r.line, "a pod needs a name and a qos")
	case created < 0 || created > mostSeconds || deleted > mostSeconds:
		return a.refuse(r.line, "the creation or deletion time is missing or beyond %v seconds", mostSeconds)
	case scheduled < 0:
		a.skip("never scheduled, so that its running time is unknown")
		return false
	case deleted < scheduled:
		a.skip("never finished")
		return false
	case cpu <= 0 && gpus <= 0:
		a.skip("requests no resources")
		return false
	}
	a.add(Operation{
		Name: r.text("name"), Jobs: 1, Filter: modelFilter(r.text("gpu_spec")),
		Resources: a.resources(cpu, memory, a.gpus(gpus, part), 1),
	}, qos, qos, created, max(deleted-scheduled, 1))
	return false
}

// gpus returns how much of the resource a pod needs: whole GPUs, or a part of
// one.
func (a *alibaba) gpus(count, milli float64) int64 {
	switch {
	case count <= 0:
		return 0
	case !a.options.GPUThousandths:
		return int64(count)
	case count == 1 && 0 < milli && milli < 1000:
		return int64(milli)
	}
	return int64(count) * 1000
}

func (a *alibaba) resources(cpuMilli, memoryMiB float64, gpus int64, slots int) resource.Amounts {
	return resource.Amounts{
		resource.UserSlots: int64(slots),
		resource.CPU:       resource.FromFloat(resource.CPU, max(cpuMilli, 0)/1000),
		resource.Memory:    resource.FromFloat(resource.Memory, max(memoryMiB, 0)*(1<<20)),
		resource.GPU:       gpus,
	}
}

// modelFilter turns "V100M16|V100M32" into a formula over node tags.
func modelFilter(spec string) string {
	var models []string
	for model := range strings.SplitSeq(spec, "|") {
		if model = modelTag(model); model != "" {
			models = append(models, model)
		}
	}
	return strings.Join(models, " | ")
}

// modelTag keeps the characters of a model's name that a tag may contain. A tag
// is not a number.
func modelTag(model string) string {
	tag := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.' {
			return c
		}
		return -1
	}, model)
	if tag == "in" || tag != "" && strings.Trim(tag, "0123456789") == "" {
		tag = "model-" + tag
	}
	return tag
}

func (a *alibaba) node(r record) (stop bool) {
	v, err := r.numbers("cpu_milli", "memory_mib", "gpu")
	if err != nil {
		return a.refuse(r.line, "%v", err)
	}
	if v[0] <= 0 || v[1] <= 0 {
		return a.refuse(r.line, "a node needs cpu_milli and memory_mib")
	}
	gpus := int64(max(v[2], 0))
	if a.options.GPUThousandths {
		gpus *= 1000
	}
	slots := a.options.UserSlots
	if slots <= 0 {
		slots = defaultSlots
	}
	kind := nodeKind{modelTag(r.text("model")), a.resources(v[0], v[1], gpus, slots)}
	if i, known := a.groups[kind]; known {
		a.log.Nodes[i].Count++
		return false
	}
	group := Nodes{Name: "cpu", Count: 1, Resources: kind.resources}
	if kind.model != "" {
		group.Name, group.Tags = kind.model, []string{kind.model}
	}
	// A model comes in several sizes; a number distinguishes them.
	a.sizes[kind.model]++
	if n := a.sizes[kind.model]; n > 1 {
		group.Name = fmt.Sprintf("%s-%d", group.Name, n)
	}
	a.groups[kind] = len(a.log.Nodes)
	a.log.Nodes = append(a.log.Nodes, group)
	return false
}
