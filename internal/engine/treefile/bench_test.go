package treefile

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/test/expected"
)

// benchInputs is the folder, outside the repository, of the trees that YTsaurus's
// own library was measured on. The benchmarks of package fairshare generate similar
// trees.
const benchInputs = "../../../../shared/vectors/bench"

// BenchmarkVectors computes one update with a new engine, as in the measurement of
// YTsaurus.
func BenchmarkVectors(b *testing.B) {
	for _, size := range []string{"1k", "10k", "100k"} {
		for _, mode := range []string{"default", "improved"} {
			b.Run(fmt.Sprintf("tree=synthetic-%s/mode=%s", size, mode), func(b *testing.B) {
				file := readBenchInput(b, size)
				file.Tree.Options.Improved = mode == "improved"
				file.Tree.Options.GangSteps = mode == "improved"
				b.ReportAllocs()
				var cpu expected.Stopwatch
				cpu.Start()
				for b.Loop() {
					fairshare.Compute(&file.Tree, file.Elapsed)
				}
				cpu.Stop()
				cpu.Report(b)
			})
		}
	}
}

func readBenchInput(b *testing.B, size string) *File {
	b.Helper()
	packed, err := os.Open(filepath.Join(benchInputs, "synthetic-"+size+".json.gz"))
	if err != nil {
		b.Skipf("SKIPPED, the inputs of this benchmark are not beside the project: %v", err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		b.Fatal(err)
	}
	data, err := io.ReadAll(unpacked)
	if err != nil {
		b.Fatal(err)
	}
	file, err := ReadVector(data)
	if err != nil {
		b.Fatal(err)
	}
	return file
}
