package store

import "time"

// Rows is a set of rows of every kind. A [Batch] has one to put and one to delete;
// [Store.Load] and [Store.Changes] return one.
type Rows struct {
	Settings  []Setting
	Counters  []Counter
	Trees     []Tree
	Pools     []Pool
	PathNodes []PathNode

	Operations          []Operation
	OperationSpecs      []OperationSpec
	OperationProgress   []OperationProgress
	ControllerSnapshots []ControllerSnapshot
	Jobs                []Job

	Volumes []Volume
	Clocks  []Clock
	Nodes   []Node

	Users     []User
	Groups    []Group
	Members   []Member
	Tokens    []Token
	ACLs      []ACL
	Mutations []Mutation

	// The following rows are only put and queried: Load and Changes leave them out.

	JobOutputs     []JobOutput
	ContentUses    []ContentUse
	Events         []Event
	Audit          []AuditRecord
	HistorySeries  []HistorySeries
	HistoryBlocks  []HistoryBlock
	LedgerRows     []LedgerRow
	LedgerTallies  []LedgerTally
	LedgerFacts    []LedgerFacts
	Forecasts      []Forecast
	ForecastModels []ForecastModel
}

// Setting is a named document: the scheduler's configuration, the name of the
// default tree, users' default pools and the like.
type Setting struct {
	Name     string // key
	Document []byte
}

// Counter is a number that the leader keeps: one from which it reserves ranges, such as job
// numbers, or a time in microseconds.
type Counter struct {
	Name  string // key
	Value int64
}

// Tree is a pool tree with its configuration.
type Tree struct {
	Name       string // key
	Config     []byte
	Attributes []byte // everything that is not configuration: custom attributes, identity
}

// Pool is one pool of a tree. The root of a tree has no row; pools directly below it
// have an empty parent.
type Pool struct {
	Tree       string // key
	Name       string // key
	Parent     string
	Attributes []byte
}

// PathNode is a node of the path tree that is of no other kind.
type PathNode struct {
	Path       string // key
	Type       string
	Document   []byte
	Attributes []byte
	Created    time.Time
	Modified   time.Time
	// Content is the SHA-256 of a file's content if that is in the blob storage, ContentSize its size and ContentUser the user
	// who wrote it. Otherwise they are zero, and Document is the content.
	Content     string
	ContentSize int64
	ContentUser string
}

// TreePool is an operation's pool in a tree.
type TreePool struct {
	Tree string
	Pool string
}

// Operation holds what lists show and filters need, with the small documents that
// change together with the state.
type Operation struct {
	// Number is dense and never reused, even after the operation is deleted: use the
	// next number after [State.LastOperation].
	Number int32 // key
	// ID is the public identifier. It is unique.
	ID        string
	Alias     string
	Type      string
	User      string
	State     string
	Suspended bool
	Title     string
	// Pools are sorted by tree when read.
	Pools []TreePool
	// Filter holds additional words for text filters. ID, alias, type, user, state,
	// title and pools are always searched.
	Filter        string
	HasFailedJobs bool
	StartTime     time.Time
	FinishTime    time.Time // zero until it ends; then it belongs to the archive

	BriefSpec         []byte
	RuntimeParameters []byte
	Events            []byte
	Alerts            []byte
	Result            []byte
	Attributes        []byte // everything else
}

// OperationSpec holds what rarely changes and may be large.
type OperationSpec struct {
	Operation    int32 // key
	Provided     []byte
	Resulting    []byte
	Unrecognized []byte
}

// OperationProgress holds what changes often.
type OperationProgress struct {
	Operation int32 // key
	Built     time.Time
	Brief     []byte
	Progress  []byte
}

// ControllerSnapshot is a controller's state. Jobs of the operation that finished
// after it have a sequence greater than Position.
type ControllerSnapshot struct {
	Operation int32 // key
	Position  int64
	Taken     time.Time
	Data      []byte
}

// Job is a job, running or finished. A finished job never changes: putting it again
// leaves it as it is, and [Receipt.Duplicates] names it.
type Job struct {
	Number    uint64 // key
	Operation int32
	// Sequence orders the finished jobs of an operation, from 1. It is 0 until then.
	Sequence    int64
	Task        string
	Cookie      int32
	Type        string
	Node        string
	Tree        string
	State       string
	AbortReason string
	StartTime   time.Time
	FinishTime  time.Time
	StderrSize  int64
	Resources   []byte
	Error       []byte
	Statistics  []byte
	Attributes  []byte // everything else
}

// JobOutput is what a job wrote, by kind: "stderr", "fail_context".
type JobOutput struct {
	Job       uint64 // key
	Kind      string // key
	Operation int32
	Written   time.Time
	Data      []byte
}

// ContentUse states that a content of the blob storage is used. The content is kept as long as it has a use.
type ContentUse struct {
	Content string // key; SHA-256
	// Holder is what uses the content, such as "path://home/tool" or "operation:7".
	Holder string // key
	// User is the user in whose quota it counts. A content counts once, however many uses of it the user has.
	User string
	Size int64
	// Operation and Job are set for uses that end with an operation.
	Operation int32
	Job       uint64
	Expires   time.Time // zero: not by itself
	Document  []byte    // what the holder stores about it
}

// Volume is a pool's integral volume at a time.
type Volume struct {
	Tree    string // key
	Pool    string // key
	Updated time.Time
	Volume  []byte
}

// Clock is the state of a tree's clocks, such as those of starvation, at a time.
type Clock struct {
	Tree    string // key
	Updated time.Time
	Data    []byte
}

// Node is a cluster node: its document has tags, bans and overrides.
type Node struct {
	Address  string // key
	Document []byte
	LastSeen time.Time
}

// User is a person or a robot.
type User struct {
	Name     string // key
	Document []byte
}

// Group is a set of users and groups.
type Group struct {
	Name     string // key
	Document []byte
}

// Member records that a user or a group is in a group.
type Member struct {
	Group  string // key
	Member string // key
}

// Token is a secret that authenticates a user. Only its hash is stored.
type Token struct {
	Hash     string // key
	User     string
	Name     string
	Created  time.Time
	LastUsed time.Time
	Expires  time.Time
	Revoked  time.Time
}

// ACL is the access control list of a path.
type ACL struct {
	Path     string // key
	Document []byte
}

// Mutation is the answer to a request that must not be executed twice.
type Mutation struct {
	ID       string // key
	Expires  time.Time
	Response []byte
}

// Event is an entry of the decision log. Commit numbers events densely.
type Event struct {
	ID        int64 // key, set by Commit
	Time      time.Time
	Type      string
	Operation int32
	Job       uint64
	Tree      string
	Pool      string
	Node      string
	Document  []byte
}

// AuditRecord records who changed what. Commit numbers records densely.
type AuditRecord struct {
	ID      int64 // key, set by Commit
	Time    time.Time
	User    string
	Command string
	Object  string // a path or the id of an operation
	Before  []byte
	After   []byte
	Request string
}

// HistorySeries assigns a number to a series of the charts.
type HistorySeries struct {
	Number   int32 // key
	Resource string
	Name     string
}

// HistoryBlock is a stretch of all series of a pool, packed by package history.
type HistoryBlock struct {
	Tree  string    // key
	Pool  string    // key
	Level int32     // key: seconds between points
	Start time.Time // key
	Data  []byte
}

// LedgerRow is what the books of guarantees have of a pool for a period, packed by the
// package ledger.
type LedgerRow struct {
	Tree  string    // key
	Pool  string    // key
	Level int32     // key: seconds of the period, 0 for what held at the last flush
	Start time.Time // key
	Data  []byte
}

// LedgerTally is what the other books have of a tree for a period, packed by the package ledger.
type LedgerTally struct {
	Kind  string    // key: of the lines, such as "usage"
	Tree  string    // key; empty if the lines are of all trees
	Level int32     // key: seconds of the period
	Start time.Time // key
	Data  []byte
}

// LedgerFacts are all changes of the books of guarantees between two flushes, packed by the package
// ledger.
type LedgerFacts struct {
	Epoch  int64 // key: of the leader that flushed them
	Number int64 // key: counts the flushes of the leader
	Start  time.Time
	Finish time.Time
	Gap    bool // there were too many
	Data   []byte
}

// Forecast is a published forecast of when an operation starts or finishes.
type Forecast struct {
	Operation int32     // key: its number
	Target    int32     // key: 0 for the start, 1 for the finish
	Made      time.Time // key
	Tree      string
	Pool      string
	// Settled is when the outcome was known; zero while it is not, or if the operation
	// ended without one.
	Settled time.Time
	Data    []byte // quantiles and outcome, as JSON
}

// ForecastModel is what forecasts are made from: run times of jobs by key, packed by the
// package forecast.
type ForecastModel struct {
	Name    string // key
	Updated time.Time
	Data    []byte
}
