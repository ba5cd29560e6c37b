package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// MemorySource is which of the two memory fields of a log is used.
type MemorySource uint8

const (
	NoMemory MemorySource = iota
	UsedMemory
	RequestedMemory
)

// SWFOptions set how a log in the Standard Workload Format becomes operations.
type SWFOptions struct {
	Span
	// JobCPU is how many processors one job has, which must fit on a node; zero
	// means one. A parallel job of the log becomes an operation with as many jobs
	// as it needs.
	JobCPU int
	// Parallel makes operations of several jobs gangs, as parallel programs are.
	// Otherwise their jobs start one by one.
	Parallel bool
	// Memory is per processor; DefaultMemory is used where the log has none.
	Memory        MemorySource
	DefaultMemory int64
}

// The fields of a line, in the order of the format.
const (
	swfJob = iota
	swfSubmit
	swfWait
	swfRun
	swfProcessors
	swfAverageCPU
	swfUsedMemory // KB per processor
	swfRequestedProcessors
	swfRequestedTime
	swfRequestedMemory // KB per processor
	swfStatus
	swfUser
	swfGroup
	swfExecutable
	swfQueue
	swfPartition
	swfPreceding
	swfThinkTime
	swfFieldCount
)

// MemoryPerCore is the memory per core of nodes of unknown size.
const MemoryPerCore = 4 << 30

// longestLine bounds a line of a log; the format needs about 100 characters.
const longestLine = 64 << 10

// ReadSWF reads a log in the Standard Workload Format, version 2.2: header lines
// that start with a semicolon, then one job per line in 18 numbers, -1 for
// unknown. Pools and users are named user-N after the user's number. Jobs that
// never ran or whose processors are unknown are skipped and counted.
func ReadSWF(file string, input io.Reader, options SWFOptions) (*Log, error) {
	reader, err := unzipped(file, input)
	if err != nil {
		return nil, err
	}
	s := &swf{builder: newBuilder(file, options.Span), options: options, header: map[string]string{}}
	lines := bufio.NewScanner(reader)
	lines.Buffer(make([]byte, 0, 4096), longestLine)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if comment, ok := strings.CutPrefix(text, ";"); ok {
			s.headerLine(comment)
			continue
		}
		if text != "" && s.line(number, text) {
			break
		}
		s.last = number
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		s.refuse(s.last+1, "the line has more than %d characters", longestLine)
	} else if err != nil {
		return nil, fmt.Errorf("%s: after line %d: %w", file, s.last, err)
	}
	s.cluster()
	return s.finish()
}

type swf struct {
	*builder
	options SWFOptions
	header  map[string]string
	last    int // line that was read
}

// headerLine stores "Key: value"; the first value of a key wins.
func (s *swf) headerLine(comment string) {
	key, value, ok := strings.Cut(comment, ":")
	key = strings.TrimSpace(key)
	if !ok || key == "" || strings.ContainsAny(key, " \t") {
		return
	}
	if _, has := s.header[key]; !has {
		s.header[key] = strings.TrimSpace(value)
	}
}

// line reads one job. It reports whether to stop.
func (s *swf) line(number int, text string) (stop bool) {
	fields := strings.Fields(text)
	if len(fields) != swfFieldCount {
		return s.refuse(number, "has %d fields; a job has %d", len(fields), swfFieldCount)
	}
	var values [swfFieldCount]float64
	for i, field := range fields {
		v, err := strconv.ParseFloat(field, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return s.refuse(number, "field %d is %q, which is no number", i+1, shorten(field))
		}
		values[i] = v
	}
	for _, field := range []int{swfSubmit, swfRun} {
		if values[field] > mostSeconds {
			return s.refuse(number, "field %d is %v seconds, more than anybody has waited", field+1, values[field])
		}
	}
	return s.job(number, &values)
}

func (s *swf) job(number int, v *[swfFieldCount]float64) (stop bool) {
	processors := v[swfProcessors]
	if processors <= 0 {
		processors = v[swfRequestedProcessors]
	}
	switch {
	case processors > math.MaxInt32:
		return s.refuse(number, "has %v processors", processors)
	case v[swfSubmit] < 0:
		s.skip("the submit time is unknown")
		return false
	case v[swfRun] <= 0:
		s.skip("never ran")
		return false
	case processors <= 0:
		s.skip("the number of processors is unknown")
		return false
	}
	perJob := max(s.options.JobCPU, 1)
	jobs := (int(processors) + perJob - 1) / perJob
	// A job is as large as an even split needs; the last one might be smaller in
	// the log, but jobs of an operation are equal.
	cpus := (int(processors) + jobs - 1) / jobs
	user := "user-unknown"
	if v[swfUser] >= 0 {
		user = fmt.Sprintf("user-%.0f", v[swfUser])
	}
	memory, ok := s.memory(v, cpus)
	if !ok {
		return s.refuse(number, "needs more memory than anybody has")
	}
	s.add(Operation{
		Name: fmt.Sprintf("job-%.0f", v[swfJob]),
		Jobs: jobs, Gang: jobs > 1 && s.options.Parallel,
		Resources: resource.Amounts{
			resource.UserSlots: 1,
			resource.CPU:       int64(cpus) * resource.CPU.Scale(),
			resource.Memory:    memory,
		},
	}, user, user, v[swfSubmit], v[swfRun])
	return false
}

// memory returns the bytes of a job with this many processors.
func (s *swf) memory(v *[swfFieldCount]float64, cpus int) (bytes int64, ok bool) {
	kilobytes := -1.0
	switch s.options.Memory {
	case UsedMemory:
		kilobytes = v[swfUsedMemory]
	case RequestedMemory:
		kilobytes = v[swfRequestedMemory]
	}
	total := kilobytes * 1024 * float64(cpus)
	if kilobytes <= 0 {
		total = float64(s.options.DefaultMemory) * float64(cpus)
	}
	return int64(total), total < float64(resource.Unlimited)
}

// cluster reads the start date and the nodes from the header.
func (s *swf) cluster() {
	if unix, err := strconv.ParseInt(s.header["UnixStartTime"], 10, 64); err == nil && unix > 0 && unix < mostSeconds*10 {
		s.log.Start = time.Unix(unix, 0).UTC().Add(s.span.From)
	}
	processors, err := strconv.Atoi(s.header["MaxProcs"])
	if err != nil || processors <= 0 || processors > math.MaxInt32 {
		return
	}
	nodes, err := strconv.Atoi(s.header["MaxNodes"])
	if err != nil || nodes <= 0 || nodes > processors {
		nodes = processors
	}
	perNode := max((processors+nodes-1)/nodes, s.options.JobCPU, 1)
	resources := resource.Amounts{
		resource.UserSlots: int64(perNode),
		resource.CPU:       int64(perNode) * resource.CPU.Scale(),
		resource.Memory:    int64(perNode) * MemoryPerCore,
	}
	// The log does not state how much memory nodes have: assume enough for the
	// largest job on every processor that it can use.
	for _, o := range s.log.Operations {
		fit := int64(perNode) * resource.CPU.Scale() / max(o.Resources[resource.CPU], 1)
		need := resource.Amounts{resource.Memory: o.Resources[resource.Memory]}.Times(float64(max(fit, 1)))
		resources = resources.Max(need)
	}
	s.log.Nodes = []Nodes{{Name: "node", Count: (processors + perNode - 1) / perNode, Resources: resources}}
}

func shorten(text string) string {
	const longest = 40
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}
