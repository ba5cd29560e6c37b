package operation

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// InputTable is what a job reads from one input table.
type InputTable struct {
	Chunks       int64
	MaxBlockSize int64
	DataWeight   int64
	Rows         int64 // only for sorting jobs
	Values       int64
}

// Erasure is the erasure encoding of an output table; the zero value means
// none.
type Erasure struct {
	DataParts, TotalParts int64
	Striped               bool
}

// OutputTable is a table that a job writes.
type OutputTable struct {
	Erasure Erasure
	// WriteBuffer is the estimate of the buffer for this table; zero means the
	// writer's.
	WriteBuffer int64
}

// TableReader are the settings of reading that affect memory.
type TableReader struct {
	WindowSize, GroupSize, MaxBufferSize int64
	MaxParallelReaders                   int64
	BlockCacheSize                       int64 // compressed and uncompressed
}

// TableWriter are the settings of writing that affect memory.
type TableWriter struct {
	SendWindowSize, EncodeWindowSize, ErasureWindowSize int64
	MaxBufferSize, MaxRowWeight, DesiredChunkSize       int64
}

// DefaultTableReader returns the defaults of the reference for a kind of job.
func DefaultTableReader(kind JobKind) TableReader {
	r := TableReader{WindowSize: 20 << 20, GroupSize: 15 << 20, MaxBufferSize: 100 << 20, MaxParallelReaders: 512}
	if kind == JobMaps {
		r.MaxBufferSize = 256 << 20
	}
	return r
}

// DefaultTableWriter returns the defaults of the reference.
func DefaultTableWriter() TableWriter {
	return TableWriter{
		SendWindowSize: 32 << 20, EncodeWindowSize: 16 << 20, ErasureWindowSize: 8 << 20,
		MaxBufferSize: 16 << 20, MaxRowWeight: 16 << 20, DesiredChunkSize: 2 << 30,
	}
}

// JobKind is what the proxy of a job does with its tables.
type JobKind uint8

const (
	JobMaps       JobKind = iota // map, unordered merge: one reader for all input tables
	JobStreams                   // reduce, other merges, copy: a reader for each input table
	JobPartitions                // splits its input into partitions
	JobSorts                     // sorts in memory, writes the final table
)

// JobIO is the input for the estimate of a job proxy's memory.
type JobIO struct {
	Kind    JobKind
	Inputs  []InputTable
	Outputs []OutputTable
	Reader  TableReader
	Writer  TableWriter
	// For jobs that partition.
	Partitions, BlockSize, ReservePerPartition int64
}

const (
	readerBlock   = 16 << 10 // what a reader needs in addition to its blocks
	chunkMetaSize = 1000     // per chunk
	sortOverhead  = 1.05
	sortEntrySize = 16 // per row and per value
)

// EstimateProxyMemory returns how much memory a job proxy is expected to use
// for its tables. It is the reference's formula, computed with floating-point
// numbers, so absurd figures do no harm.
func EstimateProxyMemory(io *JobIO) int64 {
	w := &io.Writer
	windows := float64(w.SendWindowSize + w.EncodeWindowSize)
	var total float64
	switch io.Kind {
	case JobPartitions:
		total = io.input() + windows
		var weight float64
		for i := range io.Inputs {
			weight += float64(io.Inputs[i].DataWeight)
		}
		partitions := float64(io.Partitions)
		total += min(float64(w.MaxBufferSize), min(float64(io.BlockSize)*partitions, weight)+float64(io.ReservePerPartition)*partitions)
	case JobSorts:
		total = io.output(windows)
		for i := range io.Inputs {
			in := &io.Inputs[i]
			total += sortOverhead*float64(in.DataWeight) + float64(in.Chunks)*(readerBlock+chunkMetaSize)
			total += sortEntrySize * (float64(in.Values) + float64(in.Rows))
		}
	default:
		total = io.input() + io.output(windows)
	}
	return int64(min(max(0, total), math.MaxInt64/4))
}

// input is the memory of the readers.
func (io *JobIO) input() (total float64) {
	if io.Kind != JobMaps {
		for i := range io.Inputs {
			in := &io.Inputs[i]
			total += io.Reader.memory(float64(in.Chunks), float64(in.MaxBlockSize), float64(in.DataWeight))
		}
		return total
	}
	var chunks, block, weight float64
	for i := range io.Inputs {
		in := &io.Inputs[i]
		chunks, block, weight = chunks+max(0, float64(in.Chunks)), max(block, float64(in.MaxBlockSize)), weight+float64(in.DataWeight)
	}
	return io.Reader.memory(chunks, block, weight)
}

// memory is what a reader of so many chunks needs.
func (r *TableReader) memory(chunks, block, weight float64) float64 {
	if chunks <= 0 {
		return 0
	}
	readers := min(chunks, float64(r.MaxParallelReaders))
	buffer := min(weight, readers*(max(block, float64(r.WindowSize))+block+float64(r.GroupSize))) + readers*(readerBlock+block)
	return min(buffer, max(float64(r.MaxBufferSize), 2*block)) + chunkMetaSize*chunks + float64(r.BlockCacheSize)
}

func (io *JobIO) output(windows float64) (total float64) {
	w := &io.Writer
	for i := range io.Outputs {
		out := &io.Outputs[i]
		switch e := &out.Erasure; {
		case e.TotalParts <= 0 || e.DataParts <= 0:
			buffer := out.WriteBuffer
			if buffer == 0 {
				buffer = w.MaxBufferSize
			}
			total += windows + float64(max(w.MaxRowWeight, buffer))
		case e.Striped:
			total += float64(max(w.MaxRowWeight, w.MaxBufferSize)) + float64(w.ErasureWindowSize) + float64(w.EncodeWindowSize) +
				float64(w.SendWindowSize)*float64(e.TotalParts)
		default:
			total += float64(w.DesiredChunkSize) * float64(e.TotalParts) / float64(e.DataParts)
		}
	}
	return total
}

// presumedBlock is the assumed block size of a table of which only the name
// is known.
const presumedBlock = 16 << 20

// estimateProxy returns the proxy_memory of a task: from the tables that its
// specification names, or the base if there are none.
func (t *Task) estimateProxy(config *MemoryConfig) int64 {
	io, ok := t.tables()
	if !ok {
		return config.ProxyBase
	}
	return EstimateProxyMemory(&io)
}

// tables returns what a specification states about tables. Their contents are
// unknown: an input table counts as one chunk with large blocks. A command that
// reads tables is a map job.
func (t *Task) tables() (io JobIO, any bool) {
	settings, _ := t.Extras.Get("job_io")
	io.Kind = JobMaps
	io.Reader, io.Writer = DefaultTableReader(io.Kind), DefaultTableWriter()
	reader, _ := settings.Get("table_reader")
	writer, _ := settings.Get("table_writer")
	io.Reader.read(reader)
	io.Writer.read(writer)
	inputs, _ := t.Extras.Get("input_table_paths")
	for range inputs.Items() {
		io.Inputs = append(io.Inputs, InputTable{Chunks: 1, MaxBlockSize: presumedBlock, DataWeight: math.MaxInt64})
	}
	outputs, _ := t.Extras.Get("output_table_paths")
	for _, path := range outputs.Items() {
		io.Outputs = append(io.Outputs, OutputTable{Erasure: erasureOf(path)})
	}
	return io, len(io.Inputs)+len(io.Outputs) > 0
}

// number reads a size from a section that is kept without validation. A value
// that is not a size leaves the default.
func number(section document.Value, name string, into *int64) {
	v, _ := section.Get(name)
	if n, ok := v.Int64(); ok && n >= 0 {
		*into = n
	}
}

func (r *TableReader) read(section document.Value) {
	number(section, "window_size", &r.WindowSize)
	number(section, "group_size", &r.GroupSize)
	number(section, "max_buffer_size", &r.MaxBufferSize)
	number(section, "max_parallel_readers", &r.MaxParallelReaders)
}

func (w *TableWriter) read(section document.Value) {
	number(section, "send_window_size", &w.SendWindowSize)
	number(section, "encode_window_size", &w.EncodeWindowSize)
	number(section, "erasure_window_size", &w.ErasureWindowSize)
	number(section, "max_buffer_size", &w.MaxBufferSize)
	number(section, "max_row_weight", &w.MaxRowWeight)
	number(section, "desired_chunk_size", &w.DesiredChunkSize)
}

// erasureOf reads the encoding of an output table from the attributes of its
// path: erasure_codec, whose name ends in the numbers of data and parity parts,
// as in lrc_12_2_2, and enable_striped_erasure.
func erasureOf(path document.Value) (e Erasure) {
	attributes, _ := path.Get("$attributes")
	codec, _ := attributes.Get("erasure_codec")
	name, _ := codec.Text()
	for _, word := range strings.Split(name, "_") {
		n, err := strconv.ParseInt(word, 10, 16)
		if err != nil || n <= 0 {
			continue
		}
		if e.DataParts == 0 {
			e.DataParts = n
		}
		e.TotalParts += n
	}
	striped, _ := attributes.Get("enable_striped_erasure")
	e.Striped, _ = striped.Bool()
	return e
}
