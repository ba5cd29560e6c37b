package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

// completionPatience is how long a shell waits for names from a server.
const completionPatience = 2 * time.Second

// complete completes names that a server knows. If the server does not answer, there are no names.
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
		}
		return s.names(above, list)
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

// completePools completes names of pools of the default tree.
func (r *remote) completePools() cobra.CompletionFunc {
	return r.complete(func(s *session, _ []string, _ string) []cobra.Completion {
		names, _ := s.PoolNames(s.ctx, "")
		return names
	})
}

func (r *remote) completeTrees() cobra.CompletionFunc {
	return r.complete(func(s *session, args []string, _ string) []cobra.Completion {
		if len(args) > 0 {
			return nil
		}
		names, _ := s.PoolTrees(s.ctx)
		return names
	})
}

func (r *remote) completeNodes() cobra.CompletionFunc {
	return r.complete(func(s *session, _ []string, _ string) []cobra.Completion { return s.names("", "//sys/cluster_nodes") })
}

// completeOperations completes ids and aliases of operations, the newest first.
func (r *remote) completeOperations() cobra.CompletionFunc {
	return r.complete(func(s *session, args []string, _ string) []cobra.Completion {
		if len(args) > 0 {
			return nil
		}
		page, err := s.ListOperations(s.ctx, client.OperationFilter{Limit: 50, Attributes: []string{"id", "alias", "state", "brief_spec", "authenticated_user"}})
		if err != nil {
			return nil
		}
		var found []cobra.Completion
		for _, o := range page.Operations {
			about := string(o.State) + " " + o.User + " " + orNothing(o.Title)
			found = append(found, cobra.CompletionWithDesc(o.ID, about))
			if o.Alias != "" {
				found = append(found, cobra.CompletionWithDesc(o.Alias, about))
			}
		}
		return found
	})
}

// names lists the children of a path, each with a prefix.
func (s *session) names(prefix, path string) (list []cobra.Completion) {
	children, err := s.List(s.ctx, path, client.ReadOptions{})
	if err != nil {
		return nil
	}
	for _, child := range children {
		if name, ok := child.Text(); ok {
			list = append(list, prefix+name)
		}
	}
	return list
}
