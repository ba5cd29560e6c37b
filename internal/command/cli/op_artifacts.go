package cli

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

func newOpArtifactsCommand(r *remote) *cobra.Command {
	var job, directory string
	cmd := &cobra.Command{
		Use:   "artifacts OPERATION",
		Short: "List or fetch the files that an operation's jobs have left behind",
		Long: `List the files that an operation's jobs have left behind: those that artifact_paths of the task names, or
weir run --output. With --directory, fetch them: into the directory itself if one job has left files or --job names one,
otherwise into a directory for each job. Existing files are replaced. If files of a job could not be kept, the command says why and
exits with 1.`,
		Example: `  weir op artifacts '*nightly'
  weir op artifacts '*nightly' -d results`,
		Args:              oneName("operation"),
		ValidArgsFunction: r.completeOperations(),
		RunE: r.do(func(s *session, args []string) error {
			name, err := s.operation(args[0])
			if err != nil {
				return err
			}
			list, err := s.ListArtifacts(s.ctx, name, job)
			if err != nil {
				return err
			}
			if directory != "" {
				err = s.fetchArtifacts(name, list, directory)
			} else {
				err = s.printArtifacts(list)
			}
			return errors.Join(err, s.missingArtifacts(name, job))
		}),
	}
	cmd.Flags().StringVar(&job, "job", "", "only the files of this job")
	cmd.Flags().StringVarP(&directory, "directory", "d", "", "fetch the files into this directory")
	return cmd
}

// printArtifacts lists the files of jobs.
func (s *session) printArtifacts(list []client.JobArtifacts) error {
	answer, err := client.ValueOf(list)
	if err != nil {
		return err
	}
	return s.print(answer, func(w io.Writer) error {
		t := newTable(w)
		t.row("JOB", "SIZE", "FILE")
		t.alignRight(1)
		for _, a := range list {
			for _, f := range a.Files {
				t.row(a.JobID, fmt.Sprint(f.Size), f.Path)
			}
		}
		return t.flush()
	})
}

// missingArtifacts is an error if files of a job are missing.
func (s *session) missingArtifacts(operation, only string) error {
	answer, err := s.Do(s.ctx, "list_jobs", map[string]any{"operation_id": operation, "attributes": []string{"id", "artifacts"}, "limit": 10000})
	if err != nil {
		return err
	}
	var problems []error
	for _, job := range answer.Get("jobs").Items() {
		id, _ := job.Get("id").Text()
		state, _ := job.Get("artifacts", "state").Text()
		message, _ := job.Get("artifacts", "message").Text()
		reason, _ := job.Get("artifacts", "reason").Text()
		switch {
		case only != "" && id != only:
		case state == "failed":
			problems = append(problems, fmt.Errorf("the files of job %s were not kept (%s): %s", id, reason, message))
		case state == "truncated":
			fmt.Fprintf(s.errs, "weir: job %s: %s\n", id, message)
		}
	}
	return errors.Join(problems...)
}

// fetchArtifacts unpacks the files of jobs.
func (s *session) fetchArtifacts(operation string, list []client.JobArtifacts, directory string) error {
	for _, a := range list {
		to := directory
		if len(list) > 1 {
			to = filepath.Join(directory, a.JobID)
		}
		archive, err := s.Artifacts(s.ctx, operation, a.JobID)
		if err != nil {
			return err
		}
		count, err := unpackInto(to, archive)
		if err = errors.Join(err, archive.Close()); err != nil {
			return fmt.Errorf("files of job %s: %w", a.JobID, err)
		}
		fmt.Fprintf(s.errs, "%s: %s\n", to, plural(int64(count), "file", "files"))
	}
	return nil
}

// unpackInto unpacks an archive into a directory. Nothing in the archive can lead out of the directory.
func unpackInto(directory string, archive io.Reader) (count int, err error) {
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	unpacked, err := zstd.NewReader(archive)
	if err != nil {
		return 0, err
	}
	defer unpacked.Close()
	for files := tar.NewReader(unpacked); ; count++ {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		if header.Typeflag != tar.TypeReg {
			return count, fmt.Errorf("%s is not a plain file", header.Name)
		}
		if err := unpackFile(root, header, files); err != nil {
			return count, err
		}
	}
}

func unpackFile(root *os.Root, header *tar.Header, content io.Reader) error {
	if parent := filepath.Dir(header.Name); parent != "." {
		if err := root.MkdirAll(parent, 0o777); err != nil {
			return err
		}
	}
	if err := root.Remove(header.Name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(header.Mode)&0o777|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
