package api

import (
	"bytes"
	"slices"

	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// fixedFiles replaces the files that an operation names by their contents or the names of their contents, so that all of its jobs get the
// same, whatever happens to the tree later. Small contents become part of the specification, others are in the blob storage.
type fixedFiles struct {
	*call
	inline int64
	uses   []store.ContentUse
	held   []*blob.Content
}

// release must be called when the operation is stored.
func (x *fixedFiles) release() {
	for _, content := range x.held {
		content.Release()
	}
}

// fix replaces the files of a specification. The user must be allowed to read files of the tree.
func (x *fixedFiles) fix(spec *operation.Spec) error {
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		files := make([]document.Value, len(task.Value.FilePaths))
		for j, entry := range task.Value.FilePaths {
			f, ok := operation.ReadFile(entry)
			if !ok { // it was valid when the specification was read
				return wire.Errorf(wire.CodeGeneric, "Task %s: file_paths/%d is no file", task.Name, j)
			}
			files[j] = entry
			if f.NodePath != "" {
				continue
			}
			name := f.Name
			if f.TreePath != "" {
				name = f.TreePath
			}
			if err := x.fixFile(&f); err != nil {
				return wire.Errorf(wire.CodeGeneric, "Task %s: file %s cannot be used", task.Name, name).Because(err)
			}
			files[j] = f.Inline()
		}
		if len(files) > 0 {
			task.Value.FilePaths = files
		}
		if err := x.fixLayers(task.Name, &task.Value); err != nil {
			return err
		}
	}
	return nil
}

// fixLayers replaces the files that are the root of a task's jobs by the names of their contents.
func (x *fixedFiles) fixLayers(name string, task *operation.Task) error {
	layers := make([]document.Value, len(task.LayerPaths))
	for i, entry := range task.LayerPaths {
		f, ok := operation.ReadFile(entry)
		if !ok { // it was valid when the specification was read
			return wire.Errorf(wire.CodeGeneric, "Task %s: layer_paths/%d is no file", name, i)
		}
		path := f.Name
		if f.TreePath != "" {
			path = f.TreePath
		}
		if err := x.fixLayer(&f); err != nil {
			return wire.Errorf(wire.CodeGeneric, "Task %s: layer %s cannot be used", name, path).Because(err)
		}
		layers[i] = f.Inline()
	}
	if len(layers) > 0 {
		task.LayerPaths = layers
	}
	return nil
}

// fixLayer gives a layer the name of its content, which is in the blob storage however small it is.
func (x *fixedFiles) fixLayer(f *operation.File) error {
	if f.TreePath == "" {
		return x.useUpload(f)
	}
	if err := x.readTreeFile(f); err != nil || !f.Sum.IsZero() {
		return err
	}
	return x.store(f)
}

// fixFile gives a file its content, or the name of its content. An archive that becomes a directory always has a name.
func (x *fixedFiles) fixFile(f *operation.File) error {
	switch {
	case f.TreePath != "":
		if err := x.readTreeFile(f); err != nil || !f.Sum.IsZero() {
			return err
		}
	case !f.Sum.IsZero():
		return x.useUpload(f)
	}
	size := int64(len(f.Content))
	if !f.Unpack && size <= operation.MaxInlineFile && x.inline+size <= operation.MaxInlineFiles {
		x.inline += size
		return nil
	}
	return x.store(f)
}

// store puts the content of a file into the blob storage.
func (x *fixedFiles) store(f *operation.File) error {
	content, err := x.Server.PutContent(x.Context, x.Who.User, bytes.NewReader(f.Content), int64(len(f.Content)), checksum.Sum{})
	if err != nil {
		return err
	}
	x.use(f, content, x.Who.User)
	f.Content = nil
	return nil
}

// use makes the operation use a content.
func (x *fixedFiles) use(f *operation.File, content *blob.Content, user string) {
	f.Sum, f.Size = content.Sum, content.Size
	x.held = append(x.held, content)
	x.uses = append(x.uses, store.ContentUse{Content: content.Sum.String(), User: user, Size: content.Size})
}

// useUpload uses a content that the user has uploaded, or otherwise uses already. Knowing the sum of a content is not a permission to
// read it.
func (x *fixedFiles) useUpload(f *operation.File) error {
	uses, err := x.Server.Store().ContentUses(x.Context, x.Who.User, f.Sum.String())
	if err != nil {
		return err
	}
	if len(uses) == 0 {
		return wire.Errorf(wire.CodeResolve, "User %q has uploaded no content %s", x.Who.User, f.Sum)
	}
	content, err := x.Server.HoldContent(x.Context, f.Sum)
	if err != nil {
		return err
	}
	x.use(f, content, x.Who.User)
	return nil
}

// readTreeFile reads a file, and whether it is executable if the task does not state it.
func (x *fixedFiles) readTreeFile(f *operation.File) error {
	path, err := ypath.Parse(f.TreePath)
	if err != nil {
		return wire.Errorf(wire.CodeGeneric, "Error parsing path %s", wire.CutText(f.TreePath, 100)).Because(err)
	}
	t, err := x.Find(path, false)
	if err != nil {
		return err
	}
	if err := x.MayReadNode(t.Place); err != nil {
		return err
	}
	n, ok := t.Object.(*pathtree.PlainNode)
	if !ok || n.Kind() != "file" || len(t.Attribute) > 0 {
		return wire.Errorf(wire.CodeGeneric, "Node %s is not a file", t.Path)
	}
	if f.Content = n.Row.Document; n.Row.Content != "" {
		sum, err := checksum.Parse(n.Row.Content)
		if err != nil {
			return err
		}
		content, err := x.Server.HoldContent(x.Context, sum)
		if err != nil {
			return err
		}
		x.use(f, content, n.Row.ContentUser)
	}
	f.TreePath = ""
	if f.Executable.IsSet() {
		return nil
	}
	value, _, err := n.Attribute(x.Request, t.Place, "executable")
	executable, _ := value.Boolean()
	f.Executable = document.Some(executable)
	return err
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
