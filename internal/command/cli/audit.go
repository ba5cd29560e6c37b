package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

func newAuditCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var filter client.AuditFilter
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, oldest first (for administrators)",
		Long: `Show the most recent changes of pools, nodes, operations, tokens and paths, oldest first: who made them, with
which command, and the values before and after.`,
		Example: `  weir audit
  weir audit --user root --since 1h
  weir audit --below //sys/pool_trees --limit 20 -o json`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			if since > 0 {
				filter.From = time.Now().Add(-since)
			}
			list, err := s.Audit(s.ctx, filter)
			if err != nil {
				return err
			}
			return s.print(list.Raw, func(w io.Writer) error { return s.writeAudit(w, list) })
		}),
	}
	flags := cmd.Flags()
	flags.StringVarP(&filter.User, "user", "u", "", "only changes by this user")
	flags.StringVar(&filter.Command, "command", "", "only changes by this command, such as set or apply_pools")
	flags.StringVar(&filter.Object, "object", "", "only changes of this object")
	flags.StringVar(&filter.Below, "below", "", "only changes of objects below this path")
	flags.DurationVar(&since, "since", 0, "only changes of the last 30m, or another duration")
	flags.Int64Var(&filter.Limit, "limit", 100, "list at most this many")
	return r.addTo(cmd)
}

func (s *session) writeAudit(w io.Writer, list *client.AuditList) error {
	t := newTable(w)
	t.row("TIME", "USER", "COMMAND", "OBJECT", "BEFORE", "AFTER")
	t.fit(widthOf(w), 4, 5, 3)
	for i := range list.Records {
		record := &list.Records[len(list.Records)-1-i]
		t.row(record.Time.Local().Format("2006-01-02 15:04:05"), record.User, record.Command, record.Object, cell(record.Before), cell(record.After))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if list.More {
		fmt.Fprintln(s.errs, "There are older ones: raise --limit to see them.")
	}
	return nil
}
