package nodeproto

import (
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// Version is the protocol revision that this code speaks; MinVersion is the oldest one that it
// accepts.
const (
	Version    uint32 = 1
	MinVersion uint32 = 1
)

// jobNumberEpochShift leaves 2^40 jobs to an epoch and 2^24 epochs, which is one a minute for
// thirty years.
const jobNumberEpochShift = 40

// JobNumber is the number of the n-th job of an epoch: no two epochs share one while n is below
// 2^40 and epochs are below 2^24.
func JobNumber(epoch, n uint64) uint64 { return epoch<<jobNumberEpochShift | n }

// NextIncarnation returns the number of an incarnation that starts now, given the last one that
// the node stored (zero if none).
func NextIncarnation(now time.Time, last uint64) uint64 {
	return max(uint64(max(now.UnixNano(), 0)), last+1)
}

// ToAmounts is the wire form of a vector of amounts.
func ToAmounts(a resource.Amounts) *nodev1.Amounts {
	return &nodev1.Amounts{
		UserSlots: a[resource.UserSlots],
		Cpu:       a[resource.CPU],
		Gpu:       a[resource.GPU],
		Memory:    a[resource.Memory],
		Network:   a[resource.Network],
	}
}

// FromAmounts is the vector that a message carries; an absent message is zero.
func FromAmounts(m *nodev1.Amounts) (a resource.Amounts) {
	a[resource.UserSlots] = m.GetUserSlots()
	a[resource.CPU] = m.GetCpu()
	a[resource.GPU] = m.GetGpu()
	a[resource.Memory] = m.GetMemory()
	a[resource.Network] = m.GetNetwork()
	return a
}

// ToMicros is the wire form of a time; the zero time is zero.
func ToMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicros is the time that a message carries, in UTC; zero is the zero time.
func FromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Micros is the wire form of a duration.
func Micros(d time.Duration) int64 { return d.Microseconds() }

// Duration is the duration that a message carries. A value that does not fit is clamped to the
// nearest that does.
func Duration(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(max(us, -most), most)) * time.Microsecond
}
