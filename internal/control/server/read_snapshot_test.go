package server

import (
	"testing"

	"github.com/weirhq/weir/internal/engine/core"
)

// While there are readers every update makes a snapshot, and they have it without
// waiting for the loop.
func TestReadersDoNotWaitForTheLoop(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {a: {}}}")
	if s.View().snapshot != nil {
		t.Error("a snapshot is made although nobody has asked for one")
	}
	first, err := s.Snapshot(t.Context())
	if err != nil || len(first.Trees) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	s.eventually("updates make snapshots", func() bool {
		if _, err := s.Snapshot(t.Context()); err != nil { // whoever asks rarely waits for the loop
			t.Fatal(err)
		}
		return s.View().snapshot != nil
	})

	busy, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := askHow(t.Context(), s.Server, true, func(t *term) (struct{}, error) {
			t.answerNow = true
			close(busy)
			<-release
			return struct{}{}, nil
		})
		done <- err
	}()
	<-busy
	for range 3 {
		read := make(chan *core.Snapshot, 1)
		go func() {
			snapshot, err := s.Snapshot(t.Context())
			if err != nil {
				t.Error(err)
			}
			read <- snapshot
		}()
		if snapshot := <-read; snapshot == nil || snapshot != s.View().snapshot {
			t.Error("readers do not share what the last update made")
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.stop()
}
