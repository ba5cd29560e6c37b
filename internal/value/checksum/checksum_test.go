package checksum

import (
	"strings"
	"testing"
)

func TestASumIsReadAsItIsWritten(t *testing.T) {
	sum := Of([]byte("abc"))
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; sum.String() != want {
		t.Errorf("got %s, want %s", sum, want)
	}
	if read, err := Parse(sum.String()); err != nil || read != sum {
		t.Errorf("got %s, %v", read, err)
	}
	for _, wrong := range []string{"", "ba78", strings.ToUpper(sum.String()), sum.String()[:63] + "g", sum.String() + "0"} {
		if read, err := Parse(wrong); err == nil || !read.IsZero() {
			t.Errorf("%q was read as %s", wrong, read)
		}
	}
}

func TestAMeterKnowsWhatWasWritten(t *testing.T) {
	m := NewMeter()
	for _, part := range []string{"a", "", "bc"} {
		if n, err := m.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if m.Size() != 3 || m.Sum() != Of([]byte("abc")) {
		t.Errorf("got %d bytes with %s", m.Size(), m.Sum())
	}
}
