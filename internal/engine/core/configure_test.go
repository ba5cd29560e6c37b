package core

import (
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

func (w *world) configure(change func(*Settings)) {
	w.tb.Helper()
	settings := w.settings
	change(&settings)
	if err := w.do(&SettingsInput{settings}); err != nil {
		w.tb.Fatal(err)
	}
	w.take()
}

const plainJob = "{pool: production, tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}"

func TestSettingsHoldAtOnce(t *testing.T) {
	t.Run("the number of operations", func(t *testing.T) {
		w := newWorld(t, threePools)
		w.configure(func(s *Settings) { s.MaxOperations = 1 })
		if _, err := w.start("anna", plainJob); err != nil {
			t.Fatal(err)
		}
		if _, err := w.start("anna", plainJob); !errors.Is(err, ErrTooManyOperations) {
			t.Errorf("the second: %v", err)
		}
		w.configure(func(s *Settings) { s.MaxOperations = 2 })
		if _, err := w.start("anna", plainJob); err != nil {
			t.Error(err)
		}
	})
	t.Run("how long a silent node is waited for", func(t *testing.T) {
		w := newWorld(t, threePools)
		w.addNode(0, 4)
		w.pass(time.Second)
		id, _ := w.start("anna", plainJob)
		w.pass(time.Second)
		w.beat(0)
		if w.running(id) != 1 {
			t.Fatal("no job runs")
		}
		w.pass(10 * time.Second)
		if w.running(id) != 1 {
			t.Fatal("the node is given up")
		}
		w.configure(func(s *Settings) { s.NodeTimeout = 5 * time.Second })
		w.pass(time.Second)
		if w.running(id) != 0 {
			t.Error("the node is not given up")
		}
	})
	t.Run("what a node must have free", func(t *testing.T) {
		w := newWorld(t, threePools)
		w.addNode(0, 2)
		w.pass(time.Second)
		w.configure(func(s *Settings) { s.MinSpare = resource.Amounts{resource.CPU: 3_00} })
		id, _ := w.start("anna", plainJob)
		w.pass(time.Second)
		w.beat(0)
		if w.running(id) != 0 {
			t.Fatal("a job starts on a node that is not looked at")
		}
		w.configure(func(s *Settings) { s.MinSpare = resource.Amounts{} })
		w.pass(time.Second)
		w.beat(0)
		if w.running(id) != 1 {
			t.Error("no job starts")
		}
	})
	t.Run("how long jobs wait on their nodes", func(t *testing.T) {
		w := newWorld(t, threePools)
		id, _ := w.start("anna", plainJob)
		w.configure(func(s *Settings) { s.WaitTimeout = time.Hour })
		if _, seat := w.seatOf(id); seat.WaitTimeout != time.Hour {
			t.Errorf("%v", seat.WaitTimeout)
		}
	})
	t.Run("how memory is learnt, by operations that start", func(t *testing.T) {
		w := newWorld(t, threePools)
		memory := operation.DefaultMemoryConfig()
		w.configure(func(s *Settings) { s.Memory = &memory })
		first, _ := w.start("anna", plainJob)
		other := memory
		other.UserQuantile = 0.5
		w.configure(func(s *Settings) { s.Memory = &other })
		second, _ := w.start("anna", plainJob)
		if a, b := w.ControllerOf(first).MemoryConfig(), w.ControllerOf(second).MemoryConfig(); a != memory || b != other {
			t.Errorf("%+v, %+v", a, b)
		}
	})
}

func TestWrongSettingsChangeNothing(t *testing.T) {
	w := newWorld(t, threePools)
	before := w.settings
	wrong := before
	wrong.MaxOperations, wrong.Memory = 1, &operation.MemoryConfig{UserQuantile: 7}
	if err := w.do(&SettingsInput{wrong}); err == nil || !w.settings.equal(before) {
		t.Errorf("%v; %+v", err, w.settings)
	}
}
