package jobproxy

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
)

// oldInitCommand makes the test binary an init on a kernel that cannot make processes inside a control group.
const oldInitCommand = "old-init"

// becomeOldInit forbids clone3 and becomes an init. It returns the exit code if it cannot.
func becomeOldInit() int {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		fmt.Fprintln(os.Stderr, "filter:", errno)
		return 1
	}
	fmt.Fprintln(os.Stderr, syscall.Exec("/proc/self/exe", []string{"init", InitCommand}, os.Environ()))
	return 1
}

func TestACommandStartsInItsControlGroups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: control groups are not tested")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]string{"made inside": InitCommand, "moved by itself": oldInitCommand} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, cgroup.V1)
			c, err := n.driver.Create("job", cgroup.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Remove(); err != nil {
					t.Error(err)
				}
			}()
			inside := groupsOf(t, c, []string{exe, role})
			want := "/" + n.driver.Parent() + "/job"
			for _, controller := range map[cgroup.Mode][]string{
				cgroup.V1: {"cpu", "cpuacct", "memory"}, cgroup.Hybrid: {"cpu", "cpuacct", "memory", ""}, cgroup.V2: {""},
			}[n.driver.Mode()] {
				if !slices.ContainsFunc(inside, func(line string) bool {
					fields := strings.SplitN(line, ":", 3)
					return len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) && strings.HasSuffix(fields[2], want)
				}) {
					t.Errorf("the command is not in %s of controller %q: %q", want, controller, inside)
				}
			}
		})
	}
}

// groupsOf lets an init run a command in a container, and returns the groups that the kernel says it is in.
func groupsOf(t *testing.T, c cgroup.Container, init []string) []string {
	t.Helper()
	entrances, err := c.Entrances()
	if err != nil {
		t.Fatal(err)
	}
	defer entrances.Close()
	exit, err := os.Create(filepath.Join(t.TempDir(), exitFile))
	if err != nil {
		t.Fatal(err)
	}
	defer exit.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	plan := &jobinit.Plan{
		Args: []string{"/bin/cat", "/proc/self/cgroup"}, Dir: "/", Group: entrances.Group != nil, Entrances: len(entrances.Files),
	}
	started, err := jobinit.Launch(init, plan, nil, jobinit.Files{
		Exit: exit, Stdin: nothing, Stdout: write, Stderr: os.Stderr, Group: entrances.Group, Entrances: entrances.Files,
	})
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	process, err := followInit(started.PID, started.Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer process.file.Close()
	if err := started.Run(plan); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	<-process.gone
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
