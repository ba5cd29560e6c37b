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
		Short: "Print whom the scheduler takes you for",
		Long: `Print the user as whom commands act: that of the token, the one of --as, root on the scheduler's machine
as long as there is no token, or guest.`,
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
