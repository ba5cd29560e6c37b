package api

import (
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/value/yson"
)

// thePoolTree is the tree that a command is about.
var thePoolTree = parameter{"pool_tree", aString, "the default tree", "the tree"}

// planParameters describe a tree as the caller wants it.
var planParameters = []parameter{
	thePoolTree,
	{"document", anything, required, "the whole tree: a map, or text in YAML or JSON"},
	{"file", aString, "document", "the name of the document in errors"},
}

var poolCommands = []command{
	{
		name: "plan_pools", about: "returns what apply_pools would change", needs: readAt(pathtree.PoolTreesPath),
		parameters: planParameters, run: planPools,
	},
	{
		name: "apply_pools", about: "changes a tree to match a document, as a whole or not at all", needs: changePools, changes: true,
		parameters: append(planParameters[:len(planParameters):len(planParameters)],
			parameter{"require_feasible", aBoolean, "false", "refuses guarantees that the nodes cannot keep"}),
		run: applyPools,
	},
	{
		name: "export_pools", about: "returns a tree as a document", needs: readAt(pathtree.PoolTreesPath),
		parameters: []parameter{thePoolTree}, run: exportPools,
	},
	{
		name: "transfer_pool_resources", about: "moves guarantees and operation limits from one pool to another", needs: changePools, changes: true,
		parameters: []parameter{
			{"source_pool", aString, required, "the pool to reduce"},
			{"destination_pool", aString, required, "the pool to increase"},
			{"resource_delta", aMap, "", "the amounts to move of strong_guarantee_resources, burst_guarantee_resources, resource_flow, max_operation_count and max_running_operation_count"},
			thePoolTree,
		},
		silentV3: true, run: transferPoolResources,
	},
	{
		name: "get_history", about: "returns charts of a pool", needs: readAt(pathtree.PoolTreesPath),
		parameters: []parameter{
			thePoolTree,
			{"pool", aString, "<Root>", "the pool"},
			{"resource", aString, "", "one resource; all by default"},
			{"series", someStrings, "", "names of series; all by default"},
			{"from_time", aTime, "15 minutes ago", "the start"},
			{"to_time", aTime, "now", "the end"},
			{"max_points", anInteger, "1000", "the greatest number of points in each series"},
		},
		run: getHistory,
	},
	{
		name: "get_report", about: "reports about the past: which guarantees were kept and why others were not, who preempted whom, who used what and what it costs, how much of budgets is spent; amounts are in units × seconds", needs: readReport,
		parameters: []parameter{
			{"report", aString, required, "the report: guarantees, preemptions, usage, savings, waits, budgets or forecasts"},
			thePoolTree,
			{"pool", aString, "", "one pool; all by default"},
			{"from_time", aTime, "the start of the day of to_time", "the start, rounded down to an hour of UTC"},
			{"to_time", aTime, "now", "the end, rounded up to an hour"},
			{"by", someStrings, "", "what divides the lines: day for guarantees; tree, pool, user, day and label:NAME for usage, savings and waits"},
			{"verify", aBoolean, "false", "for guarantees: recomputes the books from the log of facts and adds `verification`: whether they are equal, or where they differ"},
			{"prices", aMap, "the setting accounting/prices", "for usage: a price list; with prices, lines have `cost_micros`, in millionths of `currency`"},
		},
		run: getReport,
	},
}

// Parameters of requests for maintenance.
var (
	component = parameter{"component", aString, required, "cluster_node"}
	address   = parameter{"address", aString, required, "the node"}
	perTarget = parameter{"supports_per_target_response", aBoolean, "false", "returns the answer by node"}
)

var clusterCommands = []command{
	{
		name: "get_cluster", about: "returns the resources of the cluster, their use, and alerts", needs: readAt("//sys/scheduler"), run: getCluster,
	},
	{
		name: "list_nodes", about: "lists nodes by name", needs: readAt(pathtree.NodesPath),
		parameters: []parameter{
			{"pool_tree", aString, "", "only nodes of this tree"},
			{"tag", aString, "", "only nodes with this tag"},
			{"state", aString, "", "only nodes in this state: online, offline, banned or refused"},
			{"filter", aString, "", "a part of the name"},
			{"limit", anInteger, "10000", "the greatest number of nodes"},
		},
		run: listNodes,
	},
	{
		name: "list_pods", about: "lists pods of Kubernetes that Weir schedules, and why each waits", needs: readAt("//sys/operations"),
		parameters: []parameter{
			{"namespace", aString, "", "only pods of this namespace"},
			{"name", aString, "", "only pods with this name"},
			{"state", aString, "", "only pods in this state: waiting, starting, running, leaving, completed or failed"},
			{"filter", aString, "", "a part of the name"},
			{"limit", anInteger, "1000", "the greatest number of pods"},
		},
		run: listPods,
	},
	{
		name: "list_events", about: "lists events, newest first", needs: readAt("//sys/scheduler"),
		parameters: append([]parameter{operationID, operationAlias}, eventParameters...), run: listEvents,
	},
	{
		name: "list_audit", about: "lists changes with their users and the values before and after", needs: administer,
		parameters: append([]parameter{
			{"user", aString, "", "changes by this user"},
			{"command", aString, "", "changes by this command"},
			{"object", aString, "", "changes to this object"},
			{"below", aString, "", "changes to objects below this path"},
			{"request_id", aString, "", "changes of this request"},
			fromTime, toTime,
		}, pageParameters...),
		run: listAudit,
	},
	{
		name: "list_notification_targets", about: "lists the targets of notifications and how deliveries to them go", needs: administer, run: listNotificationTargets,
	},
	{
		name: "test_notification", about: "sends a message to a target of notifications", needs: administer, changes: true,
		parameters: []parameter{{"target", aString, required, "the name of the target"}}, run: testNotification,
	},
	{
		name: "prune_images", about: "makes a node delete the images that none of its jobs uses", needs: writeNode, changes: true,
		parameters: []parameter{component, address}, run: pruneImages,
	},
	{
		name: "add_maintenance", about: "adds a maintenance request, which restricts a node until it is removed", needs: writeNode, changes: true,
		parameters: []parameter{
			component, address, perTarget,
			{"type", aString, required, "ban, decommission, disable_scheduler_jobs, disable_write_sessions, disable_tablet_cells or pending_restart"},
			{"comment", aString, required, "the reason"},
		},
		run: addMaintenance, replay: replayAddMaintenance,
	},
	{
		name: "remove_maintenance", about: "removes maintenance requests", needs: writeNode, changes: true,
		parameters: []parameter{
			component, address, perTarget,
			{"id", someStrings, "", "the request"},
			{"ids", someStrings, "", "the requests"},
			{"type", aString, "", "requests of this type"},
			{"user", aString, "", "requests of this user"},
			{"mine", aBoolean, "false", "requests of the caller"},
			{"all", aBoolean, "false", "all requests"},
		},
		run: removeMaintenance, replay: replayRemoveMaintenance,
	},
	{
		name: "backup", about: "returns an export of the whole store, which an empty store can import", needs: superuser,
		output: rawBytes, heavy: true, run: backup,
	},
	{
		name: "list_journal", about: "returns the segments of the scheduler's journal", needs: superuser, run: listJournal,
	},
	{
		name: "export_journal", about: "returns the segments of the journal that have records between two times, for `weir replay`", needs: superuser,
		output: rawBytes, heavy: true,
		parameters: []parameter{
			{"from_time", aTime, "the start of the journal", "the start"},
			{"to_time", aTime, "now", "the end"},
		},
		run: exportJournal,
	},
	{
		name: "list_scenarios", about: "returns the example scenarios of the simulator", needs: readAt("//sys/scheduler"), local: true, run: listScenarios,
	},
	{
		name: "simulate", about: "runs a scenario in the simulator", needs: readAt("//sys/scheduler"), local: true, heavy: true,
		parameters: []parameter{
			{"example", aString, "", "the name of an example"},
			{"scenario", aString, "", "the text of a scenario, instead of an example"},
			{"seed", anInteger, "that of the scenario", "the seed of random draws"},
		},
		run: simulate,
	},
	{
		name: "what_if", about: "runs the cluster ahead on virtual time without and with changes, and compares pools and operations; it changes nothing", needs: readAt("//sys/scheduler"), heavy: true,
		parameters: []parameter{
			{"document", anything, required, "the changes: a map, or text in YAML or JSON, with for, durations and changes"},
			{"file", aString, "document", "the name of the document in messages"},
			{"for", aDuration, "that of the document, or two hours", "how far to look ahead, at most 24 hours"},
			asOf,
		},
		run: whatIf,
	},
}

// Parameters of a membership.
var memberParameters = []parameter{
	{"group", aString, required, "the group"},
	{"member", aString, required, "the user or group to add or remove"},
}

// The answers about tokens are not wrapped in either version, as in YTsaurus: a string, a list or a
// map.
var peopleCommands = []command{
	{name: "add_member", about: "adds a user or a group to a group", needs: writeGroup, changes: true, parameters: memberParameters, silentV3: true, run: addMember},
	{name: "remove_member", about: "removes a user or a group from a group", needs: writeGroup, changes: true, parameters: memberParameters, silentV3: true, run: removeMember},
	{
		name: "issue_token", about: "creates a token and returns its secret, which is not shown again", needs: ruleTokens, changes: true,
		parameters: []parameter{
			{"user", aString, "the caller", "the owner of the token"},
			{"description", aString, "", "what the token is for"},
			{"expiration_time", aTime, "never", "when it expires"},
			{"expiration_timeout", aDuration, "never", "how long it is valid"},
		},
		run: issueToken, replay: replayToken, secret: true,
	},
	{
		name: "list_user_tokens", about: "lists tokens by their hashes", needs: ruleTokens,
		parameters: []parameter{
			{"user", aString, "all users whose tokens the caller manages", "the owner of the tokens"},
			{"with_metadata", aBoolean, "false", "returns descriptions and times"},
			{"include_revoked", aBoolean, "false", "includes revoked tokens"},
		},
		run: listTokens,
	},
	{
		name: "revoke_token", about: "revokes a token", needs: revokeTokens, changes: true,
		parameters: []parameter{
			{"token_sha256", aString, required, "the hash of the token"},
			{"user", aString, "", "refuses the token unless it belongs to this user"},
		},
		silentV3: true, run: revokeToken,
	},
	{name: "get_current_user", about: "returns the name of the caller", needs: public, local: true, run: getCurrentUser},
}

var generalCommands = []command{
	{
		name: "execute_batch", about: "runs commands one after the other; each has its own permission check and its own result", needs: signedIn, changes: true,
		parameters: []parameter{{"requests", anything, required, "a list of maps, each with command, parameters and input"}},
		result:     "results", run: executeBatch,
	},
	{name: "get_version", about: "returns the version of the server", needs: public, local: true, result: "version", run: getVersion},
	{name: "get_supported_features", about: "returns the optional features that the server supports", needs: public, local: true, result: "features", run: getSupportedFeatures},
	{name: "generate_timestamp", about: "returns a number that grows with time", needs: signedIn, local: true, result: "timestamp", run: generateTimestamp},
	{
		name: "parse_ypath", about: "parses a path with attributes", needs: signedIn, local: true,
		parameters: []parameter{{"path", anything, required, "the path"}}, result: "path", run: parsePath,
	},
	{name: "discover_proxies", about: "lists the servers that accept requests", needs: signedIn, local: true, run: discoverProxies},
	{
		name: "build_snapshot", about: "does nothing, because every change is stored at once", needs: signedIn, changes: true,
		run: func(*call) (yson.Node, error) { return yson.Map(), nil },
	},
}
