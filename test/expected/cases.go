package expected

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// casesFlag is the flag with the number of cases per property.
const casesFlag = "rapid.checks"

// RunProperties runs a package's tests with this number of cases per property, a tenth of it with
// -short. The flag -rapid.checks overrides both. It returns the exit code.
func RunProperties(m *testing.M, cases int) int {
	flag.Parse()
	given := os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == casesFlag })
	if !given {
		if err := flag.Set(casesFlag, strconv.Itoa(Fewer(cases))); err != nil {
			panic(err)
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // histories are small and many: most of the heap is garbage
	}
	return m.Run()
}

// Cases returns how many cases each property tries.
func Cases(tb testing.TB) int {
	tb.Helper()
	cases, err := strconv.Atoi(flag.Lookup(casesFlag).Value.String())
	if err != nil {
		tb.Fatal(err)
	}
	return cases
}

// Seed returns the seed of tests that draw without rapid, by the same rule: RAPID_SEED, or the time if that is
// not set or zero.
func Seed() uint64 {
	if seed, err := strconv.ParseUint(os.Getenv("RAPID_SEED"), 10, 64); err == nil && seed != 0 {
		return seed
	}
	return uint64(time.Now().UnixNano())
}

// Tenth makes the costly properties of a test try a tenth of the cases of others.
func Tenth(tb testing.TB) {
	tb.Helper()
	cases, all := flag.Lookup(casesFlag), Cases(tb)
	_ = cases.Value.Set(strconv.Itoa(max(all/10, 1)))
	tb.Cleanup(func() { _ = cases.Value.Set(strconv.Itoa(all)) })
}

// Fewer returns count; with -short, a tenth of it and at least one; and in make long, which sets
// WEIR_LONG, ten times as many.
func Fewer(count int) int {
	switch {
	case testing.Short():
		return max(count/10, 1)
	case os.Getenv("WEIR_LONG") != "":
		return 10 * count
	}
	return count
}
