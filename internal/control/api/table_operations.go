package api

import "github.com/weirhq/weir/internal/control/pathtree"

// Parameters that commands about operations and jobs share.
var (
	operationID    = parameter{"operation_id", aString, "", "the operation: its id, or its alias, which starts with an asterisk"}
	operationAlias = parameter{"operation_alias", aString, "", "the alias of the operation, instead of operation_id"}
	jobID          = parameter{"job_id", anID, required, "the job"}
	fromTime       = parameter{"from_time", aTime, "", "the earliest time"}
	toTime         = parameter{"to_time", aTime, "", "the latest time, excluded"}
	namesWanted    = parameter{"attributes", someAttributes, "", "the attributes to return; by default all, or in lists the usual ones"}
)

var operationCommands = []command{
	{
		name: "start_operation", v3: "start_op", about: "starts an operation and returns its id once it is stored", needs: usePools, changes: true,
		parameters: []parameter{
			{"operation_type", aString, required, "vanilla"},
			{"spec", aMap, required, "the specification"},
		},
		result: "operation_id", run: startOperation, replay: replayStart,
	},
	{
		name: "abort_operation", v3: "abort_op", about: "aborts an operation", needs: manageOperation, changes: true,
		parameters: []parameter{operationID, operationAlias, {"abort_message", aString, "", "the reason"}},
		silentV3:   true, run: abortOperation,
	},
	{
		name: "complete_operation", v3: "complete_op", about: "ends an operation early as completed", needs: manageOperation, changes: true,
		parameters: []parameter{operationID, operationAlias}, silentV3: true, run: completeOperation,
	},
	{
		name: "suspend_operation", v3: "suspend_op", about: "suspends an operation: it gets no new jobs", needs: manageOperation, changes: true,
		parameters: []parameter{operationID, operationAlias, {"abort_running_jobs", aBoolean, "false", "aborts its running jobs"}},
		silentV3:   true, run: suspendOperation,
	},
	{
		name: "resume_operation", v3: "resume_op", about: "resumes a suspended operation", needs: manageOperation, changes: true,
		parameters: []parameter{operationID, operationAlias}, silentV3: true, run: resumeOperation,
	},
	{
		name: "update_operation_parameters", v3: "update_op_parameters", about: "changes parameters of a running operation: all or none", needs: updateParameters, changes: true,
		parameters: []parameter{operationID, operationAlias, {"parameters", aMap, required, "the new values: pool, weight, acl, scheduling_options_per_pool_tree, …"}},
		silentV3:   true, run: updateOperation,
	},
	{
		name: "patch_operation_spec", v3: "patch_op_spec", about: "changes single options of a running operation's specification", needs: updateParameters, changes: true,
		parameters: []parameter{operationID, operationAlias, {"patches", anything, required, "a list of maps, each with a path and a value"}},
		silentV3:   true, run: updateOperation,
	},
	{
		name: "get_operation", about: "returns an operation; its private parts only to users who may read the operation itself", needs: readOperation,
		parameters: []parameter{
			operationID, operationAlias, namesWanted,
			{"wait", aDuration, "0", "waits this long, at most a minute, until the operation changes or ends"},
			{"changed_since", aTime, "", "with wait: returns at once if brief_progress/build_time is later"},
		},
		run: getOperation,
	},
	{
		name: "list_operations", about: "lists operations, with counts by state, pool, tree, user and type", needs: readOperations,
		parameters: []parameter{
			namesWanted, fromTime, toTime,
			{"filter", aString, "", "a text that must occur in the operation"},
			{"state", aString, "", "such as running or failed"},
			{"type", aString, "", "vanilla"},
			{"user", aString, "", "the user who started it"},
			{"pool_tree", aString, "", "one of its trees"},
			{"pool", aString, "", "one of its pools"},
			{"with_failed_jobs", aBoolean, "", "true: only operations with failed jobs; false: only those without"},
			{"cursor_time", aTime, "", "where a list continues"},
			{"cursor_direction", aString, "past", "past or future"},
			{"limit", anInteger, "100", "the greatest number of operations, up to 1000"},
			{"include_counters", aBoolean, "true", "also returns the counts"},
			{"enable_ui_mode", aBoolean, "false", "returns each operation as its id with attributes"},
		},
		run: listOperations,
	},
	{
		name: "list_operation_events", about: "lists the events of an operation", needs: readOperation,
		parameters: append([]parameter{operationID, operationAlias}, eventParameters...), run: listOperationEvents,
	},
	{
		name: "explain_operation", about: "explains what an operation waits for, with amounts: one list of blockers, what to fix first at the top", needs: readOperation,
		parameters: []parameter{operationID, operationAlias, {"sole", aBoolean, "false", "finds out which blockers alone keep its jobs from starting"}, asOf},
		run:        explainOperation,
	},
	{
		name: "advise_operation", about: "finds the least changes that let an operation start jobs now, each tested on a copy of the cluster; it changes nothing", needs: readOperation,
		parameters: []parameter{
			operationID, operationAlias,
			{"jobs", anInteger, "0", "how many jobs must start; 0 means one, or all of a gang; -1 means all that wait"},
			{"by", aDuration, "0", "how long they may take to start, at most 24 hours; 0 means now"},
			{"upto", aString, "administrator", "who may have to act: user, owner or administrator"},
			{"knobs", someStrings, "", "the only kinds of change to try, such as pool or resource_limits; by default all"},
		},
		run: adviseOperation,
	},
	{
		name: "forecast_operation", about: "says when an operation starts and finishes, with intervals that hold in 90 % of all cases; waits a few seconds for the first forecast", needs: readOperation,
		parameters: []parameter{operationID, operationAlias}, run: forecastOperation,
	},
	{
		name: "forecast_pool", about: "says when the operations in and below a pool start and finish, and when the last of them does", needs: readAt(pathtree.PoolTreesPath),
		parameters: []parameter{{"pool", aString, required, "the pool"}, {"pool_tree", aString, "", "its tree; by default the default tree"}},
		run:        forecastPool,
	},
	{
		name: "explain_pool", about: "explains what a pool demands and does not have, by first blocker", needs: readAt(pathtree.PoolTreesPath),
		parameters: []parameter{{"pool", aString, required, "the pool"}, {"pool_tree", aString, "", "its tree; by default the default tree"}, asOf},
		run:        explainPool,
	},
	{
		name: "explain_cluster", about: "explains what waits in all trees, and which gates are closed", needs: readAt("//sys/scheduler"),
		parameters: []parameter{asOf}, run: explainCluster,
	},
	{
		name: "explain_job", about: "explains where a job runs and what may preempt it, or how it ended", needs: readJob,
		parameters: []parameter{jobID, operationID, operationAlias}, run: explainJob,
	},
}

// asOf asks about a past moment.
var asOf = parameter{"as_of", aTime, "now", "a past moment that the journal of the scheduler has"}

// pageParameters select a part of a long list.
var pageParameters = []parameter{
	{"limit", anInteger, "100", "the greatest number of entries, up to 10000"},
	{"cursor", anInteger, "0", "where a list continues: next_cursor of the previous answer"},
	{"oldest_first", aBoolean, "false", "sorts from the oldest to the newest"},
}

// eventParameters select events.
var eventParameters = append([]parameter{
	{"event_type", someStrings, "", "types of events"},
	{"types", someStrings, "", "more types of events"},
	{"pool_tree", aString, "", "events of a tree"},
	{"pool", aString, "", "events of a pool"},
	{"node", aString, "", "events of a node"},
	{"job_id", anID, "", "events of a job"},
	fromTime, toTime,
}, pageParameters...)

var jobCommands = []command{
	{
		name: "list_jobs", about: "lists the jobs of an operation, running and archived", needs: readOperation,
		parameters: []parameter{
			operationID, operationAlias, namesWanted, fromTime, toTime,
			{"job_state", aString, "", "such as running or failed"},
			{"state", aString, "", "the same as job_state"},
			{"job_type", aString, "", "vanilla"},
			{"type", aString, "", "the same as job_type"},
			{"address", aString, "", "the node"},
			{"task_name", aString, "", "the task"},
			{"pool_tree", aString, "", "the tree"},
			{"job_competition_id", anID, "", "only this job"},
			{"with_stderr", aBoolean, "", "true: only jobs with standard error; false: only those without"},
			{"with_spec", aBoolean, "", "no job has one"},
			{"with_fail_context", aBoolean, "", "no job has one"},
			{"with_competitors", aBoolean, "", "no job has them"},
			{"with_monitoring_descriptor", aBoolean, "", "no job has one"},
			{"include_runtime", aBoolean, "true", "with data_source=manual: includes running jobs"},
			{"include_scheduler", aBoolean, "true", "with data_source=manual: includes running jobs"},
			{"include_controller_agent", aBoolean, "true", "with data_source=manual: includes running jobs"},
			{"include_archive", aBoolean, "true", "with data_source=manual: includes ended jobs"},
			{"data_source", aString, "auto", "auto, manual, runtime or archive"},
			{"sort_field", aString, "none", "none, id, start_time, finish_time, duration, state, type, address, task_name or progress"},
			{"sort_order", aString, "ascending", "ascending or descending"},
			{"limit", anInteger, "1000", "the greatest number of jobs, up to 10000"},
			{"offset", anInteger, "0", "how many jobs to skip"},
			{"continuation_token", aString, "", "where a list continues"},
		},
		run: listJobs,
	},
	{
		name: "get_job", about: "returns a job", needs: readJob,
		parameters: []parameter{jobID, operationID, operationAlias, namesWanted}, run: getJob,
	},
	{
		name: "get_job_stderr", about: "returns the output of a job, of a running one as far as it has been written", needs: readJobData,
		parameters: []parameter{
			jobID, operationID, operationAlias,
			{"type", aString, "stderr", "stderr or stdout"},
			{"offset", anInteger, "0", "the first byte"},
			{"limit", anInteger, "", "the number of bytes; all by default"},
			{"wait_ms", aDuration, "0", "for a running job: waits this long, at most 30 seconds, if there is no output yet at the offset"},
		},
		output: rawBytes, heavy: true, run: getJobStderr,
	},
	{
		name: "poll_job_shell", about: "runs a shell or a command in a running job, beside its own command, and talks to it; every session is in the audit",
		needs: manageJob, changes: true, steps: true,
		parameters: []parameter{
			jobID, operationID, operationAlias,
			{"shell_name", aString, "", "accepted and ignored: jobs have one kind of shell"},
			{"parameters", aMap, required, "operation: spawn, update, poll or terminate; see docs/jobs.md for the rest"},
		},
		result: "result", run: pollJobShell,
	},
	{
		name: "signal_job", about: "sends a signal to a running job; the audit has it", needs: manageJob, changes: true,
		parameters: []parameter{
			jobID, operationID, operationAlias,
			{"signal_name", aString, required, "such as SIGUSR1; those of interruption_signal"},
			{"all", aBoolean, "false", "send it to all processes of the job, shells included, and not only to its command"},
		},
		silentV3: true, run: signalJob,
	},
	{
		name: "get_job_fail_context", about: "returns an error: jobs have no fail context", needs: readJobData,
		parameters: []parameter{jobID, operationID, operationAlias}, output: rawBytes, heavy: true, run: getJobFailContext,
	},
	{
		name: "get_job_input", about: "returns an error: jobs have no input", needs: readJobData,
		parameters: []parameter{jobID, operationID, operationAlias}, output: rawBytes, heavy: true, run: getJobInput,
	},
	{
		name: "abort_job", about: "aborts a job; the operation restarts it", needs: manageJob, changes: true, clientsGet: true,
		parameters: []parameter{jobID, operationID, operationAlias, {"interrupt_timeout", aDuration, "0", "interrupts the job first, and gives it this long to end by itself"}},
		silentV3:   true, run: abortJob,
	},
	{
		name: "abandon_job", about: "returns an error: jobs of vanilla operations cannot be abandoned", needs: manageJob, changes: true, clientsGet: true,
		parameters: []parameter{jobID, operationID, operationAlias}, silentV3: true, run: abandonJob,
	},
}
