package api

import "github.com/weirhq/weir/internal/value/yson"

// Parameters that several commands on paths share.
var (
	thePath       = parameter{"path", aPath, required, "the node, or the attribute of one"}
	recursively   = parameter{"recursive", aBoolean, "false", "makes what is missing above, and removes what is below"}
	byForce       = parameter{"force", aBoolean, "false", "replaces what is there, and does not mind what is not"}
	ignoringOld   = parameter{"ignore_existing", aBoolean, "false", "takes what is there for what was asked for"}
	newAttributes = parameter{"attributes", aMap, "", "attributes of the new node"}
)

var pathCommands = []command{
	{
		name: "get", about: "reads a node with all that is below it, or an attribute", needs: readPath,
		parameters: []parameter{
			thePath,
			{"attributes", someAttributes, "", "attributes with which nodes are returned"},
			{"max_size", anInteger, "0", "how many children of the node at most; 0 means all"},
			{"fields", someStrings, "", "which fields pools and operations of an orchid have; all unless given"},
		},
		result: "value", run: get,
	},
	{
		name: "list", about: "lists the keys of a node", needs: readPath,
		parameters: []parameter{
			thePath,
			{"attributes", someAttributes, "", "attributes with which keys are returned"},
			{"max_size", anInteger, "0", "how many keys at most; 0 means all"},
			{"fields", someStrings, "", "which fields pools and operations of an orchid have; all unless given"},
		},
		result: "value", run: list,
	},
	{
		name: "exists", about: "says whether a path leads anywhere", needs: readPath,
		parameters: []parameter{thePath}, result: "value", run: exists,
	},
	{
		name: "set", about: "sets a document or an attribute", needs: changeNodes, changes: true,
		parameters: []parameter{thePath, recursively, byForce, ignoringOld},
		input:      structured, silentV3: true, run: set,
	},
	{
		name: "multiset_attributes", about: "sets several attributes of a node, all or none", needs: changeNodes, changes: true,
		parameters: []parameter{thePath, {"remove", someStrings, "", "attributes to remove in the same transaction"}},
		input:      structured, silentV3: true, run: multisetAttributes,
	},
	{
		name: "create", about: "makes a node, a pool, a pool tree, a user or a group", needs: changeNodes, changes: true,
		parameters: []parameter{
			{"type", aString, required, "the type of the object"},
			{"path", aPath, "", "where; pools, trees, users and groups are also made by the attribute name"},
			newAttributes, recursively, byForce, ignoringOld,
			{"ignore_type_mismatch", aBoolean, "false", "with ignore_existing, takes a node of another type too"},
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
			{"source_path", aPath, required, "the node"}, {"destination_path", aPath, required, "where the copy goes"}, recursively, byForce, ignoringOld,
		},
		result: "node_id", run: func(c *call) (yson.Node, error) { return transplant(c, true) }, replay: destinationOf,
	},
	{
		name: "move", about: "gives a node another parent or name", needs: changeNodes, changes: true,
		parameters: []parameter{
			{"source_path", aPath, required, "the node"}, {"destination_path", aPath, required, "where it goes"}, recursively, byForce, ignoringOld,
		},
		result: "node_id", run: func(c *call) (yson.Node, error) { return transplant(c, false) }, replay: destinationOf,
	},
	{
		name: "link", about: "makes a link to a node", needs: changeNodes, changes: true,
		parameters: []parameter{
			{"target_path", aPath, required, "where the link leads"}, {"link_path", aPath, required, "where the link is"},
			newAttributes, recursively, byForce, ignoringOld,
		},
		result: "node_id", run: link, replay: linkedBefore,
	},
	{
		name: "write_file", about: "sets the content of a file, which is made if it is not there", needs: changeNodes, changes: true,
		parameters: []parameter{thePath}, input: rawBytes, heavy: true, run: writeFile,
	},
	{
		name: "read_file", about: "reads a file or a part of it", needs: readPath,
		parameters: []parameter{
			thePath,
			{"offset", anInteger, "0", "the first byte"},
			{"length", anInteger, "", "how many bytes; all unless given"},
		},
		output: rawBytes, heavy: true, run: readFile,
	},
	{
		name: "check_permission", about: "says whether a user may do something with a node, and which entry decides", needs: askAbout,
		parameters: []parameter{
			{"permission", aString, required, "such as read, write, use, manage or administer"},
			thePath,
			{"user", aString, "who asks", "the user"},
		},
		run: checkPermission,
	},
}

// theTransaction is the transaction that a command is about.
var theTransaction = parameter{"transaction_id", anID, required, "the transaction"}

var transactionCommands = []command{
	{
		name: "start_transaction", v3: "start_tx", about: "starts a transaction: a name that holds locks as long as it is pinged", needs: signedIn, changes: true,
		parameters: []parameter{
			{"timeout", aDuration, "15s", "how long it lives after the last ping; an hour at most"},
			{"transaction_id", anID, "", "the transaction above it"},
			{"attributes", aMap, "", "its attributes"},
		},
		result: "transaction_id", run: startTransaction,
	},
	{
		name: "ping_transaction", v3: "ping_tx", about: "gives a transaction its whole time again", needs: ownLease, changes: true,
		parameters: []parameter{theTransaction, {"ping_ancestor_transactions", aBoolean, "true", "those above it too"}},
		silentV3:   true, run: pingTransaction,
	},
	{
		name: "commit_transaction", v3: "commit_tx", about: "ends a transaction; what it changed has been in force all along", needs: ownLease, changes: true,
		parameters: []parameter{theTransaction}, silentV3: true, run: endTransaction,
	},
	{
		name: "abort_transaction", v3: "abort_tx", about: "ends a transaction; what it changed stays", needs: ownLease, changes: true,
		parameters: []parameter{theTransaction}, silentV3: true, run: endTransaction,
	},
	{
		name: "lock", about: "takes a lock, which keeps others from taking one and nobody from writing", needs: lockNode, changes: true,
		parameters: []parameter{
			theTransaction, thePath,
			{"mode", aString, "exclusive", "exclusive, shared or snapshot"},
			{"child_key", aString, "", "locks one child"},
			{"attribute_key", aString, "", "locks one attribute"},
		},
		run: lock,
	},
	{
		name: "unlock", about: "gives back what a transaction has locked of a node", needs: lockNode, changes: true,
		parameters: []parameter{theTransaction, thePath}, silentV3: true, run: unlock,
	},
}
