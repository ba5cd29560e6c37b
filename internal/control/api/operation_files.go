package api

import (
	"io"
	"slices"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// fixFiles replaces the files of the tree that an operation names by their contents, so that all of its jobs get the same,
// whatever happens to the tree later. The user must be allowed to read them.
func (c *call) fixFiles(spec *operation.Spec) error {
	total := 0
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		files := make([]document.Value, len(task.Value.FilePaths))
		for j, entry := range task.Value.FilePaths {
			f, ok := operation.ReadFile(entry)
			if !ok { // it was valid when the specification was read
				return wire.Errorf(wire.CodeGeneric, "Task %s: file_paths/%d is no file", task.Name, j)
			}
			if f.TreePath != "" {
				if err := c.readTreeFile(&f); err != nil {
					return wire.Errorf(wire.CodeGeneric, "Task %s: file %s cannot be used", task.Name, f.TreePath).Because(err)
				}
				entry = f.Inline()
			}
			if total += len(f.Content); total > operation.MaxFileContent {
				return wire.Errorf(wire.CodeGeneric, "Task %s: the files of the operation have more than %d bytes together, which is the limit; file %s is the first that does not fit",
					task.Name, operation.MaxFileContent, f.Name)
			}
			files[j] = entry
		}
		if len(files) > 0 {
			task.Value.FilePaths = files
		}
	}
	return nil
}

// readTreeFile reads the content of a file, and whether it is executable if the task does not state it.
func (c *call) readTreeFile(f *operation.File) error {
	path, err := ypath.Parse(f.TreePath)
	if err != nil {
		return wire.Errorf(wire.CodeGeneric, "Error parsing path %s", wire.CutText(f.TreePath, 100)).Because(err)
	}
	t, err := c.Find(path, false)
	if err != nil {
		return err
	}
	if err := c.MayReadNode(t.Place); err != nil {
		return err
	}
	n, ok := t.Object.(*pathtree.PlainNode)
	if !ok || n.Kind() != "file" || len(t.Attribute) > 0 {
		return wire.Errorf(wire.CodeGeneric, "Node %s is not a file", t.Path)
	}
	if f.Content = n.Row.Document; n.Row.Content != "" && n.Size() <= operation.MaxFileContent {
		if f.Content, err = c.wholeContent(n); err != nil {
			return err
		}
	} else if n.Row.Content != "" {
		return wire.Errorf(wire.CodeGeneric, "The file has %d bytes; the limit is %d", n.Size(), operation.MaxFileContent)
	}
	if f.Executable.IsSet() {
		return nil
	}
	value, _, err := n.Attribute(c.Request, t.Place, "executable")
	executable, _ := value.Boolean()
	f.Executable = document.Some(executable)
	return err
}

// wholeContent reads a file of the blob storage.
func (c *call) wholeContent(n *pathtree.PlainNode) ([]byte, error) {
	in, err := c.Server.Content(c.Context, n.Row.Content, 0, -1)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}

// keepFileAttributes writes the paths in file_paths that have attributes as maps with $value and $attributes, which a
// document keeps.
func keepFileAttributes(spec yson.Node) yson.Node {
	tasks, _ := spec.Get("tasks")
	changed := false
	for _, task := range tasks.Entries() {
		files, _ := task.Value.Get("file_paths")
		if !slices.ContainsFunc(files.Items(), func(f yson.Node) bool { return len(f.Attributes()) > 0 }) {
			continue
		}
		items := slices.Clone(files.Items())
		for i, f := range items {
			if attributes := f.Attributes(); len(attributes) > 0 {
				items[i] = yson.Map(yson.Pair("$value", f.WithAttributes()), yson.Pair("$attributes", yson.Map(attributes...)))
			}
		}
		tasks = tasks.With(task.Key, task.Value.With("file_paths", yson.List(items...)))
		changed = true
	}
	if !changed {
		return spec
	}
	return spec.With("tasks", tasks)
}
