package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// makers make objects that are found by a name and not by a path, by type.
var makers = map[string]func(c *call, attributes yson.Node, ignoreExisting bool) (guid.ID, error){
	"scheduler_pool":      makePool,
	"scheduler_pool_tree": makeTree,
	"user":                makeUser,
	"group":               makeGroup,
	"account":             makeAccount,
}

// nearestType guesses which type of objects that have names was meant.
func nearestType(kind string) string {
	names := slices.Sorted(maps.Keys(makers))
	for _, name := range names {
		if strings.TrimPrefix(name, "scheduler_") == kind {
			return fmt.Sprintf("; did you mean %q?", name)
		}
	}
	return didYouMean(kind, names)
}
