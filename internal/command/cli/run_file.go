package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/document"
)

// splitFile splits the value of --file into the path here and the name in the job's directory.
func splitFile(value string) (path, name string) {
	if at := strings.LastIndexByte(value, ':'); at > 0 {
		return value[:at], value[at+1:]
	}
	if whole, err := filepath.Abs(value); err == nil { // "." has a name too
		return value, filepath.Base(whole)
	}
	return value, filepath.Base(value)
}

// largeFile is a file, or the archive of a directory, that is sent before the operation starts.
type largeFile struct {
	path   string
	packed *os.File // the archive; nil for a file
	sum    checksum.Sum
	size   int64
}

func (f *largeFile) open() (io.ReadCloser, error) {
	if f.packed != nil {
		return io.NopCloser(io.NewSectionReader(f.packed, 0, f.size)), nil
	}
	return os.Open(f.path)
}

// forgetFiles removes the archives of directories.
func (c *runCall) forgetFiles() {
	for _, f := range c.large {
		if f.packed != nil {
			f.packed.Close() // it has no name
		}
	}
}

// packForJobs makes the archive of a directory, in a file without a name.
func packForJobs(path string) (*largeFile, error) {
	file, err := os.CreateTemp("", "weir-run-")
	if err != nil {
		return nil, err
	}
	meter := checksum.NewMeter()
	err = os.Remove(file.Name())
	if err == nil {
		_, err = archive.PackDirectory(path, io.MultiWriter(file, meter))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &largeFile{path: path, packed: file, sum: meter.Sum(), size: meter.Size()}, nil
}

// readFiles reads the files that jobs are to have, as entries of file_paths. It leaves the contents of large files for sendFiles.
func (c *runCall) readFiles() (entries []any, err error) {
	for _, value := range c.files {
		path, name := splitFile(value)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, usageErrorf("--file: %v", err)
		case !info.Mode().IsRegular() && !info.IsDir():
			return nil, usageErrorf("--file: %s is neither a plain file nor a directory", path)
		}
		f := operation.File{Name: name}
		if entry := f.Inline(); !isFileEntry(entry) {
			return nil, usageErrorf("--file: %q cannot be the name of a file in the job's directory: want a relative path that stays inside", name)
		}
		if err := c.readFile(path, info, &f); err != nil {
			return nil, usageErrorf("--file: %v", err)
		}
		entry := f.Inline()
		plain := map[string]any{}
		for _, e := range entry.Entries() {
			switch e.Value.Kind() {
			case document.StringKind:
				plain[e.Key], _ = e.Value.Text()
			case document.BoolKind:
				plain[e.Key], _ = e.Value.Bool()
			default:
				plain[e.Key], _ = e.Value.Int64()
			}
		}
		entries = append(entries, plain)
	}
	return entries, nil
}

func isFileEntry(entry document.Value) bool {
	_, ok := operation.ReadFile(entry)
	return ok
}

// readFile reads a file or a directory. It leaves the contents of large files and directories for sendFiles.
func (c *runCall) readFile(path string, info os.FileInfo, f *operation.File) (err error) {
	if info.IsDir() {
		packed, err := packForJobs(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.large = append(c.large, *packed)
		f.Sum, f.Size, f.Unpack = packed.sum, packed.size, true
		return nil
	}
	f.Executable = document.Some(info.Mode()&0o111 != 0)
	if info.Size() <= operation.MaxInlineFile {
		f.Content, err = os.ReadFile(path)
		return err
	}
	f.Sum, f.Size, err = sumFile(path)
	c.large = append(c.large, largeFile{path: path, sum: f.Sum, size: f.Size})
	return err
}

func sumFile(path string) (sum checksum.Sum, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return sum, 0, err
	}
	defer file.Close()
	meter := checksum.NewMeter()
	_, err = io.Copy(meter, file)
	return meter.Sum(), meter.Size(), err
}

// sendFiles sends the large files that the scheduler does not have yet.
func (c *runCall) sendFiles(s *session) error {
	if len(c.large) == 0 {
		return nil
	}
	sums := make([]string, len(c.large))
	for i, f := range c.large {
		sums[i] = f.sum.String()
	}
	there, err := s.FindUploads(s.ctx, sums)
	if err != nil {
		return err
	}
	for i, f := range c.large {
		if slices.Contains(there, sums[i]) {
			continue
		}
		there = append(there, sums[i])
		c.say(s, "weir: sending %s, %d bytes\n", f.path, f.size)
		if err := s.UploadFile(s.ctx, sums[i], client.Content{Size: f.size, Open: f.open}); err != nil {
			return fmt.Errorf("--file %s: %w", f.path, err)
		}
	}
	return nil
}

// Exit codes of a shell that cannot run a command.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// adviseFile explains a command that is a file here and that the job did not find.
func (c *runCall) adviseFile(s *session, args []string, exit int) {
	if exit != exitNotFound && exit != exitNotExecutable {
		return
	}
	words := strings.FieldsFunc(args[0], func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>()", r) })
	if len(args) > 1 {
		words = args[:1]
	}
	if len(words) == 0 || !strings.Contains(words[0], "/") || slices.ContainsFunc(c.files, func(value string) bool {
		path, _ := splitFile(value)
		inside, err := filepath.Rel(path, words[0]) // the file itself, or one of a directory
		return err == nil && filepath.IsLocal(inside)
	}) {
		return
	}
	if info, err := os.Stat(words[0]); err != nil || info.IsDir() {
		return
	}
	name := filepath.Base(words[0])
	fmt.Fprintf(s.errs, "weir: %s is a file here, but the job runs in an empty directory on another machine; take it along: weir run --file %s -- ./%s\n",
		words[0], quoteWord(words[0]), quoteWord(name))
}
