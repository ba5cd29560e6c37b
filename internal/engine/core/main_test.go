package core

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the properties run 10,000 histories together.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "3500"); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}
