package cdi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/node/gpu"
)

const example = `
cdiVersion: "0.6.0"
kind: vendor.example/gpu
containerEdits:
  env: [VENDOR_DRIVER=5]
  mounts:
  - {hostPath: /opt/vendor/lib, containerPath: /opt/vendor/lib, options: [ro, nosuid, nodev, bind]}
  hooks:
  - {hookName: createContainer, path: /usr/bin/vendor-hook}
devices:
- name: "0"
  containerEdits:
    deviceNodes: [{path: /dev/vendor0, hostPath: /dev/zero, type: c, major: 1, minor: 5}]
- name: GPU-aaaa
  containerEdits:
    env: [VENDOR_CARD=a]
    deviceNodes: [{path: /dev/vendor0, hostPath: /dev/zero, type: c, major: 1, minor: 5}]
- name: GPU-bbbb
  containerEdits:
    deviceNodes: [{path: /dev/vendor1, hostPath: /dev/full, type: c, major: 1, minor: 7}]
- name: all
  containerEdits:
    deviceNodes: [{path: /dev/vendor0, type: c, major: 1, minor: 5}, {path: /dev/vendor1, type: c, major: 1, minor: 7}]
`

func write(t *testing.T, directory, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDevicesAreReadWithFilesMountsAndVariables(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "vendor.yaml", example)
	write(t, directory, "other.json", `{"cdiVersion": "0.6.0", "kind": "other.example/card", "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}}]}`)
	devices, err := Read([]string{directory, filepath.Join(directory, "absent")}, "vendor.example/gpu")
	if err != nil || len(devices) != 3 {
		t.Fatalf("%+v, %v", devices, err)
	}
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"0", "GPU-aaaa", "GPU-bbbb"}) {
		t.Errorf("%v", names)
	}
	a := devices[1]
	if !slices.Contains(a.Variables, gpu.Variable{Name: "VENDOR_CARD", Value: "a"}) || !slices.Contains(a.Variables, gpu.Variable{Name: "VENDOR_DRIVER", Value: "5"}) ||
		!slices.Equal(a.Files, []gpu.File{{Path: "/dev/vendor0", Major: 1, Minor: 5}}) || !slices.Equal(a.Mounts, []gpu.Mount{{Source: "/opt/vendor/lib", Target: "/opt/vendor/lib"}}) || a.Hooks != 1 {
		t.Errorf("%+v", a)
	}
	// Two names of one device are one device.
	inventory := Inventory(devices)
	if len(inventory.Devices) != 2 || inventory.Devices[0].ID != "GPU-aaaa" || inventory.Devices[1].ID != "GPU-bbbb" {
		t.Errorf("%+v", inventory)
	}
	// Devices that the driver found get what the files say: by id, or by number.
	known := &gpu.Inventory{Devices: []gpu.Device{
		{ID: "GPU-bbbb", Files: []gpu.File{{Path: "/dev/vendor1", Major: 1, Minor: 7}}},
		{ID: "GPU-cccc", Files: []gpu.File{{Path: "/dev/vendorX", Major: 1, Minor: 0}}},
		{ID: "GPU-dddd", Files: []gpu.File{{Path: "/dev/vendorY", Major: 1, Minor: 9}}},
	}}
	if found := Attach(known, devices); found != 2 || len(known.Devices[0].Mounts) != 1 || len(known.Devices[1].Files) != 2 || len(known.Devices[2].Mounts) != 0 {
		t.Errorf("%d found: %+v", found, known.Devices)
	}
}

func TestBrokenFilesAreNamedAndDoNotHideTheOthers(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "vendor.yaml", example)
	write(t, directory, "broken.json", `{"cdiVersion": "0.6.0", "kind":`)
	devices, err := Read([]string{directory}, "vendor.example/gpu")
	if len(devices) != 3 || err == nil || !strings.Contains(err.Error(), "broken.json") {
		t.Errorf("%d devices, %v", len(devices), err)
	}
}
