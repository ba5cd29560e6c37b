package ahead

import (
	"fmt"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// NamesOf resolves the names in a document of changes against a core, such as that of a past moment. names
// are what users call operations.
func NamesOf(c *core.Core, user string, names map[core.OperationID]string) Names {
	configuration := c.Configuration()
	tree := func(name string) (*pooltree.Tree, bool) {
		for _, t := range configuration.Trees {
			if t.Name == name {
				return t.Value, true
			}
		}
		return nil, false
	}
	return Names{
		User: user, DefaultTree: configuration.Default, Tree: tree,
		Replace: func(name string, v document.Value) (*pooltree.Tree, error) {
			if _, there := tree(name); !there {
				return nil, fmt.Errorf("there is no pool tree %q", name)
			}
			config, _, err := pooltree.FromValue(v, pooltree.Options{KeepUnknown: true})
			return config, err
		},
		Node: func(name string) (resource.Amounts, []string, bool) {
			for _, id := range c.OpenNodes() {
				if c.NodeName(id) == name {
					return c.NodeResources(id), c.NodeTags(id), true
				}
			}
			return resource.Amounts{}, nil, false
		},
		Operation: func(name string) (string, error) {
			for id, known := range names {
				if known == name && c.ControllerOf(id) != nil {
					return name, nil
				}
			}
			return "", fmt.Errorf("no operation %s ran or waited then", name)
		},
	}
}
