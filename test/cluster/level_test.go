package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// openDirectory returns a directory of another user, whom the way to it lets in.
func openDirectory(t *testing.T, uid int) string {
	t.Helper()
	directory := sharedDirectory(t)
	if err := os.Chmod(filepath.Dir(directory), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{directory, filepath.Join(directory, "tmp")} {
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// nodeText waits until the only node of a cluster is there, and returns what weir nodes get prints about it.
func (u *up) nodeText() (text string) {
	u.t.Helper()
	await(u.t, "the node is online", func() bool {
		text = u.mustWeir("nodes", "get", "node-1")
		return strings.Contains(text, "online")
	})
	return text
}

func TestAFreshClusterIsolatesJobsAndRaisesNoAlert(t *testing.T) {
	needMachine(t)
	directory, group := sharedDirectory(t), newGroup()
	u := startUpAs(t, nil, programs.weir, "{}", directory, group)
	if text := u.nodeText(); !strings.Contains(text, "full, a user for each job\n") || strings.Contains(text, "isolation_lowered") {
		t.Errorf("weir nodes get:\n%s", text)
	}
	if alerts := u.mustWeir("get", "//sys/scheduler/@alerts"); strings.Contains(alerts, "isolation") {
		t.Errorf("the scheduler raises %s", alerts)
	}
	if strings.Contains(u.log.String(), "not isolated fully") {
		t.Errorf("the log says so:\n%s", u.log)
	}
	output := u.mustWeir("run", "-q", "--", "id -u; pwd; ls "+directory+" || echo nothing there")
	if !strings.HasPrefix(output, "19000000") || !strings.Contains(output, "\n/job\n") || !strings.Contains(output, "nothing there") {
		t.Errorf("a job wrote %q", output)
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

// A container without permissions: root, but nobody who may make namespaces.
func TestANodeWithoutPermissionsSaysSo(t *testing.T) {
	needMachine(t)
	weaker := []string{"setpriv", "--bounding-set=-sys_admin", "--"}
	directory, group := openDirectory(t, 0), newGroup()
	data := filepath.Join(directory, "data")
	if err := os.Mkdir(data, 0o711); err != nil { // others may pass
		t.Fatal(err)
	}
	u := startUpAs(t, weaker, programs.weir, "{}", directory, group, "--data-dir", data)
	text := u.nodeText()
	if !strings.Contains(text, "none, a user for each job (no_namespaces: ") || !strings.Contains(text, "operation not permitted") {
		t.Errorf("weir nodes get:\n%s", text)
	}
	if !strings.Contains(text, "isolation_lowered: jobs see all processes of this node") || !strings.Contains(text, "the cause is no_namespaces") {
		t.Errorf("the alert lacks words:\n%s", text)
	}
	if !strings.Contains(u.log.String(), "cause=no_namespaces") {
		t.Errorf("the log lacks the cause:\n%s", u.log)
	}
	if answer := strings.Join(strings.Fields(u.mustWeir("get", "//sys/cluster_nodes/node-1/@isolation", "-o", "json")), ""); !strings.Contains(answer, `"cause":"no_namespaces"`) {
		t.Errorf("the node's attribute is %s", answer)
	}
	if output := u.mustWeir("run", "-q", "--", "id -u"); !strings.HasPrefix(output, "19000000") {
		t.Errorf("a job ran as %q", output)
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
	config := writeFile(t, directory, "full.yaml", "node: {isolation: {level: full}}\n")
	command := exec.Command("setpriv", "--bounding-set=-sys_admin", "--", programs.weir, "up", "--config", config, "--port", "0")
	command.Env = append(environment(), "TMPDIR="+directory)
	if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "does not allow level full") {
		t.Errorf("a node that must isolate fully: %v: %s", err, out)
	}
}

// personOf is a command line that runs another one as a user without privileges.
func personOf(uid int) []string {
	id := strconv.Itoa(uid)
	return []string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups", "--"}
}

// needUserNamespaces skips a test on machines where users make no namespaces.
func needUserNamespaces(t *testing.T, uid int) {
	t.Helper()
	words := append(personOf(uid), "unshare", "--user", "--mount", "--pid", "--fork", "true")
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Skipf("NO USER NAMESPACES HERE: jobs of an agent without root are not tested: %v: %s", err, out)
	}
}

// A person without root gets everything but limits and users: jobs see their own files and processes only.
func TestAnAgentWithoutRootIsolatesJobsInUserNamespaces(t *testing.T) {
	needMachine(t)
	const uid = 54321
	needUserNamespaces(t, uid)
	directory, group := openDirectory(t, uid), newGroup()
	u := startUpAs(t, personOf(uid), programs.weir, "{}", directory, group)
	u.token = u.printedToken()
	text := u.nodeText()
	if !strings.Contains(text, "full, jobs run as the agent's user (not_root)") || !strings.Contains(text, "isolation_lowered: jobs run as the agent's user; the cause is not_root") {
		t.Errorf("weir nodes get:\n%s", text)
	}
	output := u.mustWeir("run", "-q", "--", `id -u; pwd; ls -d /proc/[0-9]* | wc -l | sed 's/^/processes /'; grep CapEff /proc/self/status; ls `+directory+` || echo nothing there
setsid sleep 5432 </dev/null >/dev/null 2>&1 & unshare -U true 2>/dev/null || echo no namespaces; touch /usr/x 2>/dev/null || echo read-only; echo there > here && cat here`)
	if !regexp.MustCompile(`processes [1-9]\n`).MatchString(output) {
		t.Errorf("the job sees other processes:\n%s", output)
	}
	for _, want := range []string{"54321\n/job\n", "CapEff:\t0000000000000000", "nothing there\n", "no namespaces\n", "read-only\n", "there\n"} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is missing in\n%s", want, output)
		}
	}
	if left := processesOf(t, "5432"); len(left) > 0 && strings.Contains(strings.Join(left, " "), "sleep 5432") {
		t.Errorf("a daemon is left: %v", left)
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

// A weir that was built without make has no small programs. It plays their roles itself, and says so.
func TestAPlainlyBuiltProgramIsolatesJobsToo(t *testing.T) {
	needMachine(t)
	directory, group := sharedDirectory(t), newGroup()
	plain := filepath.Join(directory, "weir")
	if err := expected.BuildProgram(plain, "../../cmd/weir"); err != nil {
		t.Fatal(err)
	}
	u := startUpAs(t, nil, plain, "{}", directory, group)
	if text := u.nodeText(); !strings.Contains(text, "full, a user for each job\n") {
		t.Errorf("weir nodes get:\n%s", text)
	}
	if !strings.Contains(u.log.String(), "jobs start more slowly and take more memory") {
		t.Errorf("the log does not say that the small programs are missing:\n%s", u.log)
	}
	if output := u.mustWeir("run", "-q", "--", "id -u; pwd"); !strings.HasPrefix(output, "19000000") || !strings.HasSuffix(output, "/job\n") {
		t.Errorf("a job wrote %q", output)
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

func TestATaskWithoutNetworkHasTheLoopbackDeviceOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	_, jobs := c.completed(c.start(task("a", "tail -n +3 /proc/net/dev | cut -d: -f1 >&2", "network: none")))
	if text := strings.TrimSpace(c.stderr(jobs[0])); text != "lo" {
		t.Errorf("the job has the devices %q", text)
	}
}
