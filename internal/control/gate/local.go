package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrSocketInUse is returned for a socket on which another process listens.
var ErrSocketInUse = errors.New("another process listens on it")

// ListenLocal opens a unix socket that only this process's user and root can connect to. It creates
// the directory, and replaces a socket that nobody listens on. Closing the listener removes the
// socket.
func ListenLocal(path string) (net.Listener, error) {
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(directory)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s must be a directory that only its owner can write to", directory)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		if used, dialErr := net.DialTimeout("unix", path, time.Second); dialErr == nil {
			return nil, errors.Join(fmt.Errorf("socket %s: %w", path, ErrSocketInUse), used.Close())
		}
		if info, statErr := os.Lstat(path); statErr != nil || info.Mode().Type() != os.ModeSocket {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		if listener, err = net.Listen("unix", path); err != nil {
			return nil, err
		}
	}
	// Until this takes effect others may connect, but not pass for this user: see IsOwner.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// socketEnd is how the names of sockets end.
const socketEnd = ".sock"

// staleAfter is how old a socket must be before it counts as left behind: a process that starts has one on which it does not listen yet.
const staleAfter = time.Minute

// RemoveStale removes the sockets in a directory that processes left behind which were killed: nobody listens on them.
func RemoveStale(directory string, now time.Time) error {
	entries, err := os.ReadDir(directory)
	problems := []error{err}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode().Type() != os.ModeSocket || !strings.HasSuffix(entry.Name(), socketEnd) || now.Sub(info.ModTime()) < staleAfter {
			continue
		}
		path := filepath.Join(directory, entry.Name())
		used, err := net.DialTimeout("unix", path, time.Second)
		switch {
		case err == nil:
			problems = append(problems, used.Close())
		case errors.Is(err, syscall.ECONNREFUSED):
			if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

type ownerKey struct{}

// withOwner records in the context of a connection whether its other end belongs to this process's
// user or to root, as the kernel reports it for unix sockets.
func withOwner(ctx context.Context, conn net.Conn) context.Context {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, err := peerUser(local)
	return context.WithValue(ctx, ownerKey{}, err == nil && (uid == 0 || uid == os.Geteuid()))
}

// IsLocal reports whether a request came over a unix socket, and so from this machine.
func IsLocal(r *http.Request) bool {
	_, local := r.Context().Value(ownerKey{}).(bool)
	return local
}

// IsOwner reports whether a request came over a unix socket from this process's user or from root.
func IsOwner(r *http.Request) bool {
	owner, _ := r.Context().Value(ownerKey{}).(bool)
	return owner
}
