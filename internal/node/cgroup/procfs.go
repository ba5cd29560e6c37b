package cgroup

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a line of /proc/PID/stat.
type process struct {
	pid, parent, session int
	state                byte
	user, system         time.Duration // of the process and of its children that ended
	ownUser, ownSystem   time.Duration // of the process alone
	start                uint64        // ticks after boot
}

func (p process) id() processID { return processID{p.pid, p.start} }

const tick = 10 * time.Millisecond // USER_HZ is 100 for every program

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseProcess(pid, text)
}

// TimesOf returns the CPU time of a process without its children.
func TimesOf(pid int) (user, system time.Duration, err error) {
	p, err := readProcess(pid)
	return p.ownUser, p.ownSystem, err
}

var errBadStat = errors.New("line of /proc/PID/stat: fields are missing")

// parseProcess parses the fields after the program's name, which may contain blanks and brackets.
func parseProcess(pid int, text []byte) (process, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 20 || len(fields[0]) == 0 {
		return process{}, errBadStat
	}
	number := func(field int) uint64 { // numbered as in proc(5)
		value, err := strconv.ParseUint(string(fields[field-3]), 10, 63)
		if err != nil {
			return 0 // some are negative; none that matter
		}
		return value
	}
	return process{
		pid: pid, parent: int(number(4)), session: int(number(6)), state: fields[0][0],
		user:    time.Duration(number(14)+number(16)) * tick,
		system:  time.Duration(number(15)+number(17)) * tick,
		ownUser: time.Duration(number(14)) * tick, ownSystem: time.Duration(number(15)) * tick,
		start: number(22),
	}, nil
}

// allProcesses returns the processes of the machine by id, and whether some ended during the scan: these might have had
// children that it has not seen.
func allProcesses() (all []process, someEnded bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		if err != nil {
			someEnded = true
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	return all, someEnded, nil
}

// environmentOf returns a variable of a process's initial environment, empty if reading it is not permitted. known is
// false for a process between two programs: during exec it has neither environment nor arguments.
func environmentOf(p process, variable string) (value string, known bool) {
	if p.state == 'Z' || p.pid == kernelThreads || p.parent == kernelThreads {
		return "", true
	}
	dir := "/proc/" + strconv.Itoa(p.pid)
	var text []byte
	for range 3 { // it might exec one program after another
		var err error
		if text, err = os.ReadFile(dir + "/environ"); err != nil {
			return "", errors.Is(err, fs.ErrPermission) // otherwise it has just ended
		}
		if len(text) > 0 {
			break
		}
		arguments, err := os.ReadFile(dir + "/cmdline")
		if err != nil || len(arguments) == 0 {
			return "", false
		}
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(variable+"=")); ok {
			return string(value), true
		}
	}
	return "", true
}

// kernelThreads is the parent of the kernel's threads, which have neither environment nor arguments.
const kernelThreads = 2

// memoryOf returns the memory of a process, with pages shared with others counted in proportion if the kernel reports
// it.
func memoryOf(pid int) (anonymous, mapped, shared int64) {
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(dir + "/smaps_rollup")
	if err == nil {
		return kilobytes(text, "Pss_Anon:"), kilobytes(text, "Pss_File:"), kilobytes(text, "Pss_Shmem:")
	}
	text, err = os.ReadFile(dir + "/status")
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return 0, 0, 0
	}
	return kilobytes(text, "RssAnon:"), kilobytes(text, "RssFile:"), kilobytes(text, "RssShmem:")
}

func kilobytes(text []byte, key string) int64 {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(key)); ok {
			number, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(string(value)), "kB")), 10, 53)
			return number << 10
		}
	}
	return 0
}

// ProcessInfo describes one process for people.
type ProcessInfo struct {
	PID     int    `json:"pid"`
	Command string `json:"cmdline"`
	RSS     int64  `json:"rss"`    // resident bytes
	Shared  int64  `json:"shared"` // those of them that other processes may share
}

// longestCommand bounds what a process can put into an error.
const longestCommand = 300

// LargestProcesses describes the processes with the most resident memory, the largest first, at most count.
func LargestProcesses(pids []int, count int) []ProcessInfo {
	var infos []ProcessInfo
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		pages, err := os.ReadFile(dir + "/statm")
		if err != nil {
			continue
		}
		info := ProcessInfo{PID: pid}
		if fields := strings.Fields(string(pages)); len(fields) > 2 {
			resident, _ := strconv.ParseInt(fields[1], 10, 40)
			shared, _ := strconv.ParseInt(fields[2], 10, 40)
			info.RSS, info.Shared = resident*int64(unix.Getpagesize()), shared*int64(unix.Getpagesize())
		}
		command, _ := os.ReadFile(dir + "/cmdline")
		if len(command) == 0 {
			command, _ = os.ReadFile(dir + "/comm")
		}
		command = bytes.TrimSpace(bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte{' '}))
		info.Command = strings.ToValidUTF8(string(command[:min(len(command), longestCommand)]), "?")
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b ProcessInfo) int {
		return cmp.Or(cmp.Compare(b.RSS, a.RSS), cmp.Compare(a.PID, b.PID))
	})
	return infos[:min(len(infos), count)]
}
