package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
)

// splitFile splits the value of --file into the path here and the name in the job's directory.
func splitFile(value string) (path, name string) {
	if at := strings.LastIndexByte(value, ':'); at > 0 {
		return value[:at], value[at+1:]
	}
	return value, filepath.Base(value)
}

// readFiles reads the files that jobs are to have, as entries of file_paths.
func (c *runCall) readFiles() (entries []any, err error) {
	total := int64(0)
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
		if total += info.Size(); total > operation.MaxFileContent {
			return nil, usageErrorf("--file: %s has %d bytes; all files together may have at most %d", path, info.Size(), operation.MaxFileContent)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, usageErrorf("--file: %v", err)
		}
		f := operation.File{Name: name, Executable: document.Some(info.Mode()&0o111 != 0), Content: content}
		entry := f.Inline()
		if _, ok := operation.ReadFile(entry); !ok {
			return nil, usageErrorf("--file: %q cannot be the name of a file in the job's directory: want a relative path that stays inside", name)
		}
		plain := map[string]any{}
		for _, e := range entry.Entries() {
			if text, ok := e.Value.Text(); ok {
				plain[e.Key] = text
			} else {
				plain[e.Key], _ = e.Value.Bool()
			}
		}
		entries = append(entries, plain)
	}
	return entries, nil
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
