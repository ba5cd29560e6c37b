package operation

import (
	"encoding/base64"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/imagename"
)

// File is a file of a task's sandbox, as an entry of file_paths describes it. TreePath, NodePath or Sum is set, or the
// entry has the content itself.
type File struct {
	// Name is the path in the sandbox. It is relative and stays inside.
	Name string
	// Executable is unset if the entry does not state it.
	Executable document.Optional[bool]
	Content    []byte
	TreePath   string // starts with two slashes
	NodePath   string // absolute
	// Sum and Size name a content of the blob storage.
	Sum  checksum.Sum
	Size int64
	// Unpack makes Name a directory with the files of the content, a tar archive.
	Unpack bool
}

// Limits on contents in a specification, which schedulers store and nodes receive with every first job. Others are in the blob
// storage.
const (
	MaxInlineFile  = 64 << 10  // of one file
	MaxInlineFiles = 512 << 10 // of all files of an operation
)

// ReadFile reads an entry of file_paths: the path of a file in the tree ("//home/ann/tool") or on the nodes
// ("/opt/tool" or "file:/opt/tool"), plain or with the attributes file_name, executable and unpack; or a map with file_name and
// content, content_base64 or sha256. It reports whether the entry is one of them.
func ReadFile(v document.Value) (File, bool) {
	var f File
	target, attributes := v, document.Value{}
	if v.Kind() == document.MapKind {
		if _, given := v.Get("$value"); !given {
			return readContent(v)
		}
		target, _ = v.Get("$value")
		attributes, _ = v.Get("$attributes")
	}
	text, ok := target.Text()
	if !ok {
		return f, false
	}
	switch text = strings.TrimPrefix(text, "file:"); {
	case strings.HasPrefix(text, "//"):
		f.TreePath = text
	case strings.HasPrefix(text, "/"):
		f.NodePath = path.Clean(text)
	default:
		return f, false
	}
	f.Name = path.Base(text)
	return f, f.describe(attributes) && f.isInside() && !(f.Unpack && f.NodePath != "")
}

// readContent reads a file that is given with its content, or with the content's name.
func readContent(v document.Value) (f File, ok bool) {
	if name, named := v.Get("sha256"); named {
		text, isText := name.Text()
		sum, err := checksum.Parse(text)
		f.Sum = sum
		if size, given := v.Get("size"); given {
			if f.Size, ok = size.Int64(); !ok || f.Size < 0 {
				return f, false
			}
		}
		return f, isText && err == nil && f.describe(v) && f.isInside()
	}
	text, plain := v.Get("content")
	encoded, coded := v.Get("content_base64")
	if plain == coded || !f.describe(v) || !f.isInside() {
		return f, false
	}
	if plain {
		content, ok := text.Text()
		f.Content = []byte(content)
		return f, ok
	}
	content, ok := encoded.Text()
	if !ok {
		return f, false
	}
	data, err := base64.StdEncoding.DecodeString(content)
	f.Content = data
	return f, err == nil
}

// describe reads the name and the mode of a file from a map, which may be absent.
func (f *File) describe(attributes document.Value) bool {
	if name, given := attributes.Get("file_name"); given {
		text, ok := name.Text()
		if !ok {
			return false
		}
		f.Name = text
	}
	if mode, given := attributes.Get("executable"); given {
		executable, ok := mode.Bool()
		if !ok {
			return false
		}
		f.Executable = document.Some(executable)
	}
	if unpack, given := attributes.Get("unpack"); given {
		ok := false
		if f.Unpack, ok = unpack.Bool(); !ok {
			return false
		}
	}
	return true
}

// isInside reports whether the file has a name in the sandbox.
func (f *File) isInside() bool {
	return f.Name != "" && filepath.IsLocal(f.Name) && filepath.Clean(f.Name) != "." && !strings.ContainsRune(f.Name, 0)
}

// Inline returns the entry of file_paths that gives a file with its content, or with the content's name.
func (f *File) Inline() document.Value {
	entries := []document.Entry{document.Pair("file_name", document.Text(f.Name)), document.Pair("executable", document.Bool(f.Executable.Value()))}
	if f.Unpack {
		entries = append(entries, document.Pair("unpack", document.Bool(true)))
	}
	switch {
	case !f.Sum.IsZero():
		entries = append(entries, document.Pair("sha256", document.Text(f.Sum.String())), document.Pair("size", document.Int(f.Size)))
	case utf8.Valid(f.Content):
		entries = append(entries, document.Pair("content", document.Text(string(f.Content))))
	default:
		entries = append(entries, document.Pair("content_base64", document.Text(base64.StdEncoding.EncodeToString(f.Content))))
	}
	return document.Map(entries...)
}

func isFile(v document.Value) bool {
	_, ok := ReadFile(v)
	return ok
}

// isLayer reports whether an entry of layer_paths is a file of the tree, or the name of its content.
func isLayer(v document.Value) bool {
	f, ok := ReadFile(v)
	return ok && (f.TreePath != "" || !f.Sum.IsZero())
}

// maxLayers is the most layers that a root is made of.
const maxLayers = 60

// isArchived reports whether the root is an image of the cluster: its name has a digest and no registry, and the only layer is the content of
// the archive that it is in. The scheduler writes this into the specification of an operation that starts.
func isArchived(t *Task) bool {
	text, _ := t.DockerImage.Get()
	n, err := imagename.Parse(text)
	if err != nil || n.Registry != "" || n.Digest == "" || len(t.LayerPaths) != 1 {
		return false
	}
	f, ok := ReadFile(t.LayerPaths[0])
	return ok && !f.Sum.IsZero()
}

// checkLayers refuses a second root, and more layers than nodes can mount.
func checkLayers(r *document.Reader, v document.Value, t *Task) {
	switch {
	case len(t.LayerPaths) == 0:
	case isArchived(t):
	case t.DockerImage.IsSet():
		refuseOption(r, taskTable, v, "layer_paths", RuleTwoRoots, "cannot be combined with docker_image: a job has one root")
	case len(t.LayerPaths) > maxLayers:
		refuseOption(r, taskTable, v, "layer_paths", RuleTwoRoots, fmt.Sprintf("has %d layers; a root is made of at most %d", len(t.LayerPaths), maxLayers))
	}
}
