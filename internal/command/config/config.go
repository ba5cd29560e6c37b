package config

import "sync"

// Config is the settings of all sections.
type Config struct {
	Scheduler Scheduler
	Node      Node
	Up        Up
}

// Names of the sections.
const (
	SchedulerSection = "scheduler"
	NodeSection      = "node"
	UpSection        = "up"
)

// sections is made when it is first needed: most commands of the command line need no setting, and there are
// hundreds.
var sections = sync.OnceValue(func() *group[Config] {
	return newGroup([]row[Config]{
		part(SchedulerSection, "The control plane.", func(c *Config) *Scheduler { return &c.Scheduler }, schedulerGroup()),
		part(NodeSection, "The agent of one machine.", func(c *Config) *Node { return &c.Node }, nodeGroup()),
		part(UpSection, "A whole cluster on one machine.", func(c *Config) *Up { return &c.Up }, upGroup()),
	})
})

// Sections are the names of the sections in their order.
func Sections() []string { return []string{SchedulerSection, NodeSection, UpSection} }

// Default returns the configuration with every setting at its default.
func Default() Config {
	var c Config
	sections().table.FillDefaults(&c)
	return c
}
