// Package trace reads recorded workloads: logs in the Standard Workload Format
// of the Parallel Workloads Archive, and the pod and node lists of Alibaba's GPU
// cluster trace of 2023. Both become a [Log] of operations with the pools and
// nodes they ran on, which a scenario can replay.
//
// Files are read as a stream, gzip or plain, and problems are reported with line
// numbers. The package opens no file itself. It imports document and resource,
// and knows nothing about scenarios or simulation.
package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Log is a recorded workload.
type Log struct {
	// Start is the date of the log's time zero, if known.
	Start time.Time
	// Nodes are what the workload ran on, if the log states it.
	Nodes []Nodes
	// Operations are in the order of Submit, and of the log among equals.
	Operations []Operation
	// Pools are the names that operations give as their pools, in the order of
	// their first operation.
	Pools []string
	// Users are the names of users, in the order of their first operation.
	Users []string
	// Skipped counts what was left out, by reason, in order of first appearance.
	Skipped []Skipped
}

// Nodes are nodes of one kind.
type Nodes struct {
	Name      string
	Count     int
	Resources resource.Amounts
	Tags      []string
}

// Operation is one recorded piece of work: equal jobs that start together if
// they can.
type Operation struct {
	Name string
	// Pool and User index Log.Pools and Log.Users.
	Pool, User int32
	// Submit counts from the log's time zero; Run is how long each job runs.
	Submit, Run time.Duration
	Jobs        int
	Resources   resource.Amounts // of one job
	// Filter is a formula over node tags; empty means any node.
	Filter string
	Gang   bool
}

// Skipped counts records that were left out for one reason.
type Skipped struct {
	Reason string
	Count  int
}

// Span is the part of a log to use. The zero Span uses everything as it is.
type Span struct {
	// From and To bound the submit times to use; the result starts at zero. A To
	// of zero means the end.
	From, To time.Duration
	// Scale multiplies times of submission and running, to make a log shorter or
	// longer. Zero means one.
	Scale float64
	// MaxOperations bounds how many operations are used; zero means all.
	MaxOperations int
}

// mostProblems is how many invalid lines are reported before reading stops.
const mostProblems = 20

// mostSeconds bounds times in logs: some 95 years.
const mostSeconds = 3e9

// builder collects a log.
type builder struct {
	file     string
	span     Span
	log      *Log
	pools    map[string]int32
	users    map[string]int32
	skipped  map[string]int
	problems document.Problems
}

func newBuilder(file string, span Span) *builder {
	if span.Scale == 0 {
		span.Scale = 1
	}
	return &builder{
		file: file, span: span, log: new(Log),
		pools: map[string]int32{}, users: map[string]int32{}, skipped: map[string]int{},
	}
}

// refuse records a problem and reports whether there are too many to continue.
func (b *builder) refuse(line int, format string, args ...any) (stop bool) {
	b.problems = append(b.problems, document.Problem{
		File: b.file, Position: document.Position{Line: int32(line), Column: 1},
		Rule: document.RuleBadFormat, Message: fmt.Sprintf(format, args...),
	})
	return len(b.problems) >= mostProblems
}

func (b *builder) skip(reason string) {
	i, ok := b.skipped[reason]
	if !ok {
		i = len(b.log.Skipped)
		b.skipped[reason] = i
		b.log.Skipped = append(b.log.Skipped, Skipped{Reason: reason})
	}
	b.log.Skipped[i].Count++
}

// name returns the index of a name, which it adds to the list if it is new.
func name(known map[string]int32, list *[]string, text string) int32 {
	i, ok := known[text]
	if !ok {
		i = int32(len(*list))
		known[text] = i
		*list = append(*list, text)
	}
	return i
}

// add adds an operation if it is within the span. Seconds count from the log's
// zero.
func (b *builder) add(o Operation, pool, user string, submit, run float64) {
	from, to := b.span.From.Seconds(), b.span.To.Seconds()
	switch {
	case submit < from || to > 0 && submit >= to:
		b.skip("submitted outside the selected span")
		return
	case b.span.MaxOperations > 0 && len(b.log.Operations) >= b.span.MaxOperations:
		b.skip("beyond the selected number of operations")
		return
	}
	o.Submit = seconds((submit - from) * b.span.Scale)
	o.Run = max(seconds(run*b.span.Scale), time.Millisecond)
	o.Pool = name(b.pools, &b.log.Pools, pool)
	o.User = name(b.users, &b.log.Users, user)
	b.log.Operations = append(b.log.Operations, o)
}

// seconds rounds to milliseconds, so that scaled times stay readable.
func seconds(s float64) time.Duration {
	return time.Duration(math.Round(s*1000)) * time.Millisecond
}

// finish returns the log, or what was wrong with the file.
func (b *builder) finish() (*Log, error) {
	if len(b.problems) >= mostProblems {
		b.problems = append(b.problems, document.Problem{File: b.file, Rule: document.RuleBadFormat,
			Message: fmt.Sprintf("reading stopped after %d problems", mostProblems)})
	}
	if len(b.problems) > 0 {
		return nil, b.problems
	}
	slices.SortStableFunc(b.log.Operations, func(x, y Operation) int { return cmp.Compare(x.Submit, y.Submit) })
	return b.log, nil
}

// unzipped decompresses gzip and passes on everything else.
func unzipped(file string, input io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(input, 1<<16)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	plain, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return bufio.NewReaderSize(plain, 1<<16), nil
}
