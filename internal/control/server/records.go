package server

import (
	"sync"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
)

// Operation is the record of an operation that has not ended, or has just ended. It is
// immutable: a change makes a new record.
type Operation struct {
	Number core.OperationID
	ID     guid.ID
	Type   string
	User   string
	// Spec is the specification that the operation runs by, Provided the one that the
	// user wrote.
	Spec         *operation.Spec
	Provided     document.Value
	Unrecognized document.Value

	State     operation.State
	Suspended bool
	Start     time.Time
	Finish    time.Time // zero until it ends
	Events    []operation.Event
	Result    *operation.Error
	Alerts    []Alert
	// Waiting names the pools whose limits on the number of operations keep it from
	// running.
	Waiting []string
	Places  []core.Place
	// Annotations and ACL are separate runtime parameters.
	Annotations document.Value
	ACL         document.Value

	Jobs     operation.Statistics
	Tasks    []document.Named[operation.Statistics]
	Built    time.Time      // when Jobs and Tasks were read
	Progress document.Value // the jobs' statistics and everything else that the controller reports
}

// Alias is the name that commands accept in place of the id.
func (o *Operation) Alias() string { return o.Spec.Alias.Value() }

// Job is the record of a running job. It is immutable: a change makes a new record.
type Job struct {
	Number    core.JobID
	ID        guid.ID
	Operation core.OperationID
	operation.JobRef
	TaskName  string
	Tree      string
	Node      string
	State     string // "waiting" until its process starts, then "running", then "aborting"
	Start     time.Time
	ExecStart time.Time
	// Resources is what it was allocated, Usage what it holds now.
	Resources resource.Amounts
	Usage     resource.Amounts
	Reserve   *operation.Reserve // nil if it is not known
	// Memory in use, as last reported.
	UserMemory, ProxyMemory, Tmpfs int64
	SmoothedCPU                    int64
	CPU                            CPUTrack
	Stopping                       string // why it is being stopped
	Stage                          string
	Statistics                     []Statistic
	GPUs                           []string  // ids of its devices
	PinnedUntil                    time.Time // until when it is not preempted; zero if it is not pinned

	node core.NodeID
	// ended reports whether the job is being moved to the archive. Readers that ask for
	// it by number still find it here until they can find it there.
	ended bool
}

// Node is a node as its agent and administrators describe it. It is immutable: a change
// makes a new record.
type Node struct {
	Name     string
	Address  string
	Online   bool
	LastSeen time.Time
	// Registered is when the current session started.
	Registered time.Time
	Tree       string
	Resources  resource.Amounts // as reported by the agent
	Limits     resource.Amounts // what jobs may use: with overrides applied
	Tags       []string         // the agent's and the administrators'
	Status     NodeStatus
	Version    string
	Cgroups    string
	// DiskQuota is how the node holds the files of jobs to their limits: project, watch or none; empty if its agent is too old to say.
	DiskQuota string
	// Isolation is how far the node keeps jobs apart; nil if its agent is too old to say.
	Isolation *Isolation
	// RegistrationError is why the node is not used.
	RegistrationError string
	NodeSettings
}

// NodeSettings are the administrators' settings of a node. They are stored.
type NodeSettings struct {
	// Maintenance lists the requests that restrict the node, oldest first. The three
	// flags follow from it; the methods change them together.
	Maintenance    []MaintenanceRequest `json:"maintenance,omitempty"`
	Banned         bool                 `json:"banned,omitempty"`
	DisableJobs    bool                 `json:"disable_scheduler_jobs,omitempty"`
	Decommissioned bool                 `json:"decommissioned,omitempty"`

	BanMessage string   `json:"ban_message,omitempty"`
	UserTags   []string `json:"user_tags,omitempty"`
	// Agent is the id of the agent that registered last.
	Agent          string           `json:"agent,omitempty"`
	LimitOverrides resource.Partial `json:"resource_limits_overrides,omitzero"`
}

// directory is a table of immutable records. The loop writes it; any goroutine reads
// it.
type directory[K comparable, V any] struct {
	mutex   sync.RWMutex
	entries map[K]V
}

func newDirectory[K comparable, V any]() *directory[K, V] {
	return &directory[K, V]{entries: map[K]V{}}
}

func (d *directory[K, V]) get(key K) (V, bool) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	v, ok := d.entries[key]
	return v, ok
}

func (d *directory[K, V]) put(key K, value V) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.entries[key] = value
}

func (d *directory[K, V]) remove(key K) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.entries, key)
}

func (d *directory[K, V]) clear() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	clear(d.entries)
}

// all returns the entries in no particular order.
func (d *directory[K, V]) all() []V {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	list := make([]V, 0, len(d.entries))
	for _, v := range d.entries {
		list = append(list, v)
	}
	return list
}
