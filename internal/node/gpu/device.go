package gpu

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is one GPU.
type Device struct {
	ID     string // unique in the cluster, such as GPU-6b1a…
	Model  string
	Memory int64 // bytes; zero if not known
	// Socket is the NUMA node that the device is attached to; negative if not known.
	Socket int
	Files  []File
	// Parent is the id of the device that this one is a part of; empty if it is a whole one. Readings are the parent's.
	Parent string
	// Mounts and Variables are what jobs with the device need besides its files.
	Mounts    []Mount
	Variables []Variable
}

// Mount shows a file or directory of the machine in a job, read-only.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Variable is a variable of the environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Reported is the id under which readings report the device.
func (d *Device) Reported() string { return cmp.Or(d.Parent, d.ID) }

// File is a device file of a job.
type File struct {
	Path   string `json:"path"` // in the job, and on the machine unless Source is set
	Source string `json:"source,omitempty"`
	Major  uint32 `json:"major"`
	Minor  uint32 `json:"minor"`
}

// Inventory is what a node has. Jobs count its devices from zero, in this order.
type Inventory struct {
	Devices []Device
	// Shared are files that every job with a GPU needs.
	Shared []File
	// Spare are the files of devices that no job gets.
	Spare []File
}

// First returns an inventory of the first devices only. No job gets the others.
func (i *Inventory) First(count int) *Inventory {
	first := &Inventory{Devices: i.Devices[:count], Shared: i.Shared, Spare: i.Spare}
	for _, device := range i.Devices[count:] {
		first.Spare = append(first.Spare, device.Files...)
	}
	return first
}

// machine is where the driver and the kernel describe devices.
type machine struct{ proc, sys, dev string }

// Detect finds the GPUs that the driver of NVIDIA has on this machine, in the order of their buses. A machine without
// the driver has none.
func Detect() (*Inventory, error) {
	return detect(machine{"/proc/driver/nvidia", "/sys/bus/pci/devices", "/dev"})
}

// sharedNames are the files beside those of the devices; not every machine has all of them.
var sharedNames = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

func detect(m machine) (*Inventory, error) {
	buses, err := os.ReadDir(filepath.Join(m.proc, "gpus")) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return &Inventory{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("GPUs of this machine: %w", err)
	}
	found := &Inventory{}
	for _, bus := range buses {
		text, err := os.ReadFile(filepath.Join(m.proc, "gpus", bus.Name(), "information"))
		if err != nil {
			return nil, fmt.Errorf("GPU at %s: %w", bus.Name(), err)
		}
		facts := factsOf(text)
		minor, err := strconv.ParseUint(facts["Device Minor"], 10, 20)
		if err != nil || facts["GPU UUID"] == "" {
			return nil, fmt.Errorf("GPU at %s: its information has no UUID or device minor", bus.Name())
		}
		file, err := fileAt(filepath.Join(m.dev, "nvidia"+strconv.FormatUint(minor, 10)))
		if err != nil {
			return nil, fmt.Errorf("GPU at %s: %w", bus.Name(), err)
		}
		found.Devices = append(found.Devices, Device{
			ID: facts["GPU UUID"], Model: facts["Model"], Socket: socketOf(filepath.Join(m.sys, bus.Name())), Files: []File{file},
		})
	}
	for _, name := range sharedNames {
		file, err := fileAt(filepath.Join(m.dev, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("GPUs of this machine: %w", err)
		}
		found.Shared = append(found.Shared, file)
	}
	return found, nil
}

// factsOf reads lines like "GPU UUID: 	 GPU-6b1a…".
func factsOf(text []byte) map[string]string {
	facts := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), ":"); found {
			facts[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return facts
}

func socketOf(device string) int {
	text, err := os.ReadFile(filepath.Join(device, "numa_node"))
	if err != nil {
		return -1
	}
	socket, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return socket
}

// fileAt describes a device file of the machine.
func fileAt(path string) (File, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return File{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return File{}, fmt.Errorf("%s is no character device", path)
	}
	return File{Path: path, Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}, nil
}

// line is what a command of the administrator prints for one device.
type line struct {
	ID      string   `json:"id"`
	Devices []string `json:"devices"`
	Shared  []string `json:"shared"`
	Model   string   `json:"model"`
	Memory  int64    `json:"memory"`
	Socket  *int     `json:"numa_node"`
}

// Ask runs a command that prints a line of JSON for each device:
//
//	{"id": "card-0", "devices": ["/dev/accel0"], "shared": ["/dev/accelctl"], "model": "X1", "memory": 34359738368, "numa_node": 0}
//
// Only id and devices are required.
func Ask(ctx context.Context, command string) (*Inventory, error) {
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", command).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) && len(failed.Stderr) > 0 {
			return nil, fmt.Errorf("%w: %s", err, firstLine(failed.Stderr))
		}
		return nil, err
	}
	return parseLines(out)
}

func firstLine(text []byte) string {
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return first[:min(len(first), 200)]
}

func parseLines(out []byte) (*Inventory, error) {
	found := &Inventory{}
	seen := map[string]bool{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.DisallowUnknownFields()
	for decoder.More() {
		var l line
		if err := decoder.Decode(&l); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(found.Devices)+1, err)
		}
		if l.ID == "" || len(l.Devices) == 0 {
			return nil, fmt.Errorf("line %d: a device needs id and devices", len(found.Devices)+1)
		}
		if seen[l.ID] {
			return nil, fmt.Errorf("line %d: there is another device %s", len(found.Devices)+1, l.ID)
		}
		seen[l.ID] = true
		device := Device{ID: l.ID, Model: l.Model, Memory: l.Memory, Socket: -1}
		if l.Socket != nil {
			device.Socket = *l.Socket
		}
		for _, path := range l.Devices {
			file, err := fileAt(path)
			if err != nil {
				return nil, fmt.Errorf("device %s: %w", l.ID, err)
			}
			device.Files = append(device.Files, file)
		}
		found.Devices = append(found.Devices, device)
		for _, path := range l.Shared {
			if slices.ContainsFunc(found.Shared, func(f File) bool { return f.Path == path }) {
				continue
			}
			file, err := fileAt(path)
			if err != nil {
				return nil, fmt.Errorf("device %s: %w", l.ID, err)
			}
			found.Shared = append(found.Shared, file)
		}
	}
	return found, nil
}

// Fake makes devices for tests: each is /dev/null under the name of a GPU, half of them on each of two sockets.
func Fake(count int) *Inventory {
	null := func(path string) File { return File{Path: path, Source: "/dev/null", Major: 1, Minor: 3} }
	fakes := &Inventory{Shared: []File{null("/dev/nvidiactl")}}
	for i := range count {
		fakes.Devices = append(fakes.Devices, Device{
			ID: "GPU-fake-" + strconv.Itoa(i), Model: "fake", Memory: 16 << 30, Socket: 2 * i / count,
			Files: []File{null("/dev/nvidia" + strconv.Itoa(i))},
		})
	}
	return fakes
}
