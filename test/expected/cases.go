package expected

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// RunProperties runs the tests of a package whose properties try so many cases each, a tenth
// of them with -short. The flag -rapid.checks goes before both. It returns the exit code.
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

// Fewer is count, a tenth of it and at least one with -short, and ten times as many in make long,
// which sets WEIR_LONG.
func Fewer(count int) int {
	switch {
	case testing.Short():
		return max(count/10, 1)
	case os.Getenv("WEIR_LONG") != "":
		return 10 * count
	}
	return count
}
