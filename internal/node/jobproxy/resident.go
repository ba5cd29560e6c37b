package jobproxy

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// shrink frees memory that the program needed to start and does not need while idle: garbage, and pages of the
// executable, which all rooms of this program share and of which a proxy uses few. Needed pages come back from the
// page cache. Without shrink, each proxy would keep resident everything that the whole program touches when it starts.
func shrink() error {
	debug.FreeOSMemory()
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("memory of the proxy: %w", err)
	}
	defer maps.Close()
	var area mapping
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		if next, ok := parseMapping(line); ok {
			area = next
			continue
		}
		// Pages changed before they became read-only, as by a linker, are anonymous and would be lost.
		if !area.fromFile || area.writable || !strings.HasPrefix(line, "Anonymous:") || strings.TrimSpace(strings.TrimPrefix(line, "Anonymous:")) != "0 kB" {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, area.from, area.to-area.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("memory of the proxy: %w", errno)
		}
	}
	return nil
}

// mapping is the first line of an entry of smaps.
type mapping struct {
	from, to           uintptr
	writable, fromFile bool
}

// parseMapping reads a line like "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/weir".
func parseMapping(line string) (m mapping, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return m, false
	}
	if n, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to); n != 2 || err != nil || m.from >= m.to {
		return m, false
	}
	m.writable = strings.Contains(fields[1], "w")
	m.fromFile = len(fields) > 5 && strings.HasPrefix(fields[5], "/")
	return m, true
}
