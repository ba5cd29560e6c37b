package auth

import (
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// Permission is one thing that can be allowed.
type Permission uint8

const (
	Read           Permission = iota // see an object; of an operation, also what its jobs read and wrote
	Write                            // change an object; of a pool, divide what it has
	Use                              // run operations in a pool
	Manage                           // abort, suspend, resume, change an operation; of a pool, its operations' weights
	Remove                           // remove an object
	Create                           // create objects of a kind
	ModifyChildren                   // add and remove children, without changing the object itself
	Administer                       // change the access control list
	Mount                            // of tables; has no effect here

	permissionCount
)

var permissionNames = [permissionCount]string{
	"read", "write", "use", "manage", "remove", "create", "modify_children", "administer", "mount",
}

func (p Permission) String() string { return permissionNames[p] }

// permissionWords are the names in documents. The user documents say modify where
// YTsaurus says write.
var permissionWords = func() document.Type[Permission] {
	words := make([]document.Word[Permission], permissionCount)
	for p := range permissionCount {
		words[p] = document.Word[Permission]{Name: p.String(), Value: p}
	}
	words[Write].Aliases = []string{"modify"}
	return document.Enum(words...)
}()

// ParsePermission parses the name of a permission.
func ParsePermission(name string) (Permission, error) {
	r := document.NewReader("")
	p, _ := document.ReadAs(permissionWords, r, document.Text(name))
	return p, r.Problems().Err()
}

// Permissions is a set of permissions.
type Permissions uint16

// AllPermissions is the set of all permissions.
const AllPermissions = Permissions(1<<permissionCount - 1)

// SetOf returns the set of the given permissions.
func SetOf(list ...Permission) (set Permissions) {
	for _, p := range list {
		set |= 1 << p
	}
	return set
}

// Has reports whether p is in the set.
func (s Permissions) Has(p Permission) bool { return s&(1<<p) != 0 }

// List returns the permissions of the set in ascending order.
func (s Permissions) List() (list []Permission) {
	for p := range permissionCount {
		if s.Has(p) {
			list = append(list, p)
		}
	}
	return list
}

func (s Permissions) String() string {
	var names []string
	for _, p := range s.List() {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}
