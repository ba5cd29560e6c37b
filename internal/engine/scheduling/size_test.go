package scheduling

import (
	"testing"
	"unsafe"
)

// TestAnAllocationIsSmall keeps an allocation, of which there may be hundreds of
// thousands, within two cache lines.
func TestAnAllocationIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(allocation{}); size > 128 {
		t.Errorf("an allocation takes %d bytes", size)
	}
}
