package yson

import (
	"fmt"
	"testing"
)

// orchid is the workload of the benchmarks: a scheduler's answer to a request for all pools of a tree. A map of 2,000 pools under their names, each a map of 24 fields: four strings, six whole
// numbers, two booleans, an entity, five doubles with all their digits, and six maps of shares or
// amounts with five numbers each; one pool in ten has two attributes. It has 110,401 values, attributes
// included, and is 2.4 MB as text and as JSON, 4.0 MB as pretty text and 2.3 MB in binary. Nothing in it is
// random, so figures can be compared between runs.
func orchid() (n Node, values int) {
	const pools = 2000
	entries := make([]Entry, pools)
	for i := range entries {
		entries[i] = Pair(fmt.Sprintf("project-%d.team", i), orchidPool(i))
	}
	n = Map(entries...)
	rewrite(n, func(n Node) Node { values++; return n })
	return n, values
}

func orchidPool(i int) Node {
	share := func(scale int) Node {
		f := float64(i*scale%9973) / 9973
		return Map(Pair("cpu", Double(f)), Pair("memory", Double(f/3)), Pair("user_slots", Double(f/7)),
			Pair("gpu", Double(0)), Pair("network", Double(1)))
	}
	amount := func(scale int) Node {
		return Map(Pair("cpu", Double(float64(i*scale%400)/4)), Pair("memory", Int64(int64(i*scale)<<20)),
			Pair("user_slots", Int64(int64(i%1000))), Pair("gpu", Int64(0)), Pair("network", Int64(int64(i%100))))
	}
	pool := Map(
		Pair("parent", String("<Root>")), Pair("mode", String("fair_share")), Pair("scheduling_status", String("below_fair_share")),
		Pair("full_path", String(fmt.Sprintf("/research/department-%d/project-%d.team", i%17, i))),
		Pair("running_operation_count", Int64(int64(i%50))), Pair("operation_count", Int64(int64(i%70))),
		Pair("max_running_operation_count", Int64(50)), Pair("max_operation_count", Int64(500)),
		Pair("child_pool_count", Int64(int64(i%5))), Pair("revision", Uint64(uint64(i)*2654435761)),
		Pair("is_ephemeral", Boolean(i%3 == 0)), Pair("aggressive_starvation_enabled", Boolean(false)),
		Pair("lowest_starving_ancestor", Entity()),
		Pair("weight", Double(1)), Pair("fair_share_ratio", Double(float64(i)/2000)), Pair("usage_ratio", Double(float64(i)/3001)),
		Pair("demand_ratio", Double(float64(i)/1777)), Pair("satisfaction_ratio", Double(float64(i)/977)),
		Pair("usage_share", share(3)), Pair("demand_share", share(5)), Pair("fair_share", share(7)),
		Pair("resource_usage", amount(3)), Pair("resource_demand", amount(5)), Pair("resource_limits", amount(7)),
	)
	if i%10 == 0 {
		pool = pool.WithAttributes(Pair("type", String("scheduler_pool")), Pair("id", String(fmt.Sprintf("1-%x-3e9-%x", i, i*i))))
	}
	return pool
}

var notations = []struct {
	name   string
	format Format
}{{"text", Text}, {"pretty", Pretty}, {"binary", Binary}}

// BenchmarkParse reads the orchid from bytes into a Node.
func BenchmarkParse(b *testing.B) {
	n, values := orchid()
	for _, notation := range notations {
		data, _ := Append(nil, n, notation.format)
		b.Run(notation.name, func(b *testing.B) {
			measure(b, len(data), values, func() error { _, err := Parse(data); return err })
		})
	}
	data, _ := AppendJSON(nil, n, JSONOptions{})
	b.Run("json", func(b *testing.B) {
		measure(b, len(data), values, func() error { _, err := ParseJSON(data, JSONOptions{}); return err })
	})
}

// BenchmarkAppend appends the orchid to a buffer that is large enough.
func BenchmarkAppend(b *testing.B) {
	n, values := orchid()
	for _, notation := range notations {
		buffer, _ := Append(nil, n, notation.format)
		b.Run(notation.name, func(b *testing.B) {
			measure(b, len(buffer), values, func() error { _, err := Append(buffer[:0], n, notation.format); return err })
		})
	}
	buffer, _ := AppendJSON(nil, n, JSONOptions{})
	b.Run("json", func(b *testing.B) {
		measure(b, len(buffer), values, func() error { _, err := AppendJSON(buffer[:0], n, JSONOptions{}); return err })
	})
}

// BenchmarkSmall reads and writes a map of four parameters, the size of most requests.
func BenchmarkSmall(b *testing.B) {
	data := []byte(`{"path"="//sys/pools/research/@weight";"output_format"=<"format"="text";>"yson";"read_from"="cache";"return_only_value"=%true;}`)
	n, err := Parse(data)
	if err != nil {
		b.Fatal(err)
	}
	const values = 6
	b.Run("parse", func(b *testing.B) {
		measure(b, len(data), values, func() error { _, err := Parse(data); return err })
	})
	b.Run("append", func(b *testing.B) {
		buffer := make([]byte, 0, 256)
		measure(b, len(data), values, func() error { _, err := Append(buffer, n, Text); return err })
	})
}

// measure runs f and reports bytes per second, and time and allocations per value.
func measure(b *testing.B, size, values int, f func() error) {
	b.Helper()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(values), "ns/value")
	allocations := testing.AllocsPerRun(1, func() { _ = f() })
	b.ReportMetric(allocations/float64(values), "allocs/value")
}
