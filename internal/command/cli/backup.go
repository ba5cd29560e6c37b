package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/control/store"
)

func newBackupCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save the scheduler's whole state to a file",
		Long: `Save the scheduler's whole state to a file: trees, operations, jobs, users, tokens (as
hashes), charts. The scheduler keeps running; the file is a consistent snapshot. - means standard
output. Only administrators may do this. weir restore loads the file into an empty store.

The file does not have the contents of files above 64 KiB. They are in the scheduler's blob storage: save
the directory blobs of its data directory, or the bucket that files/storage names, after the backup.`,
		Example: `  weir backup weir.backup
  weir backup - | wc -c`,
		Args: oneFile,
		RunE: r.do(func(s *session, args []string) error {
			body, err := s.Stream(s.ctx, client.Request{Command: "backup"})
			if err != nil {
				return err
			}
			defer body.Close()
			if args[0] == "-" {
				_, err := io.Copy(s.out, body)
				return err
			}
			size, err := saveStream(args[0], body)
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			fmt.Fprintf(s.errs, "%s: %d bytes\n", args[0], size)
			return nil
		}),
	}
	return r.addTo(cmd)
}

// saveStream creates a file that only its owner can read, completely or not at all.
func saveStream(name string, content io.Reader) (int64, error) {
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(temporary, content)
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(temporary.Name()))
	}
	return size, nil
}

func newRestoreCommand() *cobra.Command {
	var url, directory string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty store, before a scheduler uses it",
		Long: `Restore what weir backup saved into an empty store: everything, or nothing if the file is truncated or
altered. The command opens the store itself, so no scheduler may use it. A backup of SQLite can be
restored into PostgreSQL and the other way round.`,
		Example: `  weir backup weir.backup
  weir restore weir.backup --data-dir ./restored

  weir restore weir.backup --store postgres://weir@db.example/weir &`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (url == "") == (directory == "") {
				return usageErrorf("give either --data-dir or --store")
			}
			input := cmd.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				input = file
			}
			if directory != "" {
				if err := os.MkdirAll(directory, 0o700); err != nil {
					return err
				}
				url = "sqlite:" + filepath.Join(directory, "weir.db")
			}
			db, err := store.Open(cmd.Context(), url)
			if err != nil {
				return err
			}
			err = errors.Join(db.Import(cmd.Context(), input), db.Close())
			switch {
			case errors.Is(err, store.ErrNotEmpty):
				return fmt.Errorf("%w\n  A backup can be restored only into an unused store: name another one", err)
			case errors.Is(err, store.ErrHeld):
				return fmt.Errorf("%w\n  A scheduler is using this store: stop it first", err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&url, "store", "", "store, sqlite:PATH or postgres://USER@HOST/DATABASE; PGPASSWORD has the password")
	cmd.Flags().StringVar(&directory, "data-dir", "", "data directory of a scheduler that uses SQLite")
	return cmd
}
