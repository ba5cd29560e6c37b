package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// network is a few machines, each a network namespace, on one bridge in a separate namespace. Nothing
// of it is in the namespace of the test machine. Files and control groups are those of the test
// machine.
type network struct {
	t      testing.TB
	prefix string
}

// newNetwork creates machines 0, 1, …, or skips the test where that is not possible.
func newNetwork(t testing.TB, machines int) *network {
	t.Helper()
	needMachine(t)
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NO %s HERE: a cut network is not tested", strings.ToUpper(tool))
		}
	}
	sweepNetworks()
	n := &network{t: t, prefix: fmt.Sprintf("weirc%d-%d-", os.Getpid(), groups.Add(1))}
	if output, err := exec.Command("ip", "netns", "add", n.hub()).CombinedOutput(); err != nil {
		t.Skipf("NO NETWORK NAMESPACES HERE: a cut network is not tested: %s", output)
	}
	t.Cleanup(func() { n.delete(n.hub()) })
	n.must("-n", n.hub(), "link", "add", "br0", "type", "bridge")
	n.must("-n", n.hub(), "link", "set", "br0", "up")
	for i := range machines {
		n.must("netns", "add", n.machine(i))
		t.Cleanup(func() { n.delete(n.machine(i)) })
		n.must("-n", n.hub(), "link", "add", port(i), "type", "veth", "peer", "name", "eth0", "netns", n.machine(i))
		n.must("-n", n.hub(), "link", "set", port(i), "master", "br0", "up")
		n.must("-n", n.machine(i), "address", "add", n.address(i)+"/24", "dev", "eth0")
		n.must("-n", n.machine(i), "link", "set", "eth0", "up")
		n.must("-n", n.machine(i), "link", "set", "lo", "up")
	}
	return n
}

func port(i int) string { return fmt.Sprintf("m%d", i) }

func (n *network) hub() string          { return n.prefix + "hub" }
func (n *network) machine(i int) string { return n.prefix + port(i) }
func (n *network) address(i int) string { return fmt.Sprintf("10.79.0.%d", i+1) }

func (n *network) must(args ...string) {
	n.t.Helper()
	if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

func (n *network) delete(namespace string) {
	if output, err := exec.Command("ip", "netns", "delete", namespace).CombinedOutput(); err != nil {
		n.t.Errorf("network namespace %s: %v\n%s", namespace, err, output)
	}
}

// cut disconnects a machine from the bridge without notice: its packets vanish.
func (n *network) cut(i int) {
	n.t.Helper()
	n.must("-n", n.hub(), "link", "set", port(i), "nomaster")
}

// mend connects it again.
func (n *network) mend(i int) {
	n.t.Helper()
	n.must("-n", n.hub(), "link", "set", port(i), "master", "br0")
}

var namespaceName = regexp.MustCompile(`^weirc(\d+)-\d+-(hub|m\d+)$`)

// sweepNetworks removes what a killed test left.
func sweepNetworks() {
	entries, _ := os.ReadDir("/run/netns")
	for _, entry := range entries {
		found := namespaceName.FindStringSubmatch(entry.Name())
		if found == nil {
			continue
		}
		if owner, err := strconv.Atoi(found[1]); err == nil && syscall.Kill(owner, 0) != nil {
			_ = exec.Command("ip", "netns", "delete", entry.Name()).Run() // another test may do the same
		}
	}
}

// cutNodes runs a cluster of two nodes whose cables are pulled repeatedly, at random moments, for a
// time.
func cutNodes(t *testing.T, silence, dark time.Duration) *realCluster {
	takesLong(t)
	network := newNetwork(t, 3)
	// Machines have their own ports, but one directory of sockets, which are named after them.
	address := fmt.Sprintf("127.0.0.1:%d", 10_000+(os.Getpid()*16+int(groups.Add(1)))%50_000)
	c := newRealClusterOn(t, network, address, silence, 2, small)
	random, count := newRandom(t), faultCount(t)
	c.load(20)
	for range count {
		c.awaitProxies()
		pass(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		i := 1 + random.IntN(2)
		network.cut(i)
		c.load(20) // for the other node, or to wait
		pass(dark)
		network.mend(i)
	}
	c.await()
	c.check()
	return c
}

func TestANetworkMayBeCutForFiveSeconds(t *testing.T) {
	t.Parallel()
	// The jobs of a silent node are given up after five minutes: nothing may be aborted.
	c := cutNodes(t, 5*time.Minute, 5*time.Second)
	if c.aborted > 0 {
		t.Errorf("%d jobs were aborted", c.aborted)
	}
}

func TestANetworkMayBeCutForTwiceAsLongAsTheSchedulerWaits(t *testing.T) {
	t.Parallel()
	// Ten minutes of silence where jobs are given up after five, a hundred times faster.
	cutNodes(t, 3*time.Second, 6*time.Second)
}
