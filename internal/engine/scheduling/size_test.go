package scheduling

import (
	"testing"
	"unsafe"
)

// TestAnAllocationIsSmall keeps an allocation within two cache lines: there may be
// hundreds of thousands.
func TestAnAllocationIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(allocation{}); size > 128 {
		t.Errorf("an allocation takes %d bytes", size)
	}
}
