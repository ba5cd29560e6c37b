package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// File is a file of the node that a root shows at a path.
type File struct{ Source, Path string }

// Files are files that a root shows in place of the image's: the accounts of root, whose the image's files are, and of the
// job, and the node's names of hosts and name servers. home is the job's directory. The accounts of a user are written
// once.
func (c *Cache) Files(uid, gid int, home string) ([]File, error) {
	passwd, group := "root:x:0:0:root:/:/bin/sh\n", "root:x:0:\n"
	if uid != 0 {
		passwd += fmt.Sprintf("weir:x:%d:%d::%s:/bin/sh\n", uid, gid, home)
		group += fmt.Sprintf("weir:x:%d:\n", gid)
	}
	directory := filepath.Join(c.Directory, accountsDir, fmt.Sprintf("%d-%d", uid, gid))
	files := []File{{filepath.Join(directory, "passwd"), PasswdPath}, {filepath.Join(directory, "group"), GroupPath}}
	if _, err := os.Stat(files[1].Source); err != nil { // it is written last
		err := errors.Join(os.MkdirAll(directory, 0o755), replaceFile(files[0].Source, passwd), replaceFile(files[1].Source, group))
		if err != nil {
			return nil, fmt.Errorf("accounts of jobs in images: %w", err)
		}
	}
	for _, path := range []string{HostsPath, ResolverPath} {
		if _, err := os.Stat(path); err == nil {
			files = append(files, File{path, path})
		}
	}
	return files, nil
}

// replaceFile writes a file that others may be reading.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
