package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
)

// whoOver returns who a connection is, by its own account of the server.
func whoOver(t *testing.T, dial func() (net.Conn, error)) (string, error) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		return "", err
	}
	caller := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
	defer caller.CloseIdleConnections()
	response, err := caller.Get("http://localhost/auth/whoami")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), nil
}

// asUser connects to a socket as another user. The thread that changes its user ends with the goroutine.
func asUser(uid int, path string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		keep := -1
		if _, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(keep), uintptr(uid), uintptr(keep)); failed != 0 {
			err = failed
			return
		}
		conn, err = net.Dial("unix", path)
	}()
	<-done
	return conn, err
}

func TestNobodyIsRootByAddress(t *testing.T) {
	s := alone(t, nil)
	who, err := whoOver(t, func() (net.Conn, error) { return net.Dial("tcp", s.Address) })
	if err != nil || !strings.Contains(who, `"guest"`) {
		t.Errorf("over TCP: %s, %v", who, err)
	}
	path := client.SocketPath(s.Address)
	who, err = whoOver(t, func() (net.Conn, error) { return net.Dial("unix", path) })
	if err != nil || !strings.Contains(who, `"root"`) {
		t.Errorf("over the socket: %s, %v", who, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	// A node without a token and without the socket is refused.
	node, err := nodeproto.NewClient([]string{s.Address}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if _, err := node.Register(t.Context(), &nodev1.RegisterRequest{}); err == nil || !strings.Contains(err.Error(), "not in the group") {
		t.Errorf("a node over TCP: %v", err)
	}
}

// Another user cannot connect to the socket, and is nobody there if its mode is changed.
func TestAnotherUserIsNotRootOverTheSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	const nobody = 65534
	directory, err := os.MkdirTemp("/tmp", "weir-socket-") // others can reach it, unlike the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	if err := os.Chmod(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "s")
	alone(t, func(c *config.Scheduler) { c.Socket = document.Some(path) })
	if who, err := whoOver(t, func() (net.Conn, error) { return asUser(nobody, path) }); err == nil {
		t.Errorf("connects, and is %s", who)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	who, err := whoOver(t, func() (net.Conn, error) { return asUser(nobody, path) })
	if err != nil || !strings.Contains(who, `"guest"`) {
		t.Errorf("with the mode changed: %s, %v", who, err)
	}
}

// trust_loopback is the old rule, and says what it means.
func TestTrustInTheMachineIsAnnounced(t *testing.T) {
	var log bytes.Buffer
	settings := config.Default()
	c := &settings.Scheduler
	c.Listen, c.DataDir = document.Some("127.0.0.1:0"), document.Some(filepath.Join(t.TempDir(), "scheduler"))
	c.TrustLoopback = document.Some(true)
	s, err := NewScheduler(t.Context(), c, "test", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "jobs included, acts as root") {
		t.Errorf("the log: %s", log.String())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = alone(t, func(c *config.Scheduler) { c.TrustLoopback = document.Some(true) })
	who, err := whoOver(t, func() (net.Conn, error) { return net.Dial("tcp", s.Address) })
	if err != nil || !strings.Contains(who, `"root"`) {
		t.Errorf("over TCP: %s, %v", who, err)
	}
	raised := func() bool {
		for _, alert := range s.Server.Alerts() {
			if alert.Kind == server.AlertLoopback {
				return true
			}
		}
		return false
	}
	(&cluster{t: t}).await("the alert is raised", raised)
	giveToken(t, s, auth.Root)
	(&cluster{t: t}).await("the first token clears the alert", func() bool { return !raised() })
	if who, err = whoOver(t, func() (net.Conn, error) { return net.Dial("tcp", s.Address) }); err != nil || strings.Contains(who, `"root"`) {
		t.Errorf("over TCP, with tokens: %s, %v", who, err)
	}
}

// A killed scheduler leaves its socket behind, and the next one replaces it. A socket in use is not replaced.
func TestASocketIsReplacedOnlyIfNobodyListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(left.Addr().String(), path); err != nil {
		t.Fatal(err)
	}
	alone(t, func(c *config.Scheduler) { c.Socket = document.Some(path) })
	settings := config.Default()
	c := &settings.Scheduler
	c.Listen, c.DataDir, c.Socket = document.Some("127.0.0.1:0"), document.Some(t.TempDir()), document.Some(path)
	if _, err := NewScheduler(t.Context(), c, "test", newTestLog(t)); err == nil || !strings.Contains(err.Error(), "scheduler/socket") {
		t.Errorf("a second scheduler: %v", err)
	}
	if who, err := whoOver(t, func() (net.Conn, error) { return net.Dial("unix", path) }); err != nil || !strings.Contains(who, `"root"`) {
		t.Errorf("the first one: %s, %v", who, err)
	}
}
