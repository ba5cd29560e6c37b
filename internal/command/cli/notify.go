package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newNotifyCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "List and test notification targets (for administrators)",
		Long: `List and test notification targets. The scheduler's configuration names them: webhooks and commands that are told
when operations start and end, when pools starve and when another scheduler leads.`,
		Example: `  weir notify list`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNotifyListCommand(r), newNotifyTestCommand(r))
	return r.addTo(cmd)
}

func newNotifyListCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List targets and how deliveries to them go",
		Example: `  weir notify list -o json`,
		Args:    noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			list, err := s.NotificationTargets(s.ctx)
			if err != nil {
				return err
			}
			return s.print(list.Raw, func(w io.Writer) error {
				if len(list.Targets) == 0 {
					_, err := fmt.Fprintln(w, "There are no notification targets. The setting scheduler/notifications names them.")
					return err
				}
				t := newTable(w)
				t.row("NAME", "TYPE", "WAITING", "DELIVERED", "FAILED", "DROPPED", "LAST ATTEMPT", "ERROR")
				for i := range list.Targets {
					target, last := &list.Targets[i], "never"
					if !target.Last.IsZero() {
						last = target.Last.Local().Format("2006-01-02 15:04:05")
					}
					t.row(target.Name, target.Type, fmt.Sprint(target.Waiting), fmt.Sprint(target.Delivered), fmt.Sprint(target.Failed),
						fmt.Sprint(target.Dropped), last, target.Error)
				}
				return t.flush()
			})
		}),
	}
}

func newNotifyTestCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:     "test TARGET",
		Short:   "Send a message to a target and report whether it was accepted",
		Example: `  weir notify test team-chat || echo the chat is away`,
		Args:    oneName("target"),
		RunE: r.do(func(s *session, args []string) error {
			if err := s.TestNotification(s.ctx, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.out, "%s accepted the message.\n", args[0])
			return err
		}),
	}
}
