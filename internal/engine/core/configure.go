package core

import "github.com/weirhq/weir/internal/engine/entitlement"

// configure replaces the settings. They take effect at once, with two
// exceptions: an operation keeps the way in which it learns the memory of its
// jobs, and a started job keeps its wait timeout.
func (c *Core) configure(settings Settings) error {
	if settings.Memory != nil {
		if err := settings.Memory.Validate(); err != nil {
			return err
		}
	}
	if c.settings.equal(settings) {
		return nil // otherwise trees would forget why nodes gave operations nothing
	}
	c.settings = settings
	for _, t := range c.trees {
		t.state.Configure(t.settings(t.config), entitlement.Options(t.config))
		t.renewOperations(func(*place) bool { return true })
	}
	return nil
}

// equal reports whether settings are the same, including what Memory points
// to.
func (s Settings) equal(other Settings) bool {
	if (s.Memory == nil) != (other.Memory == nil) || s.Memory != nil && *s.Memory != *other.Memory {
		return false
	}
	s.Memory, other.Memory = nil, nil
	return s == other
}
