package gate

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSocketsOfKilledProcessesAreRemoved(t *testing.T) {
	directory := t.TempDir()
	old := time.Now().Add(-time.Hour)
	listen := func(name string, isAlive bool) {
		path := filepath.Join(directory, name)
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		if isAlive {
			t.Cleanup(func() { _ = listener.Close() })
			return
		}
		listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a process that is killed leaves it
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	listen("alive.sock", true)
	listen("dead.sock", false)
	listen("new.sock", false)
	listen("other", false)
	if err := os.Chtimes(filepath.Join(directory, "new.sock"), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(directory, "file.sock"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := RemoveStale(directory, time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{"alive.sock": true, "dead.sock": false, "new.sock": true, "other": true, "file.sock": true} {
		_, err := os.Lstat(filepath.Join(directory, name))
		if stays != (err == nil) || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s stays: want %v, got %v", name, stays, err)
		}
	}
}
