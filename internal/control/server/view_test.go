package server

import "testing"

// Readers share the picture of the last update and get it even while the loop is busy.
func TestReadersDoNotWaitForTheLoop(t *testing.T) {
	s := lead(t, t.TempDir())
	if s.View().Epoch == 0 {
		t.Error("a server leads and shows nothing of its own")
	}
	s.pools("{pools: {a: {}}}")
	s.eventually("an update shows the pool", func() bool {
		tree, there := s.View().Tree("default")
		if there {
			_, there = tree.Pool("a")
		}
		return there
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
	if first, second := s.View(), s.View(); first != second || first.Picture == nil {
		t.Error("readers do not share what the last update made")
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.stop()
}

// A picture that a reader holds does not change when pools are removed.
func TestAViewThatIsHeldStaysAsItIs(t *testing.T) {
	s := lead(t, t.TempDir())
	has := func(v *View, pool string) bool {
		tree, there := v.Tree("default")
		if there {
			_, there = tree.Pool(pool)
		}
		return there
	}
	s.pools("{pools: {a: {}}}")
	s.eventually("an update shows the pool", func() bool { return has(s.View(), "a") })
	held := s.View()
	s.pools("{pools: {b: {}}}")
	s.eventually("an update shows the other one", func() bool { return has(s.View(), "b") && !has(s.View(), "a") })
	if !has(held, "a") || has(held, "b") {
		t.Error("a view has changed")
	}
	s.stop()
}
