package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

func newJournalCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "List and save the scheduler's record of everything that happened to it",
		Long: `List and save the scheduler's journal: every input of its core, with the state at regular moments. weir replay repeats it
exactly and answers questions about any moment in it. weir up keeps a journal of a day; other schedulers keep one if journal/keep is set.`,
		Example: `  weir journal list
  weir journal export today.journal`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJournalListCommand(opts), newJournalExportCommand(opts))
	return cmd
}

func newJournalListCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the segments of the journal, oldest first (for superusers)",
		Long: `List the segments of the journal that the leader keeps, oldest first. A new segment starts every ten minutes, after 64 MiB, and
with every leader. Files of an earlier leader are on its machine.`,
		Example: `  weir journal list
  weir journal list -o json`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			j, err := s.Journal(s.ctx)
			if err != nil {
				return err
			}
			return s.print(j.Raw, func(w io.Writer) error { return writeJournal(w, j) })
		}),
	}
	return r.addTo(cmd)
}

func writeJournal(w io.Writer, j *client.Journal) error {
	t := newTable(w)
	t.row("START", "LAST WRITE", "SIZE", "TERM", "SEGMENT", "")
	t.alignRight(2, 3, 4)
	for _, s := range j.Segments {
		current := ""
		if s.Current {
			current = "is being written"
		}
		t.row(stamp(s.Start), stamp(s.LastWrite), resource.FormatAmount(resource.Memory, s.Size), fmt.Sprint(s.Epoch), fmt.Sprint(s.Number), current)
	}
	return t.flush()
}

func newJournalExportCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	var from, to, anonymous string
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Save a part of the journal to a file (for superusers)",
		Long: `Save the segments of the journal that have records between two times, for weir replay. - means standard output. Segments are whole,
so the file starts up to ten minutes earlier.

The file has the names of users, pools, nodes and operations, and the specifications of operations with their commands and
environments. With --anonymous MAP, names are replaced by numbered ones in the same order, formulas over tags are rewritten, and commands,
environments, annotations, titles and texts of errors are left out. Both journals are replayed side by side to prove that all decisions
stay the same. MAP is a new file with the names; it stays with you.`,
		Example: `  weir journal export today.journal
  weir journal export anonymous.journal --anonymous names.txt
  weir journal export hour.journal --from 2026-10-31T12:00:00Z --to 2026-10-31T13:00:00Z &`,
		Args: oneFile,
		RunE: r.do(func(s *session, args []string) error {
			when := period{from: from, to: to}
			start, end, err := when.read()
			if err != nil {
				return err
			}
			var parameters []yson.Entry
			if !start.IsZero() {
				parameters = append(parameters, yson.Pair("from_time", yson.String(stamp(start))))
			}
			if !end.IsZero() {
				parameters = append(parameters, yson.Pair("to_time", yson.String(stamp(end))))
			}
			body, err := s.Stream(s.ctx, client.Request{Command: "export_journal", Parameters: yson.Map(parameters...)})
			if err != nil {
				return err
			}
			defer body.Close()
			if anonymous != "" {
				return s.exportAnonymous(args[0], anonymous, body)
			}
			if args[0] == "-" {
				_, err := io.Copy(s.out, body)
				return err
			}
			size, err := saveStream(args[0], body)
			if err != nil {
				return fmt.Errorf("journal export: %w", err)
			}
			fmt.Fprintf(s.errs, "%s: %d bytes\n", args[0], size)
			return nil
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "start, such as 2026-10-31 or 2026-10-31T12:00:00Z; that of the journal if unset")
	cmd.Flags().StringVar(&to, "to", "", "end; now if unset")
	cmd.Flags().StringVar(&anonymous, "anonymous", "", "replace names, and write them into this file")
	return r.addTo(cmd)
}

// exportAnonymous saves a journal without names, and the names.
func (s *session) exportAnonymous(name, names string, body io.Reader) error {
	if name == "-" {
		return usageErrorf("--anonymous needs the name of a file, because the journal is checked before it is complete")
	}
	original := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".original")
	if _, err := saveStream(original, body); err != nil {
		return fmt.Errorf("journal export: %w", err)
	}
	defer os.Remove(original)
	types, err := journal.NewTypes()
	if err != nil {
		return err
	}
	var found *journal.Map
	reader, writer := io.Pipe()
	go func() {
		found, err = journal.Anonymise(types, func() (io.ReadCloser, error) { return os.Open(original) },
			func(part []byte) error { _, err := writer.Write(part); return err })
		writer.CloseWithError(err) // nil is the end
	}()
	size, err := saveStream(name, reader)
	if err != nil {
		return fmt.Errorf("journal export: %w", err)
	}
	var lines strings.Builder
	for _, e := range found.Entries() {
		fmt.Fprintf(&lines, "%s\t%s\t%s\n", e.Class, e.Anonymous, e.Original)
	}
	if _, err := saveStream(names, strings.NewReader(lines.String())); err != nil {
		return errors.Join(fmt.Errorf("journal export: %w", err), os.Remove(name))
	}
	fmt.Fprintf(s.errs, "%s: %d bytes without names; it replays with the same decisions. %s has %s.\n", name, size, names, plural(int64(len(found.Entries())), "name", "names"))
	return nil
}
