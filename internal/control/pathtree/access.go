package pathtree

import (
	"encoding/json"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/value/notation"
)

// accessDocument is what is stored of who may do what with an object.
type accessDocument struct {
	ACL json.RawMessage `json:"acl,omitempty"`
	// Isolated objects inherit nothing.
	Isolated bool   `json:"isolated,omitempty"`
	Owner    string `json:"owner,omitempty"`
	// Custom are attributes of users, each as binary YSON, of nodes that have no
	// other place for them.
	Custom map[string][]byte `json:"custom,omitempty"`
}

// AccessOf adds to an object what is stored of it under a key: a path, or "#" and
// the id of a pool or a tree, which keep theirs when they move.
func (c *Request) AccessOf(o auth.Object, key string) auth.Object {
	row, there := c.Server.Registry().ACL(key)
	if there {
		d, list, err := readAccess(row.Document)
		if err != nil {
			// A list that cannot be read allows nothing.
			c.Tree.Options.Log.Error("an access control list cannot be read", "object", key, "error", err)
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

// builtinACL is the list of a path before anybody has set one.
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
