package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newWhoAmICommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	return r.addTo(&cobra.Command{
		Use:   "whoami",
		Short: "Print the user that the scheduler sees in your requests",
		Long: `Print the user as whom commands act: the user of the token, the user of --as, root if no token is given and
root or the scheduler's own user runs the command on the scheduler's machine, or guest.`,
		Example: `  weir whoami`,
		Args:    noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			user, err := s.CurrentUser(s.ctx)
			if err != nil {
				return err
			}
			return s.opts.print(s.out, map[string]string{"user": user}, func(w io.Writer) error { _, err := fmt.Fprintln(w, user); return err })
		}),
	})
}
