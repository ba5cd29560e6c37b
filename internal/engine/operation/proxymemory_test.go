package operation

import (
	"math"
	"testing"
)

func TestTheExampleOfTheReferenceForAMapJob(t *testing.T) {
	io := &JobIO{
		Kind: JobMaps, Inputs: []InputTable{{Chunks: 10, MaxBlockSize: 16 * mib, DataWeight: gib}},
		Outputs: []OutputTable{{}, {}}, Reader: DefaultTableReader(JobMaps), Writer: DefaultTableWriter(),
	}
	if got := EstimateProxyMemory(io); got != 384*mib+10*1000 {
		t.Errorf("%d", got)
	}
	// The cap is for all input tables together.
	io.Inputs = []InputTable{{Chunks: 10, MaxBlockSize: 16 * mib, DataWeight: gib}, {Chunks: 10, MaxBlockSize: mib, DataWeight: gib}, {}}
	if got := EstimateProxyMemory(io); got != 384*mib+20*1000 {
		t.Errorf("%d", got)
	}
	// Any other job has a reader for each table, with a cap of its own.
	io.Kind, io.Reader = JobStreams, DefaultTableReader(JobStreams)
	if got := EstimateProxyMemory(io); got != 2*100*mib+128*mib+20*1000 {
		t.Errorf("%d", got)
	}
}

func TestEstimatesByTheFormulas(t *testing.T) {
	reader, writer := DefaultTableReader(JobStreams), DefaultTableWriter()
	cached := reader
	cached.BlockCacheSize = 5 * mib
	cases := []struct {
		name string
		io   JobIO
		want int64
	}{
		{"nothing", JobIO{Reader: reader, Writer: writer}, 0},
		{"a table without chunks", JobIO{Kind: JobStreams, Inputs: []InputTable{{}}, Reader: reader, Writer: writer}, 0},
		{"one small chunk is read whole", JobIO{Kind: JobStreams, Inputs: []InputTable{{Chunks: 1, MaxBlockSize: mib, DataWeight: 2 * mib}}, Reader: reader, Writer: writer},
			2*mib + 16<<10 + mib + 1000},
		{"one large chunk", JobIO{Kind: JobStreams, Inputs: []InputTable{{Chunks: 1, MaxBlockSize: mib, DataWeight: gib}}, Reader: reader, Writer: writer},
			(20+1+15)*mib + 16<<10 + mib + 1000},
		{"large blocks raise the cap", JobIO{Kind: JobStreams, Inputs: []InputTable{{Chunks: 9, MaxBlockSize: 80 * mib, DataWeight: gib}}, Reader: reader, Writer: writer},
			160*mib + 9000},
		{"block caches", JobIO{Kind: JobStreams, Inputs: []InputTable{{Chunks: 99, MaxBlockSize: mib, DataWeight: gib}}, Reader: cached, Writer: writer},
			105*mib + 99000},
		{"two stripes", JobIO{Kind: JobStreams, Inputs: []InputTable{{Chunks: 99, MaxBlockSize: mib, DataWeight: gib}, {Chunks: 99, MaxBlockSize: mib, DataWeight: gib}}, Reader: reader, Writer: writer},
			200*mib + 2*99000},
		{"one output", JobIO{Kind: JobStreams, Outputs: []OutputTable{{}}, Reader: reader, Writer: writer}, 64 * mib},
		{"an estimate of the write buffer", JobIO{Kind: JobStreams, Outputs: []OutputTable{{WriteBuffer: 50 * mib}}, Reader: reader, Writer: writer}, 98 * mib},
		{"striped erasure", JobIO{Kind: JobStreams, Outputs: []OutputTable{{Erasure: Erasure{6, 9, true}}}, Reader: reader, Writer: writer}, (16 + 8 + 16 + 9*32) * mib},
		{"plain erasure", JobIO{Kind: JobStreams, Outputs: []OutputTable{{Erasure: Erasure{6, 9, false}}}, Reader: reader, Writer: writer}, 3 * gib},
		{"partition", JobIO{
			Kind: JobPartitions, Inputs: []InputTable{{Chunks: 1, MaxBlockSize: mib, DataWeight: 2 * mib}}, Reader: reader, Writer: writer,
			Partitions: 10, BlockSize: mib, ReservePerPartition: mib,
		}, 2*mib + 16<<10 + mib + 1000 + 48*mib + 12*mib},
		{"many partitions fill the buffer", JobIO{Kind: JobPartitions, Reader: reader, Writer: writer, Partitions: 1000, ReservePerPartition: mib}, 64 * mib},
		{"sort", JobIO{
			Kind: JobSorts, Inputs: []InputTable{{Chunks: 2, DataWeight: 100_000, Rows: 10, Values: 30}}, Outputs: []OutputTable{{}}, Reader: reader, Writer: writer,
		}, 105_000 + 2*(16<<10+1000) + 16*40 + 64*mib},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := EstimateProxyMemory(&c.io); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
	absurd := JobIO{Kind: JobSorts, Inputs: []InputTable{{DataWeight: math.MaxInt64, Rows: math.MaxInt64, Chunks: -5}}}
	if got := EstimateProxyMemory(&absurd); got <= 0 {
		t.Errorf("%d", got)
	}
}

func TestTheEstimateComesFromTheTablesOfTheSpecification(t *testing.T) {
	const input = 67*mib + 16<<10 + 1000 // one chunk with blocks of 16 MiB
	cases := []struct {
		name, task string
		want       int64
	}{
		{"no tables: the base", "", 4 * mib},
		{"one output", "output_table_paths: [//a]", 64 * mib},
		{"two inputs, one output", "input_table_paths: [//a, //b], output_table_paths: [//c]", 2*input + 64*mib},
		{"many inputs: one cap for all", "input_table_paths: [//a, //b, //c, //d, //e, //f, //g], output_table_paths: [//x]", 256*mib + 7*1000 + 64*mib},
		{"settings of the writer", "output_table_paths: [//a], job_io: {table_writer: {send_window_size: 1048576, max_row_weight: 134217728}}", (1 + 16 + 128) * mib},
		{"settings of the reader", "input_table_paths: [//a], job_io: {table_reader: {max_buffer_size: 1, window_size: 0, group_size: 0}}", 32*mib + 1000},
		{"erasure", "output_table_paths: [{$value: //a, $attributes: {erasure_codec: lrc_12_2_2}}]", 2 * gib * 16 / 12},
		{"striped erasure", "output_table_paths: [{$value: //a, $attributes: {erasure_codec: reed_solomon_6_3, enable_striped_erasure: true}}]", (16 + 8 + 16 + 9*32) * mib},
		{"the writer does not say whether erasure is striped", "output_table_paths: [{$value: //a, $attributes: {erasure_codec: reed_solomon_6_3}}], job_io: {table_writer: {enable_striped_erasure: true}}", 2 * gib * 9 / 6},
		{"no erasure by name", "output_table_paths: [{$value: //a, $attributes: {erasure_codec: none}}]", 64 * mib},
		{"what is nonsense is as if it were not there", "output_table_paths: [//a], job_io: {table_writer: {send_window_size: x, max_row_weight: -1}}", 64 * mib},
		{"nonsense", "output_table_paths: 5, job_io: 7", 4 * mib},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := configured(t, "tasks: {a: {job_count: 1, "+c.task+"}}", DefaultMemoryConfig())
			r := b.NextReserve(0)
			if r.Estimate != c.want || r.Proxy != c.want {
				t.Errorf("%+v, want %d", r, c.want)
			}
		})
	}
}
