package jobproxy

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/test/expected"
)

// hostedNode is a node whose jobs are isolated and run in a supervisor.
func hostedNode(t *testing.T) *node {
	t.Helper()
	return hostedNodeIn(t, t.TempDir())
}

// hostedNodeIn is the same with a data directory.
func hostedNodeIn(t *testing.T, directory string) *node {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: isolated jobs are not tested")
	}
	n := newNodeIn(t, cgroup.V1, directory)
	if n.supervisor == nil {
		n.host(t)
	}
	return n
}

// isolated is a small job with full isolation.
func (n *node) isolated(command string) *Description {
	job := n.description(command)
	job.Isolation = &Isolation{Level: jobinit.Full, SharedMemory: mib, Hide: []string{"/etc/ssh"}}
	job.Credential = &Credential{UID: 1_900_000_007, GID: 1_900_000_007}
	return job
}

// completed runs a job to its good end and returns what it wrote.
func (n *node) completed(t *testing.T, job *Description) string {
	t.Helper()
	job.RedirectStdoutToStderr = true
	dir := n.launch(t, job)
	if result := n.result(t, dir); result.Outcome != Completed {
		t.Fatalf("%s: %v\n%s", result.Outcome, result.Error, stderrOf(t, dir))
	}
	return stderrOf(t, dir)
}

// has complains about each text that a job did not write.
func has(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestAnIsolatedJobSeesAMachineOfItsOwn(t *testing.T) {
	n := hostedNode(t)
	job := n.isolated(`id -u; id -G; hostname; pwd; echo $HOME $TMPDIR; echo root $(ls /)
		echo dev $(ls /dev); echo processes $(ls /proc | grep -c '^[0-9]')
		cut -d: -f3 /proc/self/cgroup | sort -u | sed 's/^/group /'
		grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status
		touch a $TMPDIR/b /dev/shm/c && ls -ld a | cut -d' ' -f1 && cat file && echo $WEIR_SANDBOX_PATH`)
	job.Files = []File{{Path: "file", Content: []byte("content\n")}}
	none := "0000000000000000"
	has(t, n.completed(t, job), "1900000007\n1900000007\njob-1\n/job\n/job /tmp\n", "root bin dev etc home job lib",
		"dev fd full null ptmx pts random shm stderr stdin stdout tty urandom zero\n", "group /\n", "-rw-r--r--\ncontent\n/job\n",
		"CapInh:\t"+none, "CapPrm:\t"+none, "CapEff:\t"+none, "CapBnd:\t"+none, "CapAmb:\t"+none, "NoNewPrivs:\t1", "Seccomp:\t2")
}

// answers are what the kernel says to each attempt of the program attack.
var answers = []string{
	"clone-user EPERM", "clone-mount EPERM", "clone succeeded", "clone3 ENOSYS", "unshare-user EPERM", "setns EPERM", "mount EPERM", "umount EPERM",
	"pivot_root EPERM", "fsopen EPERM", "move_mount EPERM", "open_tree EPERM", "bpf EPERM", "perf EPERM", "userfaultfd EPERM", "io_uring EPERM",
	"keyctl EPERM", "add_key EPERM", "syslog EPERM", "ptrace EPERM", "read-memory EPERM", "open-by-handle EPERM", "reboot EPERM", "host-name EPERM",
	"clock EPERM", "kill-init EPERM", "make-device EPERM", "raw-socket EPERM", "packet-socket EPERM", "become-root EPERM", "chroot EPERM", "cores EPERM", "set-project EPERM", "set-flags EPERM", "pid true",
}

func TestAnIsolatedJobIsRefusedWhatItMustNotDo(t *testing.T) {
	n := hostedNode(t)
	job := n.isolated("./attack")
	job.Files = []File{{Path: "attack", Executable: true, Source: attackProgram}}
	if got, want := n.completed(t, job), strings.Join(answers, "\n")+"\n"; got != want {
		t.Errorf("the job wrote\n%s\nwant\n%s", got, want)
	}
}

func TestAnIsolatedJobReachesNothingOfTheNode(t *testing.T) {
	n := hostedNode(t)
	secret := filepath.Join(filepath.Dir(n.root), "token")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	victim := n.isolated("echo mine > note; sleep 1000")
	victim.Credential = &Credential{UID: 1_900_000_008, GID: 1_900_000_008}
	other := n.launch(t, victim)
	state := follow(t, other, isRunning)
	job := n.isolated("")
	var script strings.Builder
	for i, attempt := range []string{
		"cat " + secret, "ls " + n.root, "cat /etc/shadow", "touch /etc/x", "touch /usr/x", "touch /x", "touch /dev/x",
		"kill -9 " + strconv.Itoa(os.Getpid()), "kill -9 " + strconv.Itoa(state.RootPID), "kill -9 1", "cat /proc/1/environ", "cd /proc/1/root", "sh -c 'echo 1 > /proc/sys/kernel/panic'",
		"sh -c 'echo b > /proc/sysrq-trigger'", "head -c 1 /proc/kcore", "ls /sys/fs", "ls /etc/ssh/moduli /etc/ssh/sshd_config", "su -c true",
		"ulimit -c unlimited", "ulimit -n 65537", "ulimit -l unlimited", "mount -t tmpfs x /tmp", "unshare -U true", "mkdir /sys/fs/cgroup", "dmesg", "rmdir /job", "mv /job $TMPDIR/x",
	} {
		fmt.Fprintf(&script, "if %s </dev/null >/dev/null 2>&1; then echo 'attempt %d succeeded: %s'; fi\n", attempt, i, strings.ReplaceAll(attempt, "'", ""))
	}
	job.Command = script.String() + "ulimit -c; [ $(ulimit -n) -le 65536 ] && [ $(ulimit -l) -le 64 ] || ulimit -a; ls -A /etc/ssh 2>/dev/null; true"
	if got := n.completed(t, job); got != "0\n" {
		t.Errorf("the job wrote\n%s", got)
	}
	do(t, other, Order{Command: Abort, Reason: OtherReason})
	n.result(t, other)
}

func TestDaemonsOfAnIsolatedJobEndWithIt(t *testing.T) {
	n := hostedNode(t)
	job := n.isolated("setsid sh -c '(exec sleep 4321) & exec sleep 4321' </dev/null >/dev/null 2>&1 & sh -c 'sleep 4321 & exit' & sleep 0.1; exit 0")
	n.completed(t, job)
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range processes {
		if text, _ := os.ReadFile(name); string(text) == "sleep\x004321\x00" {
			t.Errorf("%s is left", name)
		}
	}
}

func TestSharedMemoryOfAnIsolatedJobIsBoundedAndGone(t *testing.T) {
	n := hostedNode(t)
	text := n.completed(t, n.isolated("head -c 10000000 /dev/zero > /dev/shm/weir-left; stat -c %s /dev/shm/weir-left"))
	has(t, text, "No space left", "\n1048576\n")
	if _, err := os.Stat("/dev/shm/weir-left"); err == nil {
		t.Error("it is on the machine")
	}
}

func TestAnIsolatedJobMayDeleteEverythingItSees(t *testing.T) {
	n := hostedNode(t)
	n.completed(t, n.isolated("touch a b; rm -rf /job $TMPDIR/* /dev/shm/* 2>/dev/null; [ -z \"$(ls -A /job)\" ]"))
}

func TestVolumesOfAnIsolatedJob(t *testing.T) {
	n := hostedNode(t)
	for _, path := range []string{"volume", "."} {
		job := n.isolated("stat -f -c %T " + path + "; cat " + path + "/file; head -c 300000 /dev/zero > " + path + "/more; ls -n " + path + "/file | cut -d' ' -f3")
		job.Files = []File{{Path: filepath.Join(path, "file"), Content: []byte("x\n")}}
		job.Tmpfs = []Tmpfs{{Path: path, Size: mib}}
		job.RedirectStdoutToStderr = true
		dir := n.launch(t, job)
		result := n.result(t, dir)
		if got := strings.Join(strings.Fields(stderrOf(t, dir)), " "); result.Outcome != Completed || got != "tmpfs x 1900000007" {
			t.Errorf("%s %v: %s", result.Outcome, result.Error, got)
		}
		if most := statistic(t, result, "user_job/tmpfs_max_usage"); most < 300_000 || most > mib {
			t.Errorf("tmpfs_max_usage is %d", most)
		}
	}
}

func TestAJobWithSharedFilesReadsTheMachineAndWritesItsSandbox(t *testing.T) {
	n := hostedNode(t)
	for _, dir := range []string{filepath.Dir(n.root), filepath.Dir(filepath.Dir(n.root))} {
		if err := os.Chmod(dir, 0o755); err != nil { // a way in for others
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("of the machine\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	job := n.isolated("cat " + path + "; touch here $TMPDIR/there && echo written; echo x > /usr/x; id -u; cat volume/f; touch volume/new && echo volume")
	job.Isolation.Level = jobinit.SharedFiles
	job.Tmpfs = []Tmpfs{{Path: "volume", Size: mib}}
	job.Files = []File{{Path: "volume/f", Content: []byte("filled\n")}}
	has(t, n.completed(t, job), "of the machine\n", "written\n", "Read-only file system", "1900000007\nfilled\nvolume\n")
}

// The data directory of a node lets nobody else pass. A job with shared files reaches its own directories by their paths all the same, and
// nothing beside them.
func TestAJobWithSharedFilesRunsBelowADirectoryThatIsClosedToIt(t *testing.T) {
	n := hostedNode(t)
	data := filepath.Dir(n.root)
	if err := os.Chmod(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "token"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	job := n.isolated("cd / && cd $HOME && echo x > $HOME/a && cat $WEIR_SANDBOX_PATH/a && touch $TMPDIR/b && echo written; cat volume/f; ls " + data + "; cat " + data + "/token || true")
	job.Isolation.Level = jobinit.SharedFiles
	job.Tmpfs = []Tmpfs{{Path: "volume", Size: mib}}
	job.Files = []File{{Path: "volume/f", Content: []byte("filled\n")}}
	got := n.completed(t, job)
	has(t, got, "x\nwritten\nfilled\njobs\n", "No such file")
	if strings.Contains(got, "secret") {
		t.Errorf("the job reads the node's files:\n%s", got)
	}
}

func TestPathsThatAnIsolatedJobMaySee(t *testing.T) {
	n := hostedNode(t)
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "writable"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "writable"), 0o777); err != nil {
		t.Fatal(err)
	}
	job := n.isolated(fmt.Sprintf("ls %s; touch %s/x 2>&1; touch %s/writable/x && echo written", dir, dir, dir))
	job.Isolation.ReadOnly, job.Isolation.Writable = []string{dir}, []string{filepath.Join(dir, "writable")}
	has(t, n.completed(t, job), "writable\n", "Read-only file system", "written\n")
	job = n.isolated("true")
	job.Isolation.ReadOnly = []string{filepath.Join(dir, "absent")}
	if r := n.run(t, job); r.Outcome != Aborted || !strings.Contains(r.Error.Error(), "absent: no such file") {
		t.Errorf("%s: %v", r.Outcome, r.Error)
	}
}

func TestAnInitThatIsKilledOrStoppedTakesItsJobWithIt(t *testing.T) {
	n := hostedNode(t)
	for _, level := range []jobinit.Level{jobinit.Full, jobinit.None} {
		job := n.isolated("sleep 1000 & sleep 1000")
		if job.Isolation.Level = level; level == jobinit.None {
			job.Credential = nil
		}
		dir := n.launch(t, job)
		state := follow(t, dir, isRunning)
		if err := unix.Kill(state.InitPID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if r := n.result(t, dir); r.Outcome != Aborted || r.AbortReason != ProxyFailed {
			t.Errorf("killed, %v: %s %s", level, r.Outcome, r.AbortReason)
		}
	}
	job := n.isolated("sleep 1000")
	dir := n.launch(t, job)
	state := follow(t, dir, isRunning)
	if err := unix.Kill(state.InitPID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	do(t, dir, Order{Command: Abort, Reason: "user_request"})
	if r := n.result(t, dir); r.Outcome != Aborted || r.AbortReason != "user_request" {
		t.Errorf("stopped: %s %s", r.Outcome, r.AbortReason)
	}
}

// killSupervisor kills the supervisor of a job and starts another.
func (n *node) killSupervisor(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := n.supervisor.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAJobOutlivesItsSupervisor(t *testing.T) {
	n := hostedNode(t)
	job := n.isolated(`for i in $(seq 2000); do echo line $i; done; while [ ! -e go ]; do sleep 0.01; done
		for i in $(seq 2001 4000); do echo line $i; done; exit 7`)
	job.RedirectStdoutToStderr = true
	dir := n.launch(t, job)
	for range 3 {
		n.killSupervisor(t, follow(t, dir, isRunning).ProxyPID)
	}
	if err := os.WriteFile(filepath.Join(dir, sandboxDir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	result := n.result(t, dir)
	if result.Outcome != Failed || result.ExitCode == nil || *result.ExitCode != 7 {
		t.Errorf("%s %v", result.Outcome, result.Error)
	}
	checkLines(t, dir, 4000)
}

func checkLines(t *testing.T, dir string, count int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(stderrOf(t, dir)), "\n")
	if len(lines) != count {
		t.Fatalf("%d lines, want %d", len(lines), count)
	}
	for i, line := range lines {
		if line != fmt.Sprintf("line %d", i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
}

func TestAJobThatEndsWithoutASupervisorIsReportedWhole(t *testing.T) {
	n := hostedNode(t)
	job := n.isolated("while [ ! -e go ]; do sleep 0.01; done; for i in $(seq 3000); do echo line $i; done; exit 3")
	job.RedirectStdoutToStderr = true
	dir := n.launch(t, job)
	state := follow(t, dir, isRunning)
	if err := unix.Kill(state.ProxyPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, sandboxDir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if !expected.Soon(func() bool {
		exit, err := jobinit.ReadExit(filepath.Join(dir, exitFile))
		return err == nil && exit != nil
	}) {
		t.Fatal("the init does not record the end")
	}
	if err := n.supervisor.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	result := n.result(t, dir)
	if result.Outcome != Failed || result.ExitCode == nil || *result.ExitCode != 3 {
		t.Errorf("%s %v", result.Outcome, result.Error)
	}
	checkLines(t, dir, 3000)
}

func TestOrdersReachAJobOfAnAdoptedSupervisor(t *testing.T) {
	n := hostedNode(t)
	job := n.isolated("trap 'echo asked; exit 143' TERM; while true; do sleep 0.01; done")
	job.Interruption.Signal, job.RedirectStdoutToStderr = "SIGTERM", true
	job.Interruption.RootProcessOnly = true
	dir := n.launch(t, job)
	n.killSupervisor(t, follow(t, dir, isRunning).ProxyPID)
	do(t, dir, Order{Command: Interrupt})
	if r := n.result(t, dir); r.Outcome != Interrupted || stderrOf(t, dir) != "asked\n" {
		t.Errorf("%s %v: %s", r.Outcome, r.Error, stderrOf(t, dir))
	}
}

func TestASupervisorKilledAtAnyMomentLosesNoJobAndRunsNoneTwice(t *testing.T) {
	n := hostedNode(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for i := range 24 {
		job := n.description("echo $WEIR_JOB_ID >> " + ran + "; echo done >&2")
		dir := n.launch(t, job)
		wanted := i % 4 // 0: as soon as there is something to be killed
		if state := follow(t, dir, func(*State) bool { wanted--; return wanted < 0 }); state != nil {
			_ = unix.Kill(state.ProxyPID, unix.SIGKILL) // it may have ended by itself
		}
		if err := n.supervisor.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := n.result(t, dir)
		text, _ := os.ReadFile(ran)
		times := strings.Count(string(text), job.JobID+"\n")
		if times > 1 || r.Outcome == Completed && (times != 1 || stderrOf(t, dir) != "done\n") {
			t.Errorf("%s: it ran %d times and wrote %q", r.Outcome, times, stderrOf(t, dir))
		}
		if r.Outcome != Completed && times > 0 {
			t.Errorf("%s %v, but it ran", r.Outcome, r.Error)
		}
	}
}

// Attack 24: a job connects to abstract sockets of the node and of other jobs. It can only if it has the node's network.
func TestAJobWithoutNetworkHasTheLoopbackDeviceAndNobodyElsesSockets(t *testing.T) {
	n := hostedNode(t)
	name := fmt.Sprintf("weir-test-%d", os.Getpid())
	listener, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	command := fmt.Sprintf(`grep -c '@%s$' /proc/net/unix; (exec 3<>/dev/tcp/127.0.0.1/%s) 2>/dev/null && echo connected || echo refused
		tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; grep -c '@weir' /proc/net/unix; true`, name, port)
	with := n.isolated(command)
	has(t, n.completed(t, with), "1\nconnected\n")
	without := n.isolated(command)
	without.Isolation.NoNetwork = true
	if got := n.completed(t, without); !strings.HasPrefix(got, "0\nrefused\nlo\n0\n") {
		t.Errorf("a job without network wrote\n%s", got)
	}
	// The loopback device works: nobody listens there, but there is a way.
	loopback := n.isolated(`(exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -q 'Connection refused' && echo up`)
	loopback.Isolation.NoNetwork = true
	has(t, n.completed(t, loopback), "up\n")
}

// Attack 24: nothing of a node listens on an abstract socket, which every job with the node's network could reach.
func TestNothingOfANodeListensOnAnAbstractSocket(t *testing.T) {
	n := hostedNode(t)
	dir := n.launch(t, n.isolated("exec sleep 1000"))
	state := follow(t, dir, isRunning)
	for _, pid := range []int{state.ProxyPID, state.InitPID} {
		if names := abstractSockets(t, pid); len(names) > 0 {
			t.Errorf("process %d has the abstract sockets %q", pid, names)
		}
	}
	do(t, dir, Order{Command: Abort, Reason: OtherReason})
	n.result(t, dir)
}

// abstractSockets are the names of a process's sockets that are in no file system.
func abstractSockets(t *testing.T, pid int) (names []string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		target, _ := os.Readlink(file) // it may be closed by now
		own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 8 && strings.HasPrefix(fields[7], "@") && own[fields[6]] {
			names = append(names, fields[7])
		}
	}
	return names
}
