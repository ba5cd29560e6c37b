package client

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DefaultAddress is the address at which weir scheduler and weir up listen unless told otherwise.
const DefaultAddress = "127.0.0.1:7070"

// systemSockets is where schedulers that root or a service runs open their sockets. Only root can
// create it.
const systemSockets = "/run/weir"

// SocketPath returns the path of the socket that a scheduler listening at an address ("host:port")
// opens for commands on its machine. The directory depends on the user: /run/weir for root,
// $XDG_RUNTIME_DIR/weir for others, or a private directory among the temporary files. A service
// manager that sets $RUNTIME_DIRECTORY decides itself.
func SocketPath(address string) string { return filepath.Join(ownSockets(), address+".sock") }

func ownSockets() string {
	// The manager lists several directories with colons.
	if directory, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":"); filepath.IsAbs(directory) {
		return directory
	}
	uid := os.Geteuid()
	if uid == 0 {
		return systemSockets
	}
	if directory := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(directory) {
		return filepath.Join(directory, "weir")
	}
	return filepath.Join(os.TempDir(), "weir-"+strconv.Itoa(uid))
}

// LocalAddress returns the address of the socket ("unix:/path") of a scheduler on this machine that
// listens at an address ("host:port" with an IP address or localhost), and whether there is one.
// Over the socket, root and the scheduler's own user need no token.
func LocalAddress(address string) (local string, found bool) {
	directories := []string{ownSockets()}
	if directories[0] != systemSockets {
		directories = append(directories, systemSockets)
	}
	for _, directory := range directories {
		if !isPrivate(directory) {
			continue
		}
		for _, name := range listenNames(address) {
			path := filepath.Join(directory, name+".sock")
			if conn, err := net.Dial("unix", path); err == nil {
				_ = conn.Close() // a socket that nobody listens on refuses connections
				return socketScheme + path, true
			}
		}
	}
	return "", false
}

// listenNames returns the addresses at which a scheduler listens if clients of its machine reach it
// at the given one.
func listenNames(address string) []string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	names := []string{net.JoinHostPort(host, port)}
	if ip.IsLoopback() {
		names = append(names, net.JoinHostPort("::", port), net.JoinHostPort("0.0.0.0", port))
	}
	return names
}
