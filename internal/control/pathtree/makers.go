package pathtree

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// Makers create objects that are found by name rather than by path, by type.
var Makers = map[string]func(c *Request, attributes yson.Node, ignoreExisting bool) (guid.ID, error){
	"scheduler_pool":      makePool,
	"scheduler_pool_tree": makeTree,
	"user":                makeUser,
	"group":               makeGroup,
	"account":             makeAccount,
}

// NearestType guesses which type of named objects was meant.
func NearestType(kind string) string {
	names := slices.Sorted(maps.Keys(Makers))
	for _, name := range names {
		if strings.TrimPrefix(name, "scheduler_") == kind {
			return fmt.Sprintf("; did you mean %q?", name)
		}
	}
	return didYouMean(kind, names)
}
