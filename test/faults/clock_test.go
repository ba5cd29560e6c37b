//go:build linux

package faults

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// clockFile is the variable that names the file with the step of a scheduler's wall clock, for
// programs that steppable has built.
const clockFile = "WEIR_TEST_CLOCK"

// steps is added to package time: a number of seconds in a file, which the process maps.
const steps = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var stepped *int64

func init() {
	path, given := syscall.Getenv("` + clockFile + `")
	if !given {
		return
	}
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("the clock cannot be read: " + err.Error())
	}
	data, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("the clock cannot be mapped: " + err.Error())
	}
	stepped = (*int64)(unsafe.Pointer(&data[0]))
}

func wallStep() int64 {
	if stepped == nil {
		return 0
	}
	return atomic.LoadInt64(stepped)
}
`

// reading is the place in package time that reads both clocks of the machine.
const reading = "\tsec, nsec, mono := runtimeNow()\n"

// steppable builds a weir whose wall clock can be set while it runs: the same sources with
// another package time. The monotonic clock is the machine's.
var steppable = sync.OnceValues(func() (program string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(library, "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), reading) != 1 {
		return "", errors.New("package time does not read clocks as it did; change this test")
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range map[string]string{
		"time.go": strings.Replace(string(source), reading, reading+"\tsec += wallStep()\n", 1), "step.go": steps,
	} {
		path := filepath.Join(workshop, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(library, name)] = path
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(workshop, "overlay.json")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(workshop, "steppable")
	if out, err := exec.Command("go", "build", "-trimpath", "-overlay", list, "-o", program, "../../cmd/weir").CombinedOutput(); err != nil {
		return "", fmt.Errorf("a weir whose clock can be set cannot be built: %w: %s", err, out)
	}
	return program, nil
})

// setClock sets the wall clock of a scheduler so many seconds off.
func (s *scheduler) setClock(seconds int64) {
	s.t.Helper()
	file, err := os.OpenFile(s.clock, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(binary.NativeEndian.AppendUint64(nil, uint64(seconds))); err != nil {
		s.t.Fatal(err)
	}
}

// drawStep draws by how much a clock is set: seconds to an hour, either way.
func (c *campaign) drawStep() time.Duration {
	step := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour}[c.random.IntN(4)]
	step = step/2 + time.Duration(c.random.Int64N(int64(step)))
	if c.random.IntN(2) == 0 {
		return -step
	}
	return step
}

// setSchedulerClock sets the clock of a scheduler, and back.
func (c *campaign) setSchedulerClock() *fault {
	s := c.schedulers[c.random.IntN(len(c.schedulers))]
	step := c.drawStep().Round(time.Second)
	return &fault{
		what:  fmt.Sprintf("set the clock of %s by %v", s.machine.name, step),
		begin: func() { s.setClock(int64(step / time.Second)) },
		end:   func() { s.setClock(0) },
	}
}

// setDatabaseClock sets the clock of the store, and back. The end of the lease is the only time
// that the store compares with its clock, so setting that is the same.
func (c *campaign) setDatabaseClock() *fault {
	step := c.drawStep()
	return &fault{
		what:  fmt.Sprintf("set the clock of the store by %v", step),
		begin: func() { c.stepLease(-step) },
		end:   func() { c.stepLease(step) },
	}
}

// stepLease moves the end of the lease by the database's clock.
func (c *campaign) stepLease(by time.Duration) {
	c.t.Helper()
	driver, source := "pgx", c.url
	if path, isFile := strings.CutPrefix(c.url, "sqlite:"); isFile {
		driver, source = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(c.t.Context(), "UPDATE leadership SET expires = expires + $1", by.Microseconds()); err != nil {
		c.t.Fatal(err)
	}
}
