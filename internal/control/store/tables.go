package store

import (
	"strings"
)

// tables lists every table in the order in which rows are put, exported and imported.
var tables = []anyTable{
	&settingsTable,
	&countersTable,
	&treesTable,
	&poolsTable,
	&pathNodesTable,
	&operationsTable,
	&operationSpecsTable,
	&operationProgressTable,
	&controllerSnapshotsTable,
	&jobsTable,
	&volumesTable,
	&clocksTable,
	&nodesTable,
	&usersTable,
	&userGroupsTable,
	&membersTable,
	&tokensTable,
	&aclsTable,
	&mutationsTable,
	&jobOutputsTable,
	&contentUsesTable,
	&eventsTable,
	&auditTable,
	&historySeriesTable,
	&historyBlocksTable,
	&ledgerRowsTable,
	&ledgerTalliesTable,
	&ledgerFactsTable,
	&forecastsTable,
	&forecastModelsTable,
}

// ofLiveOperations selects rows that belong to unfinished operations.
func ofLiveOperations(table string) string {
	return table + ".operation IN (SELECT number FROM operations WHERE finish_time = 0)"
}

// liveJobs are the running jobs and those that finished after the snapshot of
// their operation's controller.
const liveJobs = `jobs.number IN (
	SELECT j.number FROM operations o JOIN jobs j ON j.operation = o.number AND j.sequence = 0
	WHERE o.finish_time = 0
	UNION ALL
	SELECT j.number FROM operations o LEFT JOIN controller_snapshots s ON s.operation = o.number
	JOIN jobs j ON j.operation = o.number AND j.sequence > COALESCE(s.position, 0)
	WHERE o.finish_time = 0)`

// searchText is the text that text filters search.
func searchText(o *Operation) string {
	words := []string{o.ID, o.Alias, o.Type, o.User, o.State, o.Title, o.Filter}
	for _, p := range o.Pools {
		words = append(words, p.Pool)
	}
	return strings.ToLower(strings.Join(words, "\n"))
}

var settingsTable = table[Setting]{
	name: "settings", keys: 1,
	slice: func(rows *Rows) *[]Setting { return &rows.Settings },
	fields: []field[Setting]{
		{column: "name", at: func(r *Setting) any { return &r.Name }},
		{column: "document", at: func(r *Setting) any { return &r.Document }},
	},
	tracked: true,
}

var countersTable = table[Counter]{
	name: "counters", keys: 1,
	slice: func(rows *Rows) *[]Counter { return &rows.Counters },
	fields: []field[Counter]{
		{column: "name", at: func(r *Counter) any { return &r.Name }},
		{column: "value", at: func(r *Counter) any { return &r.Value }},
	},
	tracked: true,
}

var treesTable = table[Tree]{
	name: "trees", keys: 1,
	slice: func(rows *Rows) *[]Tree { return &rows.Trees },
	fields: []field[Tree]{
		{column: "name", at: func(r *Tree) any { return &r.Name }},
		{column: "config", at: func(r *Tree) any { return &r.Config }},
		{column: "attributes", at: func(r *Tree) any { return &r.Attributes }},
	},
	tracked: true,
}

var poolsTable = table[Pool]{
	name: "pools", keys: 2,
	slice: func(rows *Rows) *[]Pool { return &rows.Pools },
	fields: []field[Pool]{
		{column: "tree", at: func(r *Pool) any { return &r.Tree }},
		{column: "name", at: func(r *Pool) any { return &r.Name }},
		{column: "parent", at: func(r *Pool) any { return &r.Parent }},
		{column: "attributes", at: func(r *Pool) any { return &r.Attributes }},
	},
	tracked: true,
}

var pathNodesTable = table[PathNode]{
	name: "path_nodes", keys: 1,
	slice: func(rows *Rows) *[]PathNode { return &rows.PathNodes },
	fields: []field[PathNode]{
		{column: "path", at: func(r *PathNode) any { return &r.Path }},
		{column: "type", at: func(r *PathNode) any { return &r.Type }},
		{column: "document", at: func(r *PathNode) any { return &r.Document }},
		{column: "attributes", at: func(r *PathNode) any { return &r.Attributes }},
		{column: "created", at: func(r *PathNode) any { return &r.Created }},
		{column: "modified", at: func(r *PathNode) any { return &r.Modified }},
		{column: "content", at: func(r *PathNode) any { return &r.Content }},
		{column: "content_size", at: func(r *PathNode) any { return &r.ContentSize }},
		{column: "content_user", at: func(r *PathNode) any { return &r.ContentUser }},
	},
	tracked: true,
}

var operationsTable = table[Operation]{
	name: "operations", keys: 1,
	slice: func(rows *Rows) *[]Operation { return &rows.Operations },
	fields: []field[Operation]{
		{column: "number", at: func(r *Operation) any { return &r.Number }},
		{column: "id", at: func(r *Operation) any { return &r.ID }},
		{column: "alias", at: func(r *Operation) any { return &r.Alias }},
		{column: "type", at: func(r *Operation) any { return &r.Type }},
		{column: "user_name", at: func(r *Operation) any { return &r.User }},
		{column: "state", at: func(r *Operation) any { return &r.State }},
		{column: "suspended", at: func(r *Operation) any { return &r.Suspended }},
		{column: "title", at: func(r *Operation) any { return &r.Title }, long: true},
		{column: "pools", at: func(r *Operation) any { return &r.Pools }},
		{column: "filter", at: func(r *Operation) any { return &r.Filter }, long: true},
		{column: "has_failed_jobs", at: func(r *Operation) any { return &r.HasFailedJobs }},
		{column: "start_time", at: func(r *Operation) any { return &r.StartTime }},
		{column: "finish_time", at: func(r *Operation) any { return &r.FinishTime }},
		{column: "brief_spec", at: func(r *Operation) any { return &r.BriefSpec }},
		{column: "runtime_parameters", at: func(r *Operation) any { return &r.RuntimeParameters }},
		{column: "events", at: func(r *Operation) any { return &r.Events }},
		{column: "alerts", at: func(r *Operation) any { return &r.Alerts }},
		{column: "result", at: func(r *Operation) any { return &r.Result }},
		{column: "attributes", at: func(r *Operation) any { return &r.Attributes }},
	},
	tracked: true,
	live:    "operations.finish_time = 0",
	// A number belongs to one id permanently.
	guard: "operations.id = excluded.id",
	rule: func(o *Operation) string {
		switch {
		case o.Number <= 0:
			return "number: must be positive"
		case o.ID == "":
			return "id: must not be empty"
		}
		return ""
	},
	derived: []derived[Operation]{{"search", searchText}},
}

var operationSpecsTable = table[OperationSpec]{
	name: "operation_specs", keys: 1,
	slice: func(rows *Rows) *[]OperationSpec { return &rows.OperationSpecs },
	fields: []field[OperationSpec]{
		{column: "operation", at: func(r *OperationSpec) any { return &r.Operation }},
		{column: "provided", at: func(r *OperationSpec) any { return &r.Provided }},
		{column: "resulting", at: func(r *OperationSpec) any { return &r.Resulting }},
		{column: "unrecognized", at: func(r *OperationSpec) any { return &r.Unrecognized }},
	},
	tracked: true,
	live:    ofLiveOperations("operation_specs"),
}

var operationProgressTable = table[OperationProgress]{
	name: "operation_progress", keys: 1,
	slice: func(rows *Rows) *[]OperationProgress { return &rows.OperationProgress },
	fields: []field[OperationProgress]{
		{column: "operation", at: func(r *OperationProgress) any { return &r.Operation }},
		{column: "built", at: func(r *OperationProgress) any { return &r.Built }},
		{column: "brief", at: func(r *OperationProgress) any { return &r.Brief }},
		{column: "progress", at: func(r *OperationProgress) any { return &r.Progress }},
	},
	loaded: true,
	live:   ofLiveOperations("operation_progress"),
}

var controllerSnapshotsTable = table[ControllerSnapshot]{
	name: "controller_snapshots", keys: 1,
	slice: func(rows *Rows) *[]ControllerSnapshot { return &rows.ControllerSnapshots },
	fields: []field[ControllerSnapshot]{
		{column: "operation", at: func(r *ControllerSnapshot) any { return &r.Operation }},
		{column: "position", at: func(r *ControllerSnapshot) any { return &r.Position }},
		{column: "taken", at: func(r *ControllerSnapshot) any { return &r.Taken }},
		{column: "data", at: func(r *ControllerSnapshot) any { return &r.Data }},
	},
	loaded: true,
	live:   ofLiveOperations("controller_snapshots"),
}

var jobsTable = table[Job]{
	name: "jobs", keys: 1,
	slice: func(rows *Rows) *[]Job { return &rows.Jobs },
	fields: []field[Job]{
		{column: "number", at: func(r *Job) any { return &r.Number }},
		{column: "operation", at: func(r *Job) any { return &r.Operation }},
		{column: "sequence", at: func(r *Job) any { return &r.Sequence }},
		{column: "task", at: func(r *Job) any { return &r.Task }},
		{column: "cookie", at: func(r *Job) any { return &r.Cookie }},
		{column: "type", at: func(r *Job) any { return &r.Type }},
		{column: "node", at: func(r *Job) any { return &r.Node }},
		{column: "tree", at: func(r *Job) any { return &r.Tree }},
		{column: "state", at: func(r *Job) any { return &r.State }},
		{column: "abort_reason", at: func(r *Job) any { return &r.AbortReason }},
		{column: "start_time", at: func(r *Job) any { return &r.StartTime }},
		{column: "finish_time", at: func(r *Job) any { return &r.FinishTime }},
		{column: "stderr_size", at: func(r *Job) any { return &r.StderrSize }},
		{column: "resources", at: func(r *Job) any { return &r.Resources }},
		{column: "error", at: func(r *Job) any { return &r.Error }},
		{column: "statistics", at: func(r *Job) any { return &r.Statistics }},
		{column: "attributes", at: func(r *Job) any { return &r.Attributes }},
	},
	loaded: true,
	live:   liveJobs,
	order:  "operation, sequence, number",
	// A finished job does not change.
	guard:     "jobs.finish_time = 0",
	keepFirst: func(first *Job) bool { return !first.FinishTime.IsZero() },
	rule: func(j *Job) string {
		switch {
		case j.Operation <= 0:
			return "operation: must be positive"
		case j.Sequence != 0 && j.FinishTime.IsZero():
			return "sequence: a job that has not finished has none"
		case j.Sequence <= 0 && !j.FinishTime.IsZero():
			return "sequence: must be positive for a finished job"
		}
		return ""
	},
}

var volumesTable = table[Volume]{
	name: "volumes", keys: 2,
	slice: func(rows *Rows) *[]Volume { return &rows.Volumes },
	fields: []field[Volume]{
		{column: "tree", at: func(r *Volume) any { return &r.Tree }},
		{column: "pool", at: func(r *Volume) any { return &r.Pool }},
		{column: "updated", at: func(r *Volume) any { return &r.Updated }},
		{column: "volume", at: func(r *Volume) any { return &r.Volume }},
	},
	tracked: true,
}

var clocksTable = table[Clock]{
	name: "clocks", keys: 1,
	slice: func(rows *Rows) *[]Clock { return &rows.Clocks },
	fields: []field[Clock]{
		{column: "tree", at: func(r *Clock) any { return &r.Tree }},
		{column: "updated", at: func(r *Clock) any { return &r.Updated }},
		{column: "data", at: func(r *Clock) any { return &r.Data }},
	},
	tracked: true,
}

var nodesTable = table[Node]{
	name: "nodes", keys: 1,
	slice: func(rows *Rows) *[]Node { return &rows.Nodes },
	fields: []field[Node]{
		{column: "address", at: func(r *Node) any { return &r.Address }},
		{column: "document", at: func(r *Node) any { return &r.Document }},
		{column: "last_seen", at: func(r *Node) any { return &r.LastSeen }},
	},
	tracked: true,
}

var usersTable = table[User]{
	name: "users", keys: 1,
	slice: func(rows *Rows) *[]User { return &rows.Users },
	fields: []field[User]{
		{column: "name", at: func(r *User) any { return &r.Name }},
		{column: "document", at: func(r *User) any { return &r.Document }},
	},
	tracked: true,
}

var userGroupsTable = table[Group]{
	name: "user_groups", keys: 1,
	slice: func(rows *Rows) *[]Group { return &rows.Groups },
	fields: []field[Group]{
		{column: "name", at: func(r *Group) any { return &r.Name }},
		{column: "document", at: func(r *Group) any { return &r.Document }},
	},
	tracked: true,
}

var membersTable = table[Member]{
	name: "members", keys: 2,
	slice: func(rows *Rows) *[]Member { return &rows.Members },
	fields: []field[Member]{
		{column: "group_name", at: func(r *Member) any { return &r.Group }},
		{column: "member", at: func(r *Member) any { return &r.Member }},
	},
	tracked: true,
}

var tokensTable = table[Token]{
	name: "tokens", keys: 1,
	slice: func(rows *Rows) *[]Token { return &rows.Tokens },
	fields: []field[Token]{
		{column: "hash", at: func(r *Token) any { return &r.Hash }},
		{column: "user_name", at: func(r *Token) any { return &r.User }},
		{column: "name", at: func(r *Token) any { return &r.Name }},
		{column: "created", at: func(r *Token) any { return &r.Created }},
		{column: "last_used", at: func(r *Token) any { return &r.LastUsed }},
		{column: "expires", at: func(r *Token) any { return &r.Expires }},
		{column: "revoked", at: func(r *Token) any { return &r.Revoked }},
	},
	tracked: true,
}

var aclsTable = table[ACL]{
	name: "acls", keys: 1,
	slice: func(rows *Rows) *[]ACL { return &rows.ACLs },
	fields: []field[ACL]{
		{column: "path", at: func(r *ACL) any { return &r.Path }},
		{column: "document", at: func(r *ACL) any { return &r.Document }},
	},
	tracked: true,
}

var mutationsTable = table[Mutation]{
	name: "mutations", keys: 1,
	slice: func(rows *Rows) *[]Mutation { return &rows.Mutations },
	fields: []field[Mutation]{
		{column: "id", at: func(r *Mutation) any { return &r.ID }},
		{column: "expires", at: func(r *Mutation) any { return &r.Expires }},
		{column: "response", at: func(r *Mutation) any { return &r.Response }},
	},
	tracked: true,
}

var jobOutputsTable = table[JobOutput]{
	name: "job_outputs", keys: 2,
	slice: func(rows *Rows) *[]JobOutput { return &rows.JobOutputs },
	fields: []field[JobOutput]{
		{column: "job", at: func(r *JobOutput) any { return &r.Job }},
		{column: "kind", at: func(r *JobOutput) any { return &r.Kind }},
		{column: "operation", at: func(r *JobOutput) any { return &r.Operation }},
		{column: "written", at: func(r *JobOutput) any { return &r.Written }},
		{column: "data", at: func(r *JobOutput) any { return &r.Data }},
	},
}

var contentUsesTable = table[ContentUse]{
	name: "content_uses", keys: 2,
	slice: func(rows *Rows) *[]ContentUse { return &rows.ContentUses },
	fields: []field[ContentUse]{
		{column: "content", at: func(r *ContentUse) any { return &r.Content }},
		{column: "holder", at: func(r *ContentUse) any { return &r.Holder }},
		{column: "user_name", at: func(r *ContentUse) any { return &r.User }},
		{column: "size", at: func(r *ContentUse) any { return &r.Size }},
		{column: "operation", at: func(r *ContentUse) any { return &r.Operation }},
		{column: "job", at: func(r *ContentUse) any { return &r.Job }},
		{column: "expires", at: func(r *ContentUse) any { return &r.Expires }},
		{column: "document", at: func(r *ContentUse) any { return &r.Document }},
	},
}

var eventsTable = table[Event]{
	name: "events", keys: 1,
	slice: func(rows *Rows) *[]Event { return &rows.Events },
	fields: []field[Event]{
		{column: "id", at: func(r *Event) any { return &r.ID }},
		{column: "time", at: func(r *Event) any { return &r.Time }},
		{column: "type", at: func(r *Event) any { return &r.Type }},
		{column: "operation", at: func(r *Event) any { return &r.Operation }},
		{column: "job", at: func(r *Event) any { return &r.Job }},
		{column: "tree", at: func(r *Event) any { return &r.Tree }},
		{column: "pool", at: func(r *Event) any { return &r.Pool }},
		{column: "node", at: func(r *Event) any { return &r.Node }},
		{column: "document", at: func(r *Event) any { return &r.Document }},
	},
	insertOnly: true,
	index:      indexEvents,
}

var auditTable = table[AuditRecord]{
	name: "audit", keys: 1,
	slice: func(rows *Rows) *[]AuditRecord { return &rows.Audit },
	fields: []field[AuditRecord]{
		{column: "id", at: func(r *AuditRecord) any { return &r.ID }},
		{column: "time", at: func(r *AuditRecord) any { return &r.Time }},
		{column: "user_name", at: func(r *AuditRecord) any { return &r.User }},
		{column: "command", at: func(r *AuditRecord) any { return &r.Command }},
		{column: "object", at: func(r *AuditRecord) any { return &r.Object }},
		{column: "before", at: func(r *AuditRecord) any { return &r.Before }},
		{column: "after", at: func(r *AuditRecord) any { return &r.After }},
		{column: "request", at: func(r *AuditRecord) any { return &r.Request }},
	},
	insertOnly: true,
}

var historySeriesTable = table[HistorySeries]{
	name: "history_series", keys: 1,
	slice: func(rows *Rows) *[]HistorySeries { return &rows.HistorySeries },
	fields: []field[HistorySeries]{
		{column: "number", at: func(r *HistorySeries) any { return &r.Number }},
		{column: "resource", at: func(r *HistorySeries) any { return &r.Resource }},
		{column: "name", at: func(r *HistorySeries) any { return &r.Name }},
	},
}

var historyBlocksTable = table[HistoryBlock]{
	name: "history_blocks", keys: 4,
	slice: func(rows *Rows) *[]HistoryBlock { return &rows.HistoryBlocks },
	fields: []field[HistoryBlock]{
		{column: "tree", at: func(r *HistoryBlock) any { return &r.Tree }},
		{column: "pool", at: func(r *HistoryBlock) any { return &r.Pool }},
		{column: "level", at: func(r *HistoryBlock) any { return &r.Level }},
		{column: "start", at: func(r *HistoryBlock) any { return &r.Start }},
		{column: "data", at: func(r *HistoryBlock) any { return &r.Data }},
	},
}

var ledgerRowsTable = table[LedgerRow]{
	name: "ledger_rows", keys: 4,
	slice: func(rows *Rows) *[]LedgerRow { return &rows.LedgerRows },
	fields: []field[LedgerRow]{
		{column: "tree", at: func(r *LedgerRow) any { return &r.Tree }},
		{column: "pool", at: func(r *LedgerRow) any { return &r.Pool }},
		{column: "level", at: func(r *LedgerRow) any { return &r.Level }},
		{column: "start", at: func(r *LedgerRow) any { return &r.Start }},
		{column: "data", at: func(r *LedgerRow) any { return &r.Data }},
	},
}

var ledgerTalliesTable = table[LedgerTally]{
	name: "ledger_tallies", keys: 4,
	slice: func(rows *Rows) *[]LedgerTally { return &rows.LedgerTallies },
	fields: []field[LedgerTally]{
		{column: "kind", at: func(r *LedgerTally) any { return &r.Kind }},
		{column: "tree", at: func(r *LedgerTally) any { return &r.Tree }},
		{column: "level", at: func(r *LedgerTally) any { return &r.Level }},
		{column: "start", at: func(r *LedgerTally) any { return &r.Start }},
		{column: "data", at: func(r *LedgerTally) any { return &r.Data }},
	},
}

var ledgerFactsTable = table[LedgerFacts]{
	name: "ledger_facts", keys: 2,
	slice: func(rows *Rows) *[]LedgerFacts { return &rows.LedgerFacts },
	fields: []field[LedgerFacts]{
		{column: "epoch", at: func(r *LedgerFacts) any { return &r.Epoch }},
		{column: "number", at: func(r *LedgerFacts) any { return &r.Number }},
		{column: "start", at: func(r *LedgerFacts) any { return &r.Start }},
		{column: "finish", at: func(r *LedgerFacts) any { return &r.Finish }},
		{column: "gap", at: func(r *LedgerFacts) any { return &r.Gap }},
		{column: "data", at: func(r *LedgerFacts) any { return &r.Data }},
	},
}

var forecastsTable = table[Forecast]{
	name: "forecasts", keys: 3,
	slice: func(rows *Rows) *[]Forecast { return &rows.Forecasts },
	fields: []field[Forecast]{
		{column: "operation", at: func(r *Forecast) any { return &r.Operation }},
		{column: "target", at: func(r *Forecast) any { return &r.Target }},
		{column: "made", at: func(r *Forecast) any { return &r.Made }},
		{column: "tree", at: func(r *Forecast) any { return &r.Tree }},
		{column: "pool", at: func(r *Forecast) any { return &r.Pool }},
		{column: "settled", at: func(r *Forecast) any { return &r.Settled }},
		{column: "data", at: func(r *Forecast) any { return &r.Data }},
	},
}

var forecastModelsTable = table[ForecastModel]{
	name: "forecast_models", keys: 1,
	slice: func(rows *Rows) *[]ForecastModel { return &rows.ForecastModels },
	fields: []field[ForecastModel]{
		{column: "name", at: func(r *ForecastModel) any { return &r.Name }},
		{column: "updated", at: func(r *ForecastModel) any { return &r.Updated }},
		{column: "data", at: func(r *ForecastModel) any { return &r.Data }},
	},
}
