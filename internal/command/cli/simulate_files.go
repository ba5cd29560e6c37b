package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/report"
)

// checkFiles refuses outputs that cannot be written, before a run that may take minutes rather than
// after it.
func (c *simulateCall) checkFiles(inputs ...string) error {
	taken := map[string]string{}
	for _, name := range inputs {
		if name != "-" {
			taken[filepath.Clean(name)] = "what is read"
		}
	}
	for _, output := range []struct{ flag, name string }{{"--html", c.html}, {"--csv", c.csv}, {"--save", c.save}} {
		if output.name == "" {
			continue
		}
		clean := filepath.Clean(output.name)
		if other, twice := taken[clean]; twice {
			return usageErrorf("%s %s would overwrite %s", output.flag, output.name, other)
		}
		if taken[clean] = "that of " + output.flag; isSpecial(output.name) {
			delete(taken, clean)
		}
		info, err := os.Stat(filepath.Dir(output.name))
		if err == nil && !info.IsDir() {
			err = errors.New("not a directory")
		}
		if err != nil {
			return fmt.Errorf("%s %s: %s: %w", output.flag, output.name, filepath.Dir(output.name), cause(err))
		}
		if info, err := os.Stat(output.name); err == nil && info.IsDir() {
			return fmt.Errorf("%s %s: is a directory", output.flag, output.name)
		}
	}
	return nil
}

// isSpecial reports whether a name is a device or a pipe, which is written to and never replaced.
func isSpecial(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// cause is the underlying error of a file, without the name of the file.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// write writes the requested files.
func (c *simulateCall) write(result *outcome.Result) error {
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{c.html, func(w io.Writer) error { return report.HTML(w, result) }},
		{c.csv, func(w io.Writer) error { return report.CSV(w, result) }},
		{c.save, func(w io.Writer) error {
			data, err := result.JSON()
			if err == nil {
				_, err = w.Write(data)
			}
			return err
		}},
	} {
		if file.name == "" {
			continue
		}
		if err := writeWhole(file.name, file.write); err != nil {
			return err
		}
	}
	return nil
}

// writeWhole writes a file completely or not at all. It writes directly to devices and pipes.
func writeWhole(name string, write func(io.Writer) error) error {
	if isSpecial(name) {
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(file)
		if err := errors.Join(write(out), out.Flush(), file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, cause(err))
		}
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".weir-*")
	if err != nil {
		return fmt.Errorf("%s: %w", name, cause(err))
	}
	out := bufio.NewWriter(file)
	err = errors.Join(write(out), out.Flush(), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(file.Name()))
	}
	return nil
}
