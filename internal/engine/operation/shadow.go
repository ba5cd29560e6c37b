package operation

import "github.com/weirhq/weir/internal/value/digest"

// Shadow is what learning would do with the memory of a task that does not learn, because its options reserve the whole
// limit (memory_reserve_factor is 1). Nothing follows it.
type Shadow struct {
	process
	quantile float64
}

// ShadowOf returns the shadow of a task, nil if the task learns or has nothing to learn.
func ShadowOf(t *Task, config *MemoryConfig) *Shadow {
	limit := t.MemoryLimit.Value() + config.ExecFootprint
	if t.Memory.DigestLowerBound.Value() < 1 || t.MemoryLimit.Value() <= 0 || t.TmpfsSize() >= limit {
		return nil
	}
	usual := MemoryOptions{}
	memoryTable.FillDefaults(&usual)
	s := &Shadow{process: newProcess(limit, digest.Options{
		LowerBound: usual.DigestLowerBound.Value(), UpperBound: 1, DefaultValue: usual.DigestDefaultValue.Value(), Precision: config.UserPrecision,
	}), quantile: config.UserQuantile}
	s.tmpfs, s.most = t.TmpfsSize(), limit
	s.follow(s.quantile)
	return s
}

// Job compares a job that completed with what it would have been given: saved is how much less than its limit, in bytes, and
// overdraft reports whether it used more, so that it might have been aborted; then nothing is saved. The shadow learns from
// the job.
func (s *Shadow) Job(u *Usage) (saved int64, overdraft bool) {
	usage := u.sane()
	used := usage.UserMaxMemory
	if overdraft = used > s.reserve; !overdraft {
		saved = max(s.memory-s.reserve, 0)
	}
	s.sample(part(used, s.memory))
	s.follow(s.quantile)
	return saved, overdraft
}
