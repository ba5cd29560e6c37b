package core

import (
	"os"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// TestMain makes the properties run 10,000 histories together.
func TestMain(m *testing.M) { os.Exit(expected.RunProperties(m, 1000)) }
