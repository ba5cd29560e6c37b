package api

import "github.com/weirhq/weir/internal/value/yson"

// Parameters that several commands on paths share.
var (
	thePath       = parameter{"path", aPath, required, "the node or attribute"}
	recursively   = parameter{"recursive", aBoolean, "false", "creates missing parents; for remove, also removes children"}
	byForce       = parameter{"force", aBoolean, "false", "replaces an existing node; for remove, accepts a missing one"}
	ignoringOld   = parameter{"ignore_existing", aBoolean, "false", "leaves an existing node unchanged and succeeds"}
	newAttributes = parameter{"attributes", aMap, "", "attributes of the new node"}
)

var pathCommands = []command{
	{
		name: "get", about: "returns a node with everything below it, or an attribute", needs: readPath,
		parameters: []parameter{
			thePath,
			{"attributes", someAttributes, "", "the attributes to return with nodes"},
			{"max_size", anInteger, "0", "the greatest number of children to return; 0 means all"},
			{"fields", someStrings, "", "the fields of pools and operations to return from an orchid; all by default"},
		},
		result: "value", run: get,
	},
	{
		name: "list", about: "lists the keys of a node", needs: readPath,
		parameters: []parameter{
			thePath,
			{"attributes", someAttributes, "", "the attributes to return with keys"},
			{"max_size", anInteger, "0", "the greatest number of keys to return; 0 means all"},
			{"fields", someStrings, "", "the fields of pools and operations to return from an orchid; all by default"},
		},
		result: "value", run: list,
	},
	{
		name: "exists", about: "reports whether a path exists", needs: readPath,
		parameters: []parameter{thePath}, result: "value", run: exists,
	},
	{
		name: "set", about: "sets a document or an attribute", needs: changeNodes, changes: true,
		parameters: []parameter{thePath, recursively, byForce, ignoringOld},
		input:      structured, silentV3: true, run: set,
	},
	{
		name: "multiset_attributes", about: "sets several attributes of a node at once: all or none", needs: changeNodes, changes: true,
		parameters: []parameter{thePath, {"remove", someStrings, "", "attributes to remove in the same transaction"}},
		input:      structured, silentV3: true, run: multisetAttributes,
	},
	{
		name: "create", about: "creates a node, a pool, a pool tree, a user or a group", needs: changeNodes, changes: true,
		parameters: []parameter{
			{"type", aString, required, "the type of the object"},
			{"path", aPath, "", "the path of the new object; pools, trees, users and groups can instead be named by the attribute name"},
			newAttributes, recursively, byForce, ignoringOld,
			{"ignore_type_mismatch", aBoolean, "false", "with ignore_existing, also accepts an existing node of another type"},
			{"value", anything, "", "the value of a new document"},
		},
		result: "node_id", run: create, replay: createdBefore,
	},
	{
		name: "remove", about: "removes a node or an attribute", needs: changeNodes, changes: true,
		parameters: []parameter{thePath, recursively, byForce, ignoringOld}, silentV3: true, run: remove,
	},
	{
		name: "copy", about: "copies a node", needs: changeNodes, changes: true,
		parameters: []parameter{
			{"source_path", aPath, required, "the node"}, {"destination_path", aPath, required, "the path of the copy"}, recursively, byForce, ignoringOld,
		},
		result: "node_id", run: func(c *call) (yson.Node, error) { return transplant(c, true) }, replay: destinationOf,
	},
	{
		name: "move", about: "moves or renames a node", needs: changeNodes, changes: true,
		parameters: []parameter{
			{"source_path", aPath, required, "the node"}, {"destination_path", aPath, required, "the new path"}, recursively, byForce, ignoringOld,
		},
		result: "node_id", run: func(c *call) (yson.Node, error) { return transplant(c, false) }, replay: destinationOf,
	},
	{
		name: "link", about: "creates a link to a node", needs: changeNodes, changes: true,
		parameters: []parameter{
			{"target_path", aPath, required, "the target of the link"}, {"link_path", aPath, required, "the path of the link"},
			newAttributes, recursively, byForce, ignoringOld,
		},
		result: "node_id", run: link, replay: linkedBefore,
	},
	{
		name: "write_file", about: "sets the content of a file, and creates the file if it does not exist", needs: changeNodes, changes: true,
		parameters: []parameter{thePath, {"sha256", aString, "", "refuses a content with another SHA-256"}},
		input:      rawBytes, streams: true, heavy: true, run: writeFile,
	},
	{
		name: "read_file", about: "returns a file or a part of it", needs: readPath,
		parameters: []parameter{
			thePath,
			{"offset", anInteger, "0", "the first byte"},
			{"length", anInteger, "", "the number of bytes; all by default"},
		},
		output: rawBytes, heavy: true, run: readFile,
	},
	{
		name: "check_permission", about: "reports whether a user has a permission on a node, and which entry decides", needs: askAbout,
		parameters: []parameter{
			{"permission", aString, required, "such as read, write, use, manage or administer"},
			thePath,
			{"user", aString, "the caller", "the user"},
		},
		run: checkPermission,
	},
}

// theTransaction is the transaction that a command is about.
var theTransaction = parameter{"transaction_id", anID, required, "the transaction"}

var transactionCommands = []command{
	{
		name: "start_transaction", v3: "start_tx", about: "starts a transaction, which holds locks for as long as it is pinged", needs: signedIn, changes: true,
		parameters: []parameter{
			{"timeout", aDuration, "15s", "how long it lasts after the last ping; at most an hour"},
			{"transaction_id", anID, "", "the parent transaction"},
			{"attributes", aMap, "", "its attributes"},
		},
		result: "transaction_id", run: startTransaction,
	},
	{
		name: "ping_transaction", v3: "ping_tx", about: "restarts the timeout of a transaction", needs: ownLease, changes: true,
		parameters: []parameter{theTransaction, {"ping_ancestor_transactions", aBoolean, "true", "also pings its ancestors"}},
		silentV3:   true, run: pingTransaction,
	},
	{
		name: "commit_transaction", v3: "commit_tx", about: "ends a transaction; its changes took effect when they were made", needs: ownLease, changes: true,
		parameters: []parameter{theTransaction}, silentV3: true, run: endTransaction,
	},
	{
		name: "abort_transaction", v3: "abort_tx", about: "ends a transaction; its changes are not undone", needs: ownLease, changes: true,
		parameters: []parameter{theTransaction}, silentV3: true, run: endTransaction,
	},
	{
		name: "lock", about: "acquires a lock; it conflicts with other locks, but does not prevent writes", needs: lockNode, changes: true,
		parameters: []parameter{
			theTransaction, thePath,
			{"mode", aString, "exclusive", "exclusive, shared or snapshot"},
			{"child_key", aString, "", "locks one child"},
			{"attribute_key", aString, "", "locks one attribute"},
		},
		run: lock,
	},
	{
		name: "unlock", about: "releases the locks of a transaction on a node", needs: lockNode, changes: true,
		parameters: []parameter{theTransaction, thePath}, silentV3: true, run: unlock,
	},
}
