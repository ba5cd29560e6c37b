package expected

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// RunProperties runs a package's tests with this number of cases per property, a tenth of it with
// -short. The flag -rapid.checks overrides both. It returns the exit code.
func RunProperties(m *testing.M, cases int) int {
	const name = "rapid.checks"
	flag.Parse()
	given := os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		if err := flag.Set(name, strconv.Itoa(Fewer(cases))); err != nil {
			panic(err)
		}
	}
	return m.Run()
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
