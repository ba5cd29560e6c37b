package agent

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/jobinit"
)

// sharedPlaces are the directories that jobs with separate users share at a level. What a job leaves there would belong to the next job with
// its user id.
func sharedPlaces(level jobinit.Level) []string {
	switch level {
	case jobinit.SharedFiles:
		return []string{"/tmp", "/var/tmp"}
	case jobinit.None:
		return []string{"/tmp", "/var/tmp", "/dev/shm"}
	}
	return nil
}

// owners adds the users and groups that own something below directories to a set. It follows no links.
func owners(places []string, found map[uint32]bool) error {
	var problems []error
	for _, place := range places {
		directory, err := unix.Open(place, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch err {
		case nil:
			err = ownersIn(directory, found)
			unix.Close(directory)
		case unix.ENOENT, unix.ENOTDIR, unix.ELOOP: // what a link leads to is on the list itself, or is not the jobs'
			err = nil
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", place, err))
		}
	}
	return errors.Join(problems...)
}

// ownersIn adds the owners of what is in an open directory.
func ownersIn(directory int, found map[uint32]bool) error {
	// Reading needs a handle of its own: its position moves.
	again, err := unix.Openat(directory, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	list := os.NewFile(uintptr(again), "shared")
	names, err := list.Readdirnames(-1)
	problems := []error{err, list.Close()}
	for _, name := range names {
		if err := ownersOf(directory, name, found); err != nil && err != unix.ENOENT { // files come and go meanwhile
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}

func ownersOf(directory int, name string, found map[uint32]bool) error {
	var st unix.Stat_t
	if err := unix.Fstatat(directory, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	found[st.Uid], found[st.Gid] = true, true
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	inner, err := unix.Openat(directory, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(inner)
	return ownersIn(inner, found)
}
