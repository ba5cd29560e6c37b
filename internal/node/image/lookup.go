package image

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links a path may go through.
const maxLinks = 40

// lookup finds a path in layers, the uppermost first, as the overlay of all of them would: links stay inside, and
// deleted files do not exist.
func lookup(layers []string, name string) (fs.FileInfo, error) {
	missing := &fs.PathError{Op: "find in the image", Path: name, Err: fs.ErrNotExist}
	todo := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	var found fs.FileInfo
	at, candidates, links := "", layers, 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		if part == "" {
			continue
		}
		next := path.Join(at, part)
		info, below, err := entryIn(candidates, next)
		if err != nil {
			return nil, err
		}
		if info == nil {
			return nil, missing
		}
		found = info
		switch {
		case info.IsDir():
			at, candidates = next, below
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return nil, &fs.PathError{Op: "find in the image", Path: name, Err: unix.ELOOP}
			}
			target, err := os.Readlink(filepath.Join(below[0], next))
			if err != nil {
				return nil, err
			}
			if !path.IsAbs(target) {
				target = path.Join("/", at, target)
			}
			todo = append(strings.Split(path.Clean(target), "/"), todo...)
			at, candidates = "", layers
		case len(todo) > 0:
			return nil, missing
		}
	}
	if found == nil {
		return nil, missing
	}
	return found, nil
}

// entryIn finds a path whose directory is merged from some layers. below are the layers that its own content is merged
// from. info is nil if there is nothing.
func entryIn(layers []string, name string) (info fs.FileInfo, below []string, err error) {
	for _, layer := range layers {
		full := filepath.Join(layer, name)
		one, err := os.Lstat(full)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
			continue
		case err != nil:
			return nil, nil, err
		case one.Mode()&fs.ModeCharDevice != 0: // deleted
			return info, below, nil
		case !one.IsDir():
			if info == nil {
				return one, []string{layer}, nil
			}
			return info, below, nil
		}
		if info == nil {
			info = one
		}
		below = append(below, layer)
		mark := make([]byte, 1)
		if n, err := unix.Lgetxattr(full, opaqueAttribute, mark); err == nil && n == 1 && mark[0] == 'y' {
			break
		}
	}
	return info, below, nil
}
