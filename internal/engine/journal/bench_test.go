package journal

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
)

// BenchmarkEncode is what the loop pays for the records of a heartbeat that reports
// the end of a job, and of one that reports nothing.
func BenchmarkEncode(b *testing.B) {
	usage := &operation.Usage{Job: 1 << 40, Duration: time.Minute, UserMaxMemory: 1 << 30, ProxyMaxMemory: 1 << 24}
	for name, input := range map[string]core.Input{
		"end":   &core.HeartbeatInput{Node: 4711, Finished: []core.Finished{{Job: 1 << 40, Usage: usage}}},
		"quiet": &core.HeartbeatInput{Node: 4711},
	} {
		b.Run(name, func(b *testing.B) {
			e := NewEncoder(typesOf(b), noon)
			var records []byte
			now := noon
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(250 * time.Microsecond)
				if records = e.Input(records, now, input, false, Outcome{}); len(records) > FrameSize {
					records = records[:0]
				}
			}
		})
	}
}

// BenchmarkFrame is what another goroutine pays for packing, per byte of records.
func BenchmarkFrame(b *testing.B) {
	types := typesOf(b)
	e := NewEncoder(types, noon)
	var records []byte
	now := noon
	for i := 0; len(records) < FrameSize; i++ {
		now = now.Add(250 * time.Microsecond)
		in := core.HeartbeatInput{Node: core.NodeID(i * 7919 % 10_000)}
		if i%2 == 0 {
			in.Finished = []core.Finished{{Job: core.JobID(i) << 20, Usage: &operation.Usage{Duration: time.Duration(i*7919) * time.Microsecond, UserMaxMemory: int64(i) << 14}}}
		}
		records = e.Input(records, now, &in, false, Outcome{})
	}
	f := NewFramer(types)
	var file []byte
	b.SetBytes(int64(len(records)))
	for b.Loop() {
		file = f.AppendRecords(file[:0], records)
	}
	b.ReportMetric(float64(len(file))/float64(len(records)), "packed/raw")
}
