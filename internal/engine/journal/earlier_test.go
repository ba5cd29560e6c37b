package journal

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestJournalsOfEarlierBuildsReplayExactly replays journals that earlier builds recorded. testdata/REVISION.journal is
// from a `weir up` of two nodes of that revision: three operations, a pool that is created and changed, a ban, an abort.
// A difference is a changed decision: it needs a sentence in the change log, and then a new journal.
func TestJournalsOfEarlierBuildsReplayExactly(t *testing.T) {
	files, err := filepath.Glob("testdata/*.journal")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no journals: %v", err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p := NewPlayer(file)
		if err := p.Until(time.Time{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.Played.Inputs < 100 || p.Played.Started < 10 || p.Played.Stopped == 0 {
			t.Errorf("%s has too little: %+v", name, p.Played)
		}
	}
}
