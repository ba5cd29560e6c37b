package operation

import (
	"testing"

	"github.com/weirhq/weir/internal/value/document"
)

func TestAShadowLearnsWhatTheTaskDoesNot(t *testing.T) {
	config := DefaultMemoryConfig()
	config.ExecFootprint = 0
	const limit = 1 << 30
	task := func(factor float64) *Task {
		return &Task{MemoryLimit: document.Some(int64(limit)), Memory: MemoryOptions{DigestLowerBound: document.Some(factor), DigestDefaultValue: document.Some(factor)}}
	}
	if ShadowOf(task(0.05), &config) != nil {
		t.Error("a task that learns has a shadow")
	}
	s := ShadowOf(task(1), &config)
	if s == nil {
		t.Fatal("a task that does not learn has no shadow")
	}
	saved, overdraft := s.Job(&Usage{UserMaxMemory: limit / 4})
	if overdraft || saved != limit/2 {
		t.Errorf("the first job saves %d, overdraft %v", saved, overdraft)
	}
	for range 50 {
		saved, overdraft = s.Job(&Usage{UserMaxMemory: limit / 4})
	}
	if overdraft || saved < limit*70/100 || saved > limit*3/4 {
		t.Errorf("after 50 jobs that use a quarter, one saves %d, overdraft %v", saved, overdraft)
	}
	if saved, overdraft = s.Job(&Usage{UserMaxMemory: limit / 2}); !overdraft || saved != 0 {
		t.Errorf("a job that uses twice as much saves %d, overdraft %v", saved, overdraft)
	}
}
