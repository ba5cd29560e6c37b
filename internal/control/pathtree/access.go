package pathtree

import (
	"encoding/json"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/value/notation"
)

// accessDocument is the stored access data of an object.
type accessDocument struct {
	ACL json.RawMessage `json:"acl,omitempty"`
	// Isolated objects do not inherit.
	Isolated bool   `json:"isolated,omitempty"`
	Owner    string `json:"owner,omitempty"`
	// Custom are users' attributes, each as binary YSON, of nodes that have no other place for
	// them.
	Custom map[string][]byte `json:"custom,omitempty"`
}

// AccessOf adds the access data stored under a key to an object. The key is a path, or "#" and the
// id of a pool or a tree, which keep their data when they move.
func (c *Request) AccessOf(o auth.Object, key string) auth.Object {
	row, there := c.Server.Registry().ACL(key)
	if there {
		d, list, err := readAccess(row.Document)
		if err != nil {
			// An unreadable list allows nothing.
			c.Tree.Options.Log.Error("cannot read an access control list", "object", key, "error", err)
			o.Isolated = true
			return o
		}
		o.ACL, o.Isolated = list, d.Isolated
		if d.Owner != "" {
			o.Owner = d.Owner
		}
	}
	if len(o.ACL) == 0 && !there {
		o.ACL = builtinACL(key)
	}
	if o.Owner == "" {
		o.Owner = auth.Root
	}
	return o
}

// builtinACL is the initial access list of a path.
func builtinACL(path string) auth.ACL {
	switch path {
	case "/":
		return auth.RootACL()
	case "//tmp", "//home":
		return auth.ACL{{Action: auth.Allow, Subjects: []string{auth.Users},
			Permissions: auth.SetOf(auth.Read, auth.Write, auth.Remove, auth.Create, auth.ModifyChildren)}}
	}
	return nil
}

func readAccess(data []byte) (d accessDocument, list auth.ACL, err error) {
	if err = json.Unmarshal(data, &d); err != nil || len(d.ACL) == 0 {
		return d, nil, err
	}
	v, err := notation.ParseJSON("", d.ACL)
	if err != nil {
		return d, nil, err
	}
	list, err = auth.ParseACL(v)
	return d, list, err
}
