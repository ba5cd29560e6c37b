package core

import (
	"os"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// TestMain makes each property try 1,000 histories; make long tries 100,000.
func TestMain(m *testing.M) { os.Exit(expected.RunProperties(m, 1000)) }
