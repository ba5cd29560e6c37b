package operation

import (
	"errors"
	"fmt"
)

// MemoryConfig controls how the memory reserves of jobs are chosen, for all
// operations of a cluster. Names in JSON are those of the configuration.
type MemoryConfig struct {
	// UserQuantile and ProxyQuantile are the quantiles of the digests that become
	// reserves.
	UserQuantile  float64 `json:"user_job_memory_reserve_quantile"`
	ProxyQuantile float64 `json:"job_proxy_memory_reserve_quantile"`
	// UserPrecision is the relative error of digests of user jobs. For job
	// proxies it is in the specification.
	UserPrecision float64 `json:"user_job_memory_digest_precision"`
	// OverdraftFactor is the factor by which the usage of a job that was aborted
	// for overdraft is multiplied before it becomes a sample.
	OverdraftFactor float64       `json:"memory_digest_resource_overdraft_factor"`
	OverdraftMode   OverdraftMode `json:"memory_digest_overdraft_mode"`
	// UserMultiplier and ProxyMultiplier are the factors by which the reserve of
	// such a job grows for its first retry. Zero raises it to the upper bound at
	// once.
	UserMultiplier  float64 `json:"user_job_resource_overdraft_memory_multiplier,omitempty"`
	ProxyMultiplier float64 `json:"job_proxy_resource_overdraft_memory_multiplier,omitempty"`
	// MultiplierFromSpec uses both multipliers of the specification instead.
	MultiplierFromSpec bool `json:"use_resource_overdraft_memory_multiplier_from_spec,omitempty"`
	// Footprint is memory that every job needs in addition to the estimate for
	// its proxy; ExecFootprint is added to the memory_limit of a user's process.
	Footprint     int64 `json:"footprint_memory"`
	ExecFootprint int64 `json:"exec_footprint_memory,omitempty"`
	// ProxyBase is the estimate of the proxy's memory for tasks without tables. The default is what
	// supervisor and init were measured to take at most; see docs/adr/0006.
	ProxyBase int64       `json:"job_proxy_memory_base"`
	Alerts    AlertConfig `json:"alerts"`
}

// DefaultMemoryConfig returns the documented defaults.
func DefaultMemoryConfig() MemoryConfig {
	return MemoryConfig{
		UserQuantile: 0.95, ProxyQuantile: 0.95, UserPrecision: 0.01, OverdraftFactor: 1.1,
		Footprint: 128 << 20, ProxyBase: 4 << 20, Alerts: DefaultAlertConfig(),
	}
}

// bareMemory is the configuration of controllers without a given one: their
// jobs have no proxies, as in simulations.
var bareMemory = func() *MemoryConfig {
	c := DefaultMemoryConfig()
	c.Footprint, c.ProxyBase = 0, 0
	return &c
}()

// maxFootprint bounds what a job needs in addition to its memory_limit; see
// proxyAtMost.
const maxFootprint = 16 << 30

// Validate returns all problems of the configuration.
func (c *MemoryConfig) Validate() error {
	var problems []error
	between := func(name string, value, least, most float64) {
		if !(value >= least && value <= most) {
			problems = append(problems, fmt.Errorf("%s is %v, must be between %v and %v", name, value, least, most))
		}
	}
	between("user_job_memory_reserve_quantile", c.UserQuantile, 0, 1)
	between("job_proxy_memory_reserve_quantile", c.ProxyQuantile, 0, 1)
	between("user_job_memory_digest_precision", c.UserPrecision, 0.0001, 1)
	between("memory_digest_resource_overdraft_factor", c.OverdraftFactor, 1, 10)
	if c.OverdraftMode >= overdraftModeCount {
		problems = append(problems, fmt.Errorf("memory_digest_overdraft_mode is %v", c.OverdraftMode))
	}
	if c.UserMultiplier != 0 {
		between("user_job_resource_overdraft_memory_multiplier", c.UserMultiplier, 1, 10)
	}
	if c.ProxyMultiplier != 0 {
		between("job_proxy_resource_overdraft_memory_multiplier", c.ProxyMultiplier, 1, 10)
	}
	between("footprint_memory", float64(c.Footprint), 0, maxFootprint)
	between("exec_footprint_memory", float64(c.ExecFootprint), 0, maxFootprint)
	between("job_proxy_memory_base", float64(c.ProxyBase), 0, maxFootprint)
	return errors.Join(problems...)
}

// OverdraftMode is which sample an overdraft adds to a digest.
type OverdraftMode uint8

const (
	// OverdraftDocumented is the documented mode: factor × usage. If the usage
	// figure is older than the overdraft and below the reserve, the reserve is
	// used instead.
	OverdraftDocumented OverdraftMode = iota
	// OverdraftReserveFloor is the mode of YTsaurus until 2022: the usage, but
	// at least factor × the reserve.
	OverdraftReserveFloor
	// OverdraftHead is the current mode of YTsaurus: the same, but only for a
	// process that used its whole estimate; any other usage counts as it is.
	OverdraftHead

	overdraftModeCount
)

var overdraftModeNames = [overdraftModeCount]string{"documented", "reserve_floor", "head"}

// String returns the name of the mode.
func (m OverdraftMode) String() string { return nameOf(overdraftModeNames[:], m, "OverdraftMode") }

// MarshalText returns the name.
func (m OverdraftMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the name.
func (m *OverdraftMode) UnmarshalText(text []byte) (err error) {
	*m, err = valueOf[OverdraftMode](overdraftModeNames[:], text, "overdraft mode")
	return err
}

// sample returns what the overdraft of a job adds to the digest of one
// process: use and reserve are fractions of the amount for a factor of one,
// and blamed reports whether this process used too much. Zero usage is no
// sample.
func (c *MemoryConfig) sample(use, reserve float64, blamed bool) float64 {
	switch {
	case use <= 0:
		return 0
	case c.OverdraftMode == OverdraftReserveFloor, c.OverdraftMode == OverdraftHead && blamed && use >= 1:
		return max(use, c.OverdraftFactor*reserve)
	case c.OverdraftMode == OverdraftDocumented && blamed:
		return c.OverdraftFactor * max(use, reserve)
	}
	return use
}

// multipliers returns the effective multipliers for a task, zero if unset.
func (c *MemoryConfig) multipliers(t *Task) (user, proxy float64) {
	if c.MultiplierFromSpec {
		return t.Memory.OverdraftMultiplier.Value(), t.Memory.ProxyOverdraftMultiplier.Value()
	}
	return c.UserMultiplier, c.ProxyMultiplier
}
