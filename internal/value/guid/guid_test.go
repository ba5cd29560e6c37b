package guid

import (
	"strings"
	"testing"
)

func TestIdentifiersAreReadBackAsTheyAreWritten(t *testing.T) {
	for _, id := range []ID{{}, {1, 2, 3, 4}, New(Operation, 0x9d1c2b3a5e6f7081, 0x1a2b3c4d), OfJob(1), OfJob(1<<40 + 7)} {
		back, err := Parse(id.String())
		if err != nil || back != id {
			t.Errorf("%s: %v, %v", id, back, err)
		}
	}
	if got := New(Operation, 0x9d1c2b3a5e6f7081, 0x1a2b3c4d).String(); got != "9d1c2b3a-5e6f7081-3ff03e8-1a2b3c4d" {
		t.Errorf("%s", got)
	}
	if got := New(Operation, 1, 1).Kind(); got != Operation {
		t.Errorf("%d", got)
	}
}

func TestTheNumberOfAJobIsInItsIdentifier(t *testing.T) {
	for _, number := range []uint64{0, 1, 1 << 33, 1<<64 - 1} {
		if got, ok := JobNumber(OfJob(number)); !ok || got != number {
			t.Errorf("%d: %d, %v", number, got, ok)
		}
	}
	for _, id := range []ID{{}, New(Operation, 5, 5), {0, 1, cell<<16 | uint32(Job), 1}} {
		if number, ok := JobNumber(id); ok {
			t.Errorf("%s is job %d", id, number)
		}
	}
}

func TestWhatIsNoIdentifierIsRefused(t *testing.T) {
	for _, text := range []string{"", "1-2-3", "1-2-3-4-5", "1-2-3-g", "1--3-4", "1-2-3-123456789", "+1-2-3-4", strings.Repeat("9", 1000)} {
		if id, err := Parse(text); err == nil || len(err.Error()) > 250 {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("9d1c2b3a-5e6f7081-3ff03e8-1a2b3c4d")
	f.Add("-1-2-3")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err != nil {
			return
		}
		if back, err := Parse(id.String()); err != nil || back != id {
			t.Errorf("%q: %v, %v", text, back, err)
		}
	})
}
