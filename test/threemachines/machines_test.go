package threemachines_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// machine is a network namespace with an address, in which processes run. Files and control groups are
// those of the test machine.
type machine struct {
	name, namespace, address, directory string
}

// network is a few machines on one bridge. It is outside the test machine's namespace, so the two do
// not affect each other.
type network struct {
	t         *testing.T
	directory string
	program   string
	authority *authority
	machines  []*machine
	token     string // file with root's token, once there is one
}

// newNetwork creates machines m1, m2, …, or skips the test where that is not possible.
func newNetwork(t *testing.T, count int) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: network namespaces need root")
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %s is not installed (iproute2, util-linux)", tool)
		}
	}
	sweep()
	prefix := "weir" + strconv.Itoa(os.Getpid())
	n := &network{t: t, directory: t.TempDir()}
	hub := prefix + "hub"
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", hub).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: network namespaces cannot be made: %s", out)
	}
	t.Cleanup(func() { n.quietly("ip", "netns", "del", hub) })
	n.must("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
	n.must("ip", "-n", hub, "link", "set", "br0", "up")
	n.authority = newAuthority(t, filepath.Join(n.directory, "ca.crt"))
	for i := 1; i <= count; i++ {
		m := &machine{name: fmt.Sprintf("m%d", i), address: fmt.Sprintf("10.77.0.%d", i)}
		m.namespace, m.directory = prefix+m.name, filepath.Join(n.directory, m.name)
		n.must("ip", "netns", "add", m.namespace)
		t.Cleanup(func() { n.quietly("ip", "netns", "del", m.namespace) })
		n.must("ip", "-n", hub, "link", "add", m.name, "type", "veth", "peer", "name", "eth0", "netns", m.namespace)
		n.must("ip", "-n", hub, "link", "set", m.name, "master", "br0", "up")
		n.must("ip", "-n", m.namespace, "address", "add", m.address+"/24", "dev", "eth0")
		n.must("ip", "-n", m.namespace, "link", "set", "eth0", "up")
		n.must("ip", "-n", m.namespace, "link", "set", "lo", "up")
		if err := os.Mkdir(m.directory, 0o755); err != nil {
			t.Fatal(err)
		}
		n.authority.sign(t, m)
		n.machines = append(n.machines, m)
	}
	n.program = filepath.Join(n.directory, "weir")
	n.must("go", "build", "-o", n.program, "github.com/weirhq/weir/cmd/weir")
	return n
}

var namespaceName = regexp.MustCompile(`^weir(\d+)(hub|m\d+)$`)

// sweep removes what a killed test left.
func sweep() {
	entries, _ := os.ReadDir("/run/netns")
	for _, entry := range entries {
		found := namespaceName.FindStringSubmatch(entry.Name())
		if found == nil {
			continue
		}
		owner, err := strconv.Atoi(found[1])
		if err != nil || syscall.Kill(owner, 0) == nil {
			continue // still running
		}
		inside, _ := exec.Command("ip", "netns", "pids", entry.Name()).Output()
		for _, text := range strings.Fields(string(inside)) {
			if process, err := strconv.Atoi(text); err == nil && process > 1 {
				_ = syscall.Kill(process, syscall.SIGKILL)
			}
		}
		_ = exec.Command("ip", "netns", "del", entry.Name()).Run()
	}
}

// must runs a command on the test machine.
func (n *network) must(words ...string) string {
	n.t.Helper()
	out, err := exec.CommandContext(n.t.Context(), words[0], words[1:]...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// quietly runs a command for cleanup; it logs a failure.
func (n *network) quietly(words ...string) {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		n.t.Logf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

// inside returns a command that runs on a machine. Unlike ip netns exec, nsenter leaves mounts alone,
// so control groups stay accessible.
func (n *network) inside(ctx context.Context, m *machine, words ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "nsenter", append([]string{"--net=/run/netns/" + m.namespace, "--"}, words...)...)
	c.Dir = m.directory
	// A standby trusts the cluster's authority when it forwards requests.
	c.Env = append(os.Environ(), "SSL_CERT_FILE="+n.authority.file, "WEIR_AUTHORITY="+n.authority.file, "WEIR_ADDR=unix:"+filepath.Join(m.directory, "scheduler.sock"),
		"WEIR_CONTEXTS="+filepath.Join(m.directory, "contexts.yaml"), "NO_COLOR=1")
	return c
}

// weir runs the program on a machine and returns its output.
func (n *network) weir(m *machine, words ...string) (string, error) {
	var problems bytes.Buffer
	c := n.inside(n.t.Context(), m, append([]string{n.program}, words...)...)
	if n.token != "" {
		c.Env = append(c.Environ(), "WEIR_ADDR=https://127.0.0.1:7070", "WEIR_TOKEN_FILE="+n.token)
	}
	c.Stderr = &problems
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("weir %s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(problems.String()))
	}
	return string(out), err
}

func (n *network) mustWeir(m *machine, words ...string) string {
	n.t.Helper()
	out, err := n.weir(m, words...)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

// says returns a condition: the scheduler of a machine reports the wanted state.
func (n *network) says(m *machine, want string) func() (string, bool) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: n.authority.pool(), MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, kind, address string) (net.Conn, error) {
			return dialInside(ctx, m, kind, address)
		},
	}}
	return func() (string, bool) {
		answer, err := client.Get("https://" + m.address + ":7070/readyz")
		if err != nil {
			return err.Error(), false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		first, _, _ := strings.Cut(string(text), "\n") // what is held back follows
		return fmt.Sprint(string(text), err), err == nil && strings.TrimSpace(first) == want
	}
}

// dialInside opens a connection in the namespace of a machine. The thread that enters it is not reused;
// it ends with its goroutine.
func dialInside(ctx context.Context, m *machine, kind, address string) (net.Conn, error) {
	type result struct {
		connection net.Conn
		err        error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		namespace, err := os.Open("/run/netns/" + m.namespace)
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

// daemon is a process that runs on a machine until it is stopped.
type daemon struct {
	name    string
	process *os.Process
	log     string
	ended   chan error
}

// start starts a role on a machine with a configuration.
func (n *network) start(m *machine, role, configuration string) *daemon {
	n.t.Helper()
	file := filepath.Join(m.directory, role+".yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		n.t.Fatal(err)
	}
	d := &daemon{name: m.name + "/" + role, log: filepath.Join(m.directory, role+".log"), ended: make(chan error, 1)}
	output, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer output.Close()
	c := n.inside(context.Background(), m, n.program, role, "--config", file)
	c.Stdout, c.Stderr = output, output
	if err := c.Start(); err != nil {
		n.t.Fatal(err)
	}
	d.process = c.Process // nsenter without --fork becomes the program
	go func() { d.ended <- c.Wait() }()
	n.t.Cleanup(func() {
		_ = d.process.Kill()
		<-d.ended
		if n.t.Failed() {
			text, _ := os.ReadFile(d.log)
			n.t.Logf("log of %s:\n%s", d.name, text)
		}
	})
	return d
}

// stop sends a signal to a daemon, waits for its end and returns its error.
func (d *daemon) stop(signal syscall.Signal) error {
	if err := d.process.Signal(signal); err != nil {
		return err
	}
	select {
	case err := <-d.ended:
		d.ended <- err
		return err
	case <-time.After(20 * time.Second):
		return errors.New(d.name + " does not stop")
	}
}

// await waits until a condition holds; the closure also returns what it saw.
func (n *network) await(what string, holds func() (seen string, ok bool)) {
	n.t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	began := time.Now()
	for {
		seen, ok := holds()
		if ok {
			n.t.Logf("%s (after %v)", what, time.Since(began).Round(10*time.Millisecond))
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			n.t.Fatalf("it never happened: %s; last seen: %s", what, seen)
		}
	}
}

// authority signs the machines' certificates.
type authority struct {
	file        string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	next        int64
}

// pool returns the certificates that clients trust.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func newAuthority(t *testing.T, file string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, file, "CERTIFICATE", signed)
	certificate, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{file: file, key: key, certificate: certificate, next: 2}
}

// sign issues a certificate in a machine's name, which is valid for a scheduler and for a node.
func (a *authority) sign(t *testing.T, m *machine) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: m.name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{m.name}, IPAddresses: []net.IP{net.ParseIP(m.address), net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	a.next++
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(m.directory, "tls.crt"), "CERTIFICATE", signed)
	writePEM(t, filepath.Join(m.directory, "tls.key"), "PRIVATE KEY", secret)
}

func writePEM(t *testing.T, file, kind string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newPostgres starts a private PostgreSQL and returns the store's address. It listens on a socket in
// the file system, which all namespaces share.
func newPostgres(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs("../../scripts/postgres.sh")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), script, "start", strconv.Itoa(os.Getpid())).Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		if os.Getenv("WEIR_REQUIRE_POSTGRES") != "" {
			t.Fatalf("PostgreSQL: %v: %s", err, out)
		}
		t.Skipf("SKIPPED: PostgreSQL does not start (scripts/setup.sh installs it): %v", err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(script, "stop", lines[0], "immediate").CombinedOutput(); err != nil {
			t.Logf("PostgreSQL does not stop: %v: %s", err, out)
		}
	})
	return "postgres://weir@localhost/postgres?host=" + lines[0]
}

// removeGroups removes the unused control groups below a parent.
func removeGroups(parent string) {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + parent)
	for _, root := range append(roots, "/sys/fs/cgroup/"+parent) {
		var groups []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for i := len(groups) - 1; i >= 0; i-- {
			_ = os.Remove(groups[i])
		}
	}
}
