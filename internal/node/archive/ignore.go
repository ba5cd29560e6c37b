package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// IgnoreFile names, in the form of .gitignore, what of a directory jobs do not need.
const IgnoreFile = ".weirignore"

// maxIgnoreFile bounds the file.
const maxIgnoreFile = 1 << 20

// ignoreRule is a line of IgnoreFile.
type ignoreRule struct {
	pattern   []string // parts of the path
	keeps     bool     // the line starts with "!"
	directory bool     // only directories
}

// ignoreRules are the lines of IgnoreFile; the last one that matches decides.
type ignoreRules []ignoreRule

func readIgnoreFile(root *os.Root) (ignoreRules, error) {
	file, err := root.Open(IgnoreFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxIgnoreFile {
		return nil, fmt.Errorf("%s has more than %d bytes", IgnoreFile, maxIgnoreFile)
	}
	return parseIgnoreRules(string(text))
}

// parseIgnoreRules reads the rules of .gitignore: a pattern with a slash before its end is relative to the directory, any other one matches
// names at every depth; "*", "?" and "[a-z]" match within a name, "**" any number of directories; "/" at the end stands for directories
// only, "!" at the start for what is not ignored after all, "#" for a comment.
func parseIgnoreRules(text string) (rules ignoreRules, err error) {
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = trimSpaces(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		var rule ignoreRule
		line, rule.keeps = strings.CutPrefix(line, "!")
		line, rule.directory = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if line == "" {
			continue
		}
		rule.pattern = strings.Split(line, "/")
		for i, part := range rule.pattern {
			part = strings.ReplaceAll(part, "[!", "[^")
			if _, err := path.Match(part, ""); err != nil {
				return nil, fmt.Errorf("%s, line %d: %q is no pattern", IgnoreFile, number, line)
			}
			rule.pattern[i] = part
		}
		if !anchored {
			rule.pattern = append([]string{"**"}, rule.pattern...)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// trimSpaces removes the spaces at the end of a line, but not one after a backslash.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// match reports whether a file or directory whose parents are not ignored is ignored itself.
func (rules ignoreRules) match(name string, isDirectory bool) (ignored bool) {
	parts := strings.Split(name, "/")
	for i := range rules {
		if rule := &rules[i]; (isDirectory || !rule.directory) && matchesWhole(rule.pattern, parts) {
			ignored = !rule.keeps
		}
	}
	return ignored
}

// matchesWhole reports whether a pattern names a path. "**" at the end names everything below a directory, but not the directory.
func matchesWhole(pattern, parts []string) bool {
	switch {
	case len(pattern) == 0:
		return len(parts) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(parts) > 0
	case pattern[0] == "**":
		for i := range len(parts) + 1 {
			if matchesWhole(pattern[1:], parts[i:]) {
				return true
			}
		}
		return false
	case len(parts) == 0:
		return false
	}
	same, err := path.Match(pattern[0], parts[0])
	return err == nil && same && matchesWhole(pattern[1:], parts[1:])
}
