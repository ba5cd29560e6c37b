//go:build linux

package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ownNetwork is the variable that says that this process has a network namespace of its own.
const ownNetwork = "WEIR_FAULTS_OWN_NETWORK"

// enterOwnNetwork starts this process again in a new network namespace, which becomes the router
// between the machines of a campaign. It returns if that is not possible, or done already.
func enterOwnNetwork() {
	if _, err := exec.LookPath("ip"); err != nil || os.Getenv(ownNetwork) != "" || os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil || unix.Unshare(unix.CLONE_NEWNET) != nil {
		return
	}
	// From here on this thread has no network: there is no way back.
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "a network namespace without lo: %v: %s\n", err, out)
		os.Exit(1)
	}
	err = syscall.Exec(self, os.Args, append(os.Environ(), ownNetwork+"=1"))
	fmt.Fprintln(os.Stderr, "the test cannot be started again:", err)
	os.Exit(1)
}

// machine is a network namespace with one address. Files and the clock are those of the machine
// that tests.
type machine struct {
	name, namespace, address string
}

// network is machines that are linked through a router, which is the namespace of this process.
// Users live at the router, so they reach every machine whatever is cut.
type network struct {
	t        *testing.T
	machines []*machine
	cuts     []cut
}

// cut is one direction in which packets vanish.
type cut struct{ from, to *machine }

// newNetwork makes machines, or skips the test where that is not possible.
func newNetwork(t *testing.T, names ...string) *network {
	t.Helper()
	if os.Getenv(ownNetwork) == "" {
		t.Skip("NOT TESTED WITH CUT LINKS: network namespaces need root")
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED WITH CUT LINKS: %s is not installed (iproute2, util-linux)", tool)
		}
	}
	sweepNetworks()
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		t.Skipf("NOT TESTED WITH CUT LINKS: packets cannot be forwarded: %v", err)
	}
	n := &network{t: t}
	for _, name := range names {
		n.add(name)
	}
	return n
}

var machineName = regexp.MustCompile(`^weirfaults(\d+)-\d+$`)

// machineCount counts the machines of this process, each of which has a subnet of its own.
var machineCount atomic.Int64

// add makes a machine.
func (n *network) add(name string) *machine {
	n.t.Helper()
	i := machineCount.Add(1)
	m := &machine{
		name: name, namespace: fmt.Sprintf("weirfaults%d-%d", os.Getpid(), i), address: fmt.Sprintf("10.%d.%d.2", 100+i/250, 1+i%250),
	}
	router := strings.TrimSuffix(m.address, "2") + "1"
	end := fmt.Sprintf("m%d", i)
	n.ip("netns", "add", m.namespace)
	n.t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", m.namespace).CombinedOutput(); err != nil {
			n.t.Logf("%s: %v: %s", m.namespace, err, out)
		}
	})
	n.ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", m.namespace)
	n.ip("address", "add", router+"/30", "dev", end)
	n.ip("link", "set", end, "up")
	// What is set for all reaches new links only if nobody else makes one at the same moment.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+end+"/forwarding", []byte("1"), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.ip("-n", m.namespace, "address", "add", m.address+"/30", "dev", "eth0")
	n.ip("-n", m.namespace, "link", "set", "eth0", "up")
	n.ip("-n", m.namespace, "link", "set", "lo", "up")
	n.ip("-n", m.namespace, "route", "add", "default", "via", router)
	n.machines = append(n.machines, m)
	return m
}

// sweepNetworks removes what a test left that was killed before it could clear up.
func sweepNetworks() {
	entries, _ := os.ReadDir("/run/netns")
	for _, entry := range entries {
		found := machineName.FindStringSubmatch(entry.Name())
		if found == nil {
			continue
		}
		if owner, err := strconv.Atoi(found[1]); err != nil || syscall.Kill(owner, 0) == nil {
			continue // it lives
		}
		m := &machine{namespace: entry.Name()}
		m.signal(syscall.SIGKILL)
		_ = exec.Command("ip", "netns", "del", entry.Name()).Run()
	}
}

// ip runs the command of that name.
func (n *network) ip(words ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// cutLink makes packets from one machine to another vanish, without a word to the sender.
func (n *network) cutLink(from, to *machine) {
	n.t.Helper()
	if c := (cut{from, to}); !slices.Contains(n.cuts, c) {
		n.cuts = append(n.cuts, c)
		n.ip("rule", "add", "from", from.address, "to", to.address, "blackhole")
	}
}

// heal undoes a cut.
func (n *network) heal(from, to *machine) {
	n.t.Helper()
	if i := slices.Index(n.cuts, cut{from, to}); i >= 0 {
		n.cuts = slices.Delete(n.cuts, i, i+1)
		n.ip("rule", "del", "from", from.address, "to", to.address, "blackhole")
	}
}

// command is a command that runs on a machine. nsenter becomes the program, so signals reach it.
func (m *machine) command(words ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + m.namespace, "--"}, words...)...)
}

// processes returns the numbers of the processes of a machine.
func (m *machine) processes() (list []int) {
	out, _ := exec.Command("ip", "netns", "pids", m.namespace).Output()
	for text := range strings.FieldsSeq(string(out)) {
		if process, err := strconv.Atoi(text); err == nil && process > 1 && process != os.Getpid() {
			list = append(list, process)
		}
	}
	return list
}

// signal sends a signal to every process of a machine.
func (m *machine) signal(which syscall.Signal) {
	for _, process := range m.processes() {
		_ = syscall.Kill(process, which) // it may have ended
	}
}

// dial makes a connection from a machine. The thread that went there is not used for anything
// else and ends with its goroutine.
func (m *machine) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	type result struct {
		connection net.Conn
		err        error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		namespace, err := os.Open(filepath.Join("/run/netns", m.namespace))
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{nil, err}
			return
		}
		connection, err := (&net.Dialer{}).DialContext(ctx, kind, address)
		done <- result{connection, err}
	}()
	r := <-done
	return r.connection, r.err
}
