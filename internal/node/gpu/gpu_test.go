package gpu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// information is what the driver of an H200 says, shortened.
const information = `Model: 		 NVIDIA H200
IRQ:   		 113
GPU UUID: 	 GPU-7f0c
Video BIOS: 	 96.00.a5.00.01
Bus Type: 	 PCIe
Bus Location: 	 0000:0a:00.0
Device Minor: 	 4
GPU Firmware: 	 550.54.15
`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDevicesAreFoundInTheFilesOfTheDriver(t *testing.T) {
	root := t.TempDir()
	m := machine{filepath.Join(root, "proc"), filepath.Join(root, "sys"), filepath.Join(root, "dev")}
	if none, err := detect(m); err != nil || len(none.Devices) != 0 {
		t.Fatalf("without a driver: %+v, %v", none, err)
	}
	write(t, filepath.Join(m.proc, "gpus", "0000:0a:00.0", "information"), information)
	second := strings.NewReplacer("GPU-7f0c", "GPU-8888", "Minor: 	 4", "Minor: 	 0").Replace(information)
	write(t, filepath.Join(m.proc, "gpus", "0000:3b:00.0", "information"), second)
	write(t, filepath.Join(m.sys, "0000:0a:00.0", "numa_node"), "1\n")
	if _, err := detect(m); err == nil || !strings.Contains(err.Error(), "nvidia4") {
		t.Fatalf("without its file: %v", err)
	}
	write(t, filepath.Join(m.dev, "readme"), "")
	for _, name := range []string{"nvidia0", "nvidia4", "nvidiactl"} {
		if err := os.Symlink("/dev/null", filepath.Join(m.dev, name)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := detect(m)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) []File { return []File{{Path: filepath.Join(m.dev, name), Major: 1, Minor: 3}} }
	want := &Inventory{
		Devices: []Device{
			{ID: "GPU-7f0c", Model: "NVIDIA H200", Socket: 1, Files: file("nvidia4")},
			{ID: "GPU-8888", Model: "NVIDIA H200", Socket: -1, Files: file("nvidia0")},
		},
		Shared: file("nvidiactl"),
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("%+v\nwant %+v", found, want)
	}
	if first := found.First(1); len(first.Devices) != 1 || !reflect.DeepEqual(first.Spare, file("nvidia0")) {
		t.Errorf("the first device alone: %+v", first)
	}
	write(t, filepath.Join(m.proc, "gpus", "0000:3b:00.0", "information"), "Model: broken\n")
	if _, err := detect(m); err == nil || !strings.Contains(err.Error(), "0000:3b:00.0") {
		t.Errorf("a device without a UUID: %v", err)
	}
}

func TestACommandListsDevices(t *testing.T) {
	found, err := Ask(t.Context(), `echo '{"id": "card-0", "devices": ["/dev/null"], "shared": ["/dev/zero"], "model": "X1", "memory": 5, "numa_node": 1}'
		echo '{"id": "card-1", "devices": ["/dev/null", "/dev/full"], "shared": ["/dev/zero"]}'`)
	null, zero, full := File{Path: "/dev/null", Major: 1, Minor: 3}, File{Path: "/dev/zero", Major: 1, Minor: 5}, File{Path: "/dev/full", Major: 1, Minor: 7}
	want := &Inventory{Devices: []Device{
		{ID: "card-0", Model: "X1", Memory: 5, Socket: 1, Files: []File{null}}, {ID: "card-1", Socket: -1, Files: []File{null, full}},
	}, Shared: []File{zero}}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
	for command, says := range map[string]string{
		`echo hello`:                                      "line 1",
		`echo '{"id": "a"}'`:                              "line 1: a device needs id and devices",
		`echo '{"id": "a", "files": []}'`:                 `unknown field "files"`,
		`echo '{"id": "a", "devices": ["/tmp"]}'`:         "/tmp is no character device",
		`echo '{"id": "a", "devices": ["/dev/nothing"]}'`: "device a: stat /dev/nothing",
		`echo '{"id": "a", "devices": ["/dev/null"]}'; echo '{"id": "a", "devices": ["/dev/null"]}'`: "line 2: there is another device a",
		`echo the bus is down >&2; exit 3`: "exit status 3: the bus is down",
	} {
		if _, err := Ask(t.Context(), command); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", command, err, says)
		}
	}
}

func TestTheToolsTablesAreRead(t *testing.T) {
	readings, err := parseReadings([]byte(`GPU-a, 37, 1024, 143771, 0, No, No
GPU-b, [N/A], 0, 143771, [N/A], [N/A], [N/A]
GPU-c, 0, 0, 143771, 2, No, No
GPU-d, 0, 0, 143771, 0, Yes, No
GPU-e, 0, 0, 143771, 0, No, Yes
`), []byte("GPU-a, 4711\nGPU-a, 4712\n"))
	if err != nil {
		t.Fatal(err)
	}
	const total = 143771 << 20
	for id, want := range map[string]Reading{
		"GPU-a": {Utilization: 37, MemoryUsed: 1 << 30, MemoryTotal: total, Processes: []int{4711, 4712}},
		"GPU-b": {Utilization: -1, MemoryTotal: total},
		"GPU-c": {MemoryTotal: total, Fault: "2 uncorrected memory errors"},
		"GPU-d": {MemoryTotal: total, Fault: "a row of its memory could not be remapped"},
		"GPU-e": {MemoryTotal: total, Fault: "a row of its memory waits to be remapped: reset the device"},
	} {
		if !reflect.DeepEqual(readings[id], want) {
			t.Errorf("%s: %+v, want %+v", id, readings[id], want)
		}
	}
	if _, err := parseReadings([]byte("No devices were found\n"), nil); err == nil {
		t.Error("a sentence is a table")
	}
}

func TestAToolThatFailsOrHangsIsAnError(t *testing.T) {
	script := filepath.Join(t.TempDir(), "tool")
	write(t, script, "#!/bin/sh\necho 'Failed to initialize NVML' >&2; exit 9\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Tool(script).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "Failed to initialize NVML") {
		t.Errorf("a tool that fails: %v", err)
	}
	write(t, script, "#!/bin/sh\nexec tail -f /dev/null\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Tool(script).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a tool that hangs: %v", err)
	}
}

// The slow twin tries every set of free devices and keeps the best by the rule of Choose.
func TestChooseFollowsItsRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := make([]Device, rapid.IntRange(0, 8).Draw(t, "devices"))
		free := make([]bool, len(devices))
		for i := range devices {
			devices[i].Socket = rapid.IntRange(-1, 2).Draw(t, "socket")
			free[i] = rapid.Bool().Draw(t, "free")
		}
		count := rapid.IntRange(0, 9).Draw(t, "count")
		chosen, ok := Choose(devices, func(i int) bool { return free[i] }, count)
		freeOn := func(socket int) (n int) {
			for i := range devices {
				if free[i] && devices[i].Socket == socket {
					n++
				}
			}
			return n
		}
		var best []int
		found := false
		for set := range 1 << len(devices) {
			var picked []int
			sockets := map[int]bool{}
			usable := true
			for i := range devices {
				if set>>i&1 == 1 {
					picked, sockets[devices[i].Socket], usable = append(picked, i), true, usable && free[i]
				}
			}
			if !usable || len(picked) != count {
				continue
			}
			// One socket before several, then the fewest free, then the lowest devices.
			key := func(set []int) []int {
				on := map[int]bool{}
				for _, i := range set {
					on[devices[i].Socket] = true
				}
				if len(on) == 1 {
					return append([]int{0, freeOn(devices[set[0]].Socket)}, set...)
				}
				return append([]int{1, 0}, set...)
			}
			if !found || slices.Compare(key(picked), key(best)) < 0 {
				best, found = picked, true
			}
		}
		if ok != found || ok && !slices.Equal(chosen, best) {
			t.Fatalf("%v, %v; want %v, %v", chosen, ok, best, found)
		}
	})
}

func TestARealDeviceIsFoundAndRead(t *testing.T) {
	found, err := Detect()
	if err != nil || len(found.Devices) == 0 {
		t.Skipf("NO GPU HERE: real ones are not tested (%v)", err)
	}
	tool, err := exec.LookPath("nvidia-smi")
	if err != nil {
		t.Skipf("NO TOOL HERE: real GPUs are not read (%v)", err)
	}
	readings, err := Tool(tool).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range found.Devices {
		reading, read := readings[device.ID]
		if !read || reading.MemoryTotal == 0 || device.Model == "" || len(device.Files) != 1 {
			t.Errorf("%+v: %+v", device, reading)
		}
		t.Logf("%+v: %+v", device, reading)
	}
}
