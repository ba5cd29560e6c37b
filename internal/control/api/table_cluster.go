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
		name: "plan_pools", about: "compares a document of pools with the tree that is there", needs: readAt(pathtree.PoolTreesPath),
		parameters: planParameters, run: planPools,
	},
	{
		name: "apply_pools", about: "makes a tree what a document says, whole or not at all", needs: changePools, changes: true,
		parameters: append(planParameters[:len(planParameters):len(planParameters)],
			parameter{"require_feasible", aBoolean, "false", "refuses promises that the nodes cannot keep"}),
		run: applyPools,
	},
	{
		name: "export_pools", about: "writes a tree as a document", needs: readAt(pathtree.PoolTreesPath),
		parameters: []parameter{thePoolTree}, run: exportPools,
	},
	{
		name: "transfer_pool_resources", about: "moves guarantees and numbers of operations from one pool to another", needs: changePools, changes: true,
		parameters: []parameter{
			{"source_pool", aString, required, "the pool that gives"},
			{"destination_pool", aString, required, "the pool that gets"},
			{"resource_delta", aMap, "", "how much of strong_guarantee_resources, burst_guarantee_resources, resource_flow, max_operation_count, max_running_operation_count"},
			thePoolTree,
		},
		silentV3: true, run: transferPoolResources,
	},
	{
		name: "get_history", about: "returns charts of a pool", needs: readAt(pathtree.PoolTreesPath),
		parameters: []parameter{
			thePoolTree,
			{"pool", aString, "<Root>", "the pool"},
			{"resource", aString, "", "one resource; all unless given"},
			{"series", someStrings, "", "names of series; all unless given"},
			{"from_time", aTime, "15 minutes ago", "the beginning"},
			{"to_time", aTime, "now", "the end"},
			{"max_points", anInteger, "1000", "how many points of each series at most"},
		},
		run: getHistory,
	},
}

// Parameters of requests for maintenance.
var (
	component = parameter{"component", aString, required, "cluster_node"}
	address   = parameter{"address", aString, required, "the node"}
	perTarget = parameter{"supports_per_target_response", aBoolean, "false", "the answer is by node"}
)

var clusterCommands = []command{
	{
		name: "get_cluster", about: "tells what the cluster has and what becomes of it, with alerts", needs: readAt("//sys/scheduler"), run: getCluster,
	},
	{
		name: "list_nodes", about: "lists nodes by name", needs: readAt(pathtree.NodesPath),
		parameters: []parameter{
			{"pool_tree", aString, "", "nodes of a tree"},
			{"tag", aString, "", "nodes with a tag"},
			{"state", aString, "", "online, offline, banned or refused"},
			{"filter", aString, "", "text in the name"},
			{"limit", anInteger, "10000", "how many at most"},
		},
		run: listNodes,
	},
	{
		name: "list_events", about: "lists what happened, newest first", needs: readAt("//sys/scheduler"),
		parameters: append([]parameter{operationID, operationAlias}, eventParameters...), run: listEvents,
	},
	{
		name: "list_audit", about: "lists who changed what, with what was before and after", needs: administer,
		parameters: append([]parameter{
			{"user", aString, "", "who"},
			{"command", aString, "", "with which command"},
			{"object", aString, "", "the object"},
			{"below", aString, "", "objects below a path"},
			{"request_id", aString, "", "one request"},
			fromTime, toTime,
		}, pageParameters...),
		run: listAudit,
	},
	{
		name: "add_maintenance", about: "keeps a node from something until the request is removed", needs: writeNode, changes: true,
		parameters: []parameter{
			component, address, perTarget,
			{"type", aString, required, "ban, decommission, disable_scheduler_jobs, disable_write_sessions, disable_tablet_cells or pending_restart"},
			{"comment", aString, required, "why"},
		},
		run: addMaintenance, replay: replayAddMaintenance,
	},
	{
		name: "remove_maintenance", about: "takes requests for maintenance back", needs: writeNode, changes: true,
		parameters: []parameter{
			component, address, perTarget,
			{"id", someStrings, "", "the request"},
			{"ids", someStrings, "", "the requests"},
			{"type", aString, "", "requests of a type"},
			{"user", aString, "", "requests of a user"},
			{"mine", aBoolean, "false", "own requests"},
			{"all", aBoolean, "false", "all requests"},
		},
		run: removeMaintenance, replay: replayRemoveMaintenance,
	},
	{
		name: "backup", about: "writes everything that is stored, in a form that an empty store can import", needs: superuser,
		output: rawBytes, heavy: true, run: backup,
	},
	{
		name: "list_scenarios", about: "lists examples for the simulator with their texts", needs: readAt("//sys/scheduler"), local: true, run: listScenarios,
	},
	{
		name: "simulate", about: "runs a scenario in the simulator", needs: readAt("//sys/scheduler"), local: true, heavy: true,
		parameters: []parameter{
			{"example", aString, "", "the name of an example"},
			{"scenario", aString, "", "the text of a scenario, instead of an example"},
			{"seed", anInteger, "that of the scenario", "the seed of chance"},
		},
		run: simulate,
	},
}

// Parameters of a membership.
var memberParameters = []parameter{
	{"group", aString, required, "the group"},
	{"member", aString, required, "the user or group that is in it"},
}

// The answers about tokens are not wrapped in either version, as in YTsaurus: a string, a list or a
// map.
var peopleCommands = []command{
	{name: "add_member", about: "puts a user or a group into a group", needs: writeGroup, changes: true, parameters: memberParameters, silentV3: true, run: addMember},
	{name: "remove_member", about: "takes a user or a group out of a group", needs: writeGroup, changes: true, parameters: memberParameters, silentV3: true, run: removeMember},
	{
		name: "issue_token", about: "makes a token and tells it, once", needs: ruleTokens, changes: true,
		parameters: []parameter{
			{"user", aString, "who asks", "whose token"},
			{"description", aString, "", "what it is for"},
			{"expiration_time", aTime, "never", "when it ends"},
			{"expiration_timeout", aDuration, "never", "how long it lives"},
		},
		run: issueToken, replay: replayToken, secret: true,
	},
	{
		name: "list_user_tokens", about: "lists hashes of tokens", needs: ruleTokens,
		parameters: []parameter{
			{"user", aString, "all that one rules", "whose tokens"},
			{"with_metadata", aBoolean, "false", "with descriptions and times"},
			{"include_revoked", aBoolean, "false", "revoked ones too"},
		},
		run: listTokens,
	},
	{
		name: "revoke_token", about: "makes a token useless", needs: revokeTokens, changes: true,
		parameters: []parameter{
			{"token_sha256", aString, required, "the hash of the token"},
			{"user", aString, "", "whose token it must be"},
		},
		silentV3: true, run: revokeToken,
	},
	{name: "get_current_user", about: "says who asks", needs: public, local: true, run: getCurrentUser},
}

var generalCommands = []command{
	{
		name: "execute_batch", about: "runs commands one after the other, each with its own permission and its own success", needs: signedIn, changes: true,
		parameters: []parameter{{"requests", anything, required, "a list of maps, each with command, parameters and input"}},
		result:     "results", run: executeBatch,
	},
	{name: "get_version", about: "tells the version of the server", needs: public, local: true, result: "version", run: getVersion},
	{name: "get_supported_features", about: "tells what clients ask about before they use it", needs: public, local: true, result: "features", run: getSupportedFeatures},
	{name: "generate_timestamp", about: "makes a number that grows with time", needs: signedIn, local: true, result: "timestamp", run: generateTimestamp},
	{
		name: "parse_ypath", about: "takes a path with attributes apart", needs: signedIn, local: true,
		parameters: []parameter{{"path", anything, required, "the path"}}, result: "path", run: parsePath,
	},
	{name: "discover_proxies", about: "lists where requests can be sent", needs: signedIn, local: true, run: discoverProxies},
	{
		name: "build_snapshot", about: "does nothing: everything is stored at once", needs: signedIn, changes: true,
		run: func(*call) (yson.Node, error) { return yson.Map(), nil },
	},
}
