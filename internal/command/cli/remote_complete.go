package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/value/yson"
)

// completionPatience is how long a shell waits for names from a server.
const completionPatience = 2 * time.Second

// complete makes a completion of names that a server knows. A server that does
// not answer has no names.
func (r *remote) complete(names func(s *session, args []string, prefix string) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		s, _, err := r.open(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(contextOf(cmd), completionPatience)
		defer cancel()
		s.ctx = ctx
		var list []cobra.Completion
		for _, name := range names(s, args, prefix) {
			if strings.HasPrefix(name, prefix) {
				list = append(list, name)
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// contextOf is the context of a command, which has none while a shell completes
// its flags.
func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// completePath completes paths one step at a time, for the first arguments.
func (r *remote) completePath(most int) cobra.CompletionFunc {
	names := r.complete(func(s *session, args []string, prefix string) []cobra.Completion {
		if len(args) >= most {
			return nil
		}
		at := strings.LastIndexAny(prefix, "/@")
		if at < 1 {
			return []cobra.Completion{"//sys/", "//home/"}
		}
		above := prefix[:at+1]
		list := above
		if prefix[at] == '/' {
			list = strings.TrimSuffix(above, "/")
			if list == "/" {
				list = "//"
			}
		}
		children, err := s.List(s.ctx, strings.TrimSuffix(list, "//"))
		if list == "//" {
			children, err = s.List(s.ctx, "/")
		}
		if err != nil {
			return nil
		}
		var found []cobra.Completion
		for _, child := range children {
			if name, ok := child.Text(); ok {
				found = append(found, above+name)
			}
		}
		return found
	})
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		list, directive := names(cmd, args, prefix)
		return list, directive | cobra.ShellCompDirectiveNoSpace
	}
}

var createdTypes = []cobra.Completion{
	"scheduler_pool", "scheduler_pool_tree", "user", "group", "map_node", "document", "string_node", "int64_node", "double_node",
	"boolean_node", "list_node",
}

func (r *remote) completeCreate(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return createdTypes, cobra.ShellCompDirectiveNoFileComp
	}
	return r.completePath(1)(cmd, args[1:], prefix)
}

// orchid is where the live state of trees is.
const orchid = "//sys/scheduler/orchid/scheduler/pool_trees"

// completePools completes names of pools of the default tree.
func (r *remote) completePools() cobra.CompletionFunc {
	return r.complete(func(s *session, _ []string, _ string) []cobra.Completion {
		tree, err := s.defaultTree()
		if err != nil {
			return nil
		}
		return s.names(orchid + "/" + tree + "/pools")
	})
}

func (r *remote) completeTrees() cobra.CompletionFunc {
	return r.complete(func(s *session, args []string, _ string) []cobra.Completion {
		if len(args) > 0 {
			return nil
		}
		return s.names("//sys/pool_trees")
	})
}

func (r *remote) completeNodes() cobra.CompletionFunc {
	return r.complete(func(s *session, _ []string, _ string) []cobra.Completion { return s.names("//sys/cluster_nodes") })
}

// completeOperations completes ids and aliases of operations, the newest first.
func (r *remote) completeOperations() cobra.CompletionFunc {
	return r.complete(func(s *session, args []string, _ string) []cobra.Completion {
		if len(args) > 0 {
			return nil
		}
		answer, err := s.ask("list_operations", countIf("limit", 50), wordsIf("attributes", []string{"id", "state", "brief_spec", "authenticated_user"}),
			yson.Pair("include_counters", yson.Boolean(false)))
		if err != nil {
			return nil
		}
		var found []cobra.Completion
		for _, item := range field(answer, "operations").Items() {
			about := cell(field(item, "state")) + " " + cell(field(item, "authenticated_user")) + " " + cell(field(item, "brief_spec", "title"))
			found = append(found, cobra.CompletionWithDesc(cell(field(item, "id")), about))
			if alias, ok := field(item, "brief_spec", "alias").Text(); ok {
				found = append(found, cobra.CompletionWithDesc(alias, about))
			}
		}
		return found
	})
}

// names lists what is at a path.
func (s *session) names(path string) (list []cobra.Completion) {
	children, err := s.List(s.ctx, path)
	if err != nil {
		return nil
	}
	for _, child := range children {
		if name, ok := child.Text(); ok {
			list = append(list, name)
		}
	}
	return list
}

// defaultTree is the name of the tree that commands mean if none is named.
func (s *session) defaultTree() (string, error) {
	answer, err := s.Get(s.ctx, "//sys/pool_trees/@default_tree")
	if err != nil {
		return "", err
	}
	name, _ := answer.Text()
	return name, nil
}

// field walks down maps; what is not there is the entity.
func field(node yson.Node, keys ...string) yson.Node {
	for _, key := range keys {
		node, _ = node.Get(key)
	}
	return node
}

// number is a number at a place, zero if there is none.
func number(node yson.Node, keys ...string) float64 {
	value, _ := field(node, keys...).Double()
	return value
}

// whole is a whole number at a place, zero if there is none.
func whole(node yson.Node, keys ...string) int64 {
	value, _ := field(node, keys...).Int64()
	return value
}
