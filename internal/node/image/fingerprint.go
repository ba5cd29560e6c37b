package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fingerprint sums up the files of a layer without reading them: their names, modes, sizes, times and links. It finds
// what is missing, cut off or written over, and costs a fraction of reading everything.
func fingerprint(directory string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error { // in the order of names
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		inside, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR { // sizes and times of directories are the file system's
			st.Size, st.Mtim = 0, unix.Timespec{}
		}
		target := ""
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(sum, "%q %o %d %d %d %d %d %q\n", inside, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), st.Rdev, target)
		return err
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
