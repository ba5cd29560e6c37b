package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files of the node, or made for the job, that replace those of an image.
const (
	PasswdPath   = "/etc/passwd"
	GroupPath    = "/etc/group"
	HostsPath    = "/etc/hosts"
	ResolverPath = "/etc/resolv.conf"
)

// Points makes the uppermost layer of roots: empty directories and files on which the init of a job mounts what is not
// the image's. Because they are real directories in the uppermost layer, no link of an image leads a mount elsewhere.
// directories are those that every root has; paths are files or directories of the machine that jobs see besides, each under its path in the root with
// its path on the machine. The result is relative to the directory of the cache, like the layers.
func (c *Cache) Points(directories []string, paths map[string]string) (string, error) {
	points := map[string]bool{} // whether it is a directory
	for _, path := range directories {
		points[path] = true
	}
	for _, path := range []string{PasswdPath, GroupPath, HostsPath, ResolverPath} {
		points[path] = false
	}
	for path, source := range paths {
		info, err := os.Stat(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a job that needs it fails when it starts, as without an image
		}
		if err != nil {
			return "", fmt.Errorf("points of images: %w", err)
		}
		points[path] = info.IsDir()
	}
	var names []string
	for path, isDirectory := range points {
		if isDirectory {
			path += "/"
		}
		names = append(names, path)
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	relative := filepath.Join(pointsDir, hex.EncodeToString(sum[:8]))
	whole := filepath.Join(c.Directory, relative)
	if _, err := os.Stat(whole); err == nil {
		return relative, nil
	}
	temporary := whole + ".new"
	if err := errors.Join(os.RemoveAll(temporary), os.Mkdir(temporary, 0o755)); err != nil {
		return "", fmt.Errorf("points of images: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(temporary, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", fmt.Errorf("points of images: %w", err)
		}
		err := error(nil)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			return "", fmt.Errorf("points of images: %w", err)
		}
	}
	if err := os.Rename(temporary, whole); err != nil {
		return "", fmt.Errorf("points of images: %w", err)
	}
	return relative, nil
}
