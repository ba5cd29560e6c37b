package jobinit

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// groupsPath is where a container sees its own control group.
	groupsPath = "/sys/fs/cgroup"
	// memoryPeriod is how often the memory of the container is read.
	memoryPeriod = 500 * time.Millisecond
	// largest is how many processes are named when a job exceeds its limit.
	largest = 10
)

// podMemory watches the memory of the container that a pod's command runs in.
type podMemory struct {
	root  string // of the control group
	limit int64  // above which the command is ended; zero: never

	peak     atomic.Int64
	exceeded atomic.Int64 // the use that was too much; zero if none was
	// processes were the largest then, as JSON. It is read after the command has ended.
	processes atomic.Pointer[string]
}

// usage returns the memory in use without files that could be dropped, false if the control group cannot be read.
func (m *podMemory) usage() (int64, bool) {
	for _, version := range []struct{ directory, usage, dropped string }{
		{"", "memory.current", "inactive_file"}, {"/memory", "memory.usage_in_bytes", "total_inactive_file"},
	} {
		used, err := readNumber(m.root + version.directory + "/" + version.usage)
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(m.root + version.directory + "/memory.stat") // then everything counts
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == version.dropped {
				dropped, _ := strconv.ParseInt(value, 10, 64)
				used -= dropped
			}
		}
		return max(used, 0), true
	}
	return 0, false
}

func readNumber(name string) (int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
}

// look reads the memory once, and ends the command if that is too much.
func (m *podMemory) look(pid int) {
	used, known := m.usage()
	if !known {
		return
	}
	m.peak.Store(max(m.peak.Load(), used))
	if m.limit <= 0 || used <= m.limit || m.exceeded.Load() > 0 {
		return
	}
	list := largestProcesses()
	m.processes.Store(&list)
	m.exceeded.Store(used)
	unix.Kill(-pid, unix.SIGKILL)
}

// watch looks again and again until done is closed.
func (m *podMemory) watch(pid int, done <-chan struct{}) {
	ticker := time.NewTicker(memoryPeriod)
	defer ticker.Stop()
	for {
		m.look(pid)
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
}

// largestProcesses describes the processes of the container with the most memory, as JSON.
func largestProcesses() string {
	type process struct {
		pid, memory int64
		command     string
	}
	var list []process
	entries, _ := os.ReadDir("/proc") // without it there is nothing to name
	for _, entry := range entries {
		pid, err := strconv.ParseInt(entry.Name(), 10, 64)
		if err != nil || pid == int64(os.Getpid()) {
			continue
		}
		text, _ := os.ReadFile("/proc/" + entry.Name() + "/statm") // it may be gone
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			continue
		}
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		command, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		name := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		const longest = 100
		list = append(list, process{pid, pages * int64(os.Getpagesize()), strings.ToValidUTF8(name[:min(len(name), longest)], "?")})
	}
	slices.SortFunc(list, func(a, b process) int { return cmp.Or(cmp.Compare(b.memory, a.memory), cmp.Compare(a.pid, b.pid)) })
	text := []byte("[")
	for i, p := range list[:min(len(list), largest)] {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(strconv.AppendInt(append(text, `{"pid": `...), p.pid, 10), `, "memory": `...)
		text = append(strconv.AppendInt(text, p.memory, 10), `, "command": `...)
		text = append(appendJSON(text, p.command), '}')
	}
	return string(append(text, ']'))
}
