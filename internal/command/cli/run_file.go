package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/document"
)

// splitFile splits the value of --file into the path here and the name in the job's directory.
func splitFile(value string) (path, name string) {
	if at := strings.LastIndexByte(value, ':'); at > 0 {
		return value[:at], value[at+1:]
	}
	return value, filepath.Base(value)
}

// largeFile is a file that is sent before the operation starts.
type largeFile struct {
	path string
	sum  checksum.Sum
	size int64
}

// readFiles reads the files that jobs are to have, as entries of file_paths. It leaves the contents of large files for sendFiles.
func (c *runCall) readFiles() (entries []any, err error) {
	for _, value := range c.files {
		path, name := splitFile(value)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, usageErrorf("--file: %v", err)
		case info.IsDir():
			return nil, usageErrorf("--file: %s is a directory; pack it, for example with tar, and unpack it in the command", path)
		case !info.Mode().IsRegular():
			return nil, usageErrorf("--file: %s is not a plain file", path)
		}
		f := operation.File{Name: name, Executable: document.Some(info.Mode()&0o111 != 0)}
		if info.Size() <= operation.MaxInlineFile {
			f.Content, err = os.ReadFile(path)
		} else {
			f.Sum, f.Size, err = sumFile(path)
			c.large = append(c.large, largeFile{path, f.Sum, f.Size})
		}
		if err != nil {
			return nil, usageErrorf("--file: %v", err)
		}
		entry := f.Inline()
		if _, ok := operation.ReadFile(entry); !ok {
			return nil, usageErrorf("--file: %q cannot be the name of a file in the job's directory: want a relative path that stays inside", name)
		}
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
		if err := s.UploadFile(s.ctx, sums[i], client.Content{Size: f.size, Open: func() (io.ReadCloser, error) { return os.Open(f.path) }}); err != nil {
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
		return filepath.Clean(path) == filepath.Clean(words[0])
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
