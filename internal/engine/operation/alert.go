package operation

import (
	"fmt"

	"github.com/weirhq/weir/internal/value/resource"
)

// AlertKind is the subject of an alert.
type AlertKind uint8

const (
	AlertUnusedMemory AlertKind = iota
	AlertUnusedTmpfsSpace
	AlertMemoryOverconsumption

	alertKindCount
)

var alertKindNames = [alertKindCount]string{"unused_memory", "unused_tmpfs_space", "memory_overconsumption"}

// String returns the name that clients see.
func (k AlertKind) String() string { return nameOf(alertKindNames[:], k, "AlertKind") }

// MarshalText returns the name.
func (k AlertKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the name.
func (k *AlertKind) UnmarshalText(text []byte) (err error) {
	*k, err = valueOf[AlertKind](alertKindNames[:], text, "alert")
	return err
}

// Alert warns the owner of an operation about memory requests that do not
// match the usage.
type Alert struct {
	Kind AlertKind `json:"kind"`
	Task string    `json:"task"`
	// Volume is the index of the tmpfs volume, -1 if the alert is not about a
	// volume.
	Volume int `json:"volume"`
	// Given is what was reserved, Used the most that a job has used of it.
	Given int64 `json:"given"`
	Used  int64 `json:"used"`
}

// String returns a sentence for users.
func (a Alert) String() string {
	given, used := resource.FormatAmount(resource.Memory, a.Given), resource.FormatAmount(resource.Memory, a.Used)
	switch a.Kind {
	case AlertUnusedMemory:
		return fmt.Sprintf("jobs of task %s use at most %s of the %s that are reserved for each", a.Task, used, given)
	case AlertUnusedTmpfsSpace:
		return fmt.Sprintf("jobs of task %s use at most %s of tmpfs volume %d, which has %s", a.Task, used, a.Volume, given)
	}
	return fmt.Sprintf("a job of task %s used %s of memory more than was reserved for it; jobs are now given %s", a.Task, used, given)
}

// AlertConfig has the thresholds of alerts.
type AlertConfig struct {
	// Unused memory of a reserve raises an alert if it is more than
	// MaxUnusedSize and more than MaxUnusedRatio of the reserve.
	MaxUnusedSize  int64   `json:"memory_usage_alert_max_unused_size"`
	MaxUnusedRatio float64 `json:"memory_usage_alert_max_unused_ratio"`
	// ReserveFactorMaxUnusedRatio is the ratio for tasks whose
	// memory_reserve_factor is one, regardless of size.
	ReserveFactorMaxUnusedRatio float64 `json:"memory_reserve_factor_alert_max_unused_ratio"`
	// Unused space of a tmpfs raises an alert if it is more than
	// TmpfsMinUnusedSpace and more than TmpfsMaxUnusedRatio of the volume,
	// unless jobs use more than TmpfsMuteRatio of their memory.
	TmpfsMaxUnusedRatio float64 `json:"tmpfs_alert_max_unused_space_ratio"`
	TmpfsMinUnusedSpace int64   `json:"tmpfs_alert_min_unused_space_threshold"`
	TmpfsMuteRatio      float64 `json:"tmpfs_alert_memory_usage_mute_ratio"`
	// OverconsumptionSize is by how much a job must exceed its reserve to raise
	// an alert.
	OverconsumptionSize int64 `json:"memory_overconsumption_threshold"`
}

// DefaultAlertConfig returns the thresholds of the reference.
func DefaultAlertConfig() AlertConfig {
	return AlertConfig{
		MaxUnusedSize: 8 << 30, MaxUnusedRatio: 0.2, ReserveFactorMaxUnusedRatio: 0.8,
		TmpfsMaxUnusedRatio: 0.2, TmpfsMinUnusedSpace: 512 << 20, TmpfsMuteRatio: 0.8,
		OverconsumptionSize: 8 << 30,
	}
}

// Alerts returns the memory alerts, in the order of tasks. They compare what
// jobs have used so far with what is reserved for new ones, so they clear
// when the reserve has adapted.
func (c *Controller) Alerts() (alerts []Alert) {
	for i := range c.tasks {
		alerts = c.taskAlerts(i, alerts)
	}
	return alerts
}

func (c *Controller) taskAlerts(i int, alerts []Alert) []Alert {
	r, task, limits := &c.tasks[i].memory, &c.spec.Tasks[i].Value, &c.memory.Alerts
	name := c.spec.Tasks[i].Name
	reserve := r.user.reserve
	if used := r.statistics.Max(pathUserMax) + r.statistics.Max(pathUserTmpfs); used > 0 {
		unused := reserve - used
		isWhole := task.Memory.ReserveFactor.OrElse(c.spec.Memory.ReserveFactor).Value() >= 1
		if unused > limits.MaxUnusedSize && part(unused, reserve) > limits.MaxUnusedRatio ||
			isWhole && part(unused, reserve) > limits.ReserveFactorMaxUnusedRatio {
			alerts = append(alerts, Alert{Kind: AlertUnusedMemory, Task: name, Volume: -1, Given: reserve, Used: used})
		}
		for v := range task.TmpfsVolumes {
			row, ok := r.statistics.Get(tmpfsPath(v))
			size, held := task.TmpfsVolumes[v].Size, row.Total().Max
			if ok && size-held > limits.TmpfsMinUnusedSpace && part(size-held, size) > limits.TmpfsMaxUnusedRatio &&
				part(used, reserve) <= limits.TmpfsMuteRatio {
				alerts = append(alerts, Alert{Kind: AlertUnusedTmpfsSpace, Task: name, Volume: v, Given: size, Used: held})
			}
		}
	}
	if r.overuse > limits.OverconsumptionSize {
		alerts = append(alerts, Alert{Kind: AlertMemoryOverconsumption, Task: name, Volume: -1, Given: reserve, Used: r.overuse})
	}
	return alerts
}
