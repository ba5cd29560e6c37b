package expected

import (
	"syscall"
	"testing"
	"time"
)

// CPUTime returns the CPU time that the process has used so far. Benchmarks
// report it because on a shared machine it is steadier than the time that passes.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Stopwatch adds up CPU time while it runs.
type Stopwatch struct {
	began, sum time.Duration
}

// Start starts the stopwatch.
func (s *Stopwatch) Start() { s.began = CPUTime() }

// Stop stops it.
func (s *Stopwatch) Stop() { s.sum += CPUTime() - s.began }

// Report reports the CPU time of each iteration of a benchmark.
func (s *Stopwatch) Report(b *testing.B) {
	b.ReportMetric(float64(s.sum.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
