// Package cdi reads the files in which makers of devices describe what a container needs to use them: device files, mounts and variables
// (Container Device Interface). Hooks, which only a container runtime runs, are counted and left out.
package cdi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/weirhq/weir/internal/node/gpu"
)

// Device is what a container needs to use a device.
type Device struct {
	Name      string // the part after the kind: 0 or GPU-6b1a… of nvidia.com/gpu
	Files     []gpu.File
	Mounts    []gpu.Mount
	Variables []gpu.Variable
	Hooks     int // that are left out
}

// allDevices is the name under which files list all devices of a kind together.
const allDevices = "all"

// Read lists the devices of a kind, such as nvidia.com/gpu, that the files in directories describe, by name. A file that cannot be read is an error beside
// the list: it may be that of another kind.
func Read(directories []string, kind string) (devices []Device, err error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(directories...), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	broken := cache.GetErrors()
	var problems []error
	for _, path := range slices.Sorted(maps.Keys(broken)) {
		problems = append(problems, fmt.Errorf("%s: %w", path, errors.Join(broken[path]...)))
	}
	for _, whole := range cache.ListDevices() { // sorted
		name, found := strings.CutPrefix(whole, kind+"=")
		if !found || name == allDevices {
			continue
		}
		d, err := read(cache, whole, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("device %s: %w", whole, err))
			continue
		}
		devices = append(devices, d)
	}
	return devices, errors.Join(problems...)
}

// read describes one device: what the files say about it and about all devices beside it.
func read(cache *cdi.Cache, whole, name string) (Device, error) {
	d := Device{Name: name}
	spec := &oci.Spec{}
	if _, err := cache.InjectDevices(spec, whole); err != nil {
		return d, err
	}
	if spec.Process != nil {
		for _, entry := range spec.Process.Env {
			key, value, _ := strings.Cut(entry, "=")
			d.Variables = append(d.Variables, gpu.Variable{Name: key, Value: value})
		}
	}
	if spec.Linux != nil {
		for _, node := range spec.Linux.Devices {
			if node.Type != "c" || !strings.HasPrefix(node.Path, "/dev/") {
				return d, fmt.Errorf("%s is no character device below /dev", node.Path)
			}
			d.Files = append(d.Files, gpu.File{Path: node.Path, Major: uint32(node.Major), Minor: uint32(node.Minor)})
		}
	}
	for _, m := range spec.Mounts {
		d.Mounts = append(d.Mounts, gpu.Mount{Source: m.Source, Target: m.Destination})
	}
	if h := spec.Hooks; h != nil {
		d.Hooks = len(h.CreateContainer) + len(h.CreateRuntime) + len(h.StartContainer) + len(h.Poststart) + len(h.Poststop)
	}
	return d, nil
}

// Attach adds what files say to the devices of an inventory. A device is found by its id, or by its number. It returns how many were found.
func Attach(inventory *gpu.Inventory, devices []Device) (found int) {
	for i := range inventory.Devices {
		device := &inventory.Devices[i]
		at := slices.IndexFunc(devices, func(d Device) bool { return d.Name == device.ID })
		if at < 0 && device.Parent == "" && len(device.Files) > 0 {
			number := strconv.FormatUint(uint64(device.Files[0].Minor), 10)
			at = slices.IndexFunc(devices, func(d Device) bool { return d.Name == number })
		}
		if at < 0 {
			continue
		}
		found++
		for _, file := range devices[at].Files {
			if !slices.Contains(device.Files, file) && !slices.Contains(inventory.Shared, file) {
				device.Files = append(device.Files, file)
			}
		}
		device.Mounts, device.Variables = devices[at].Mounts, devices[at].Variables
	}
	return found
}

// Inventory offers the devices themselves, for makers whose devices nothing else finds. Files often list a device under several names: of those with
// the same device files the longest name counts, since it is the one that does not change.
func Inventory(devices []Device) *gpu.Inventory {
	inventory := &gpu.Inventory{}
	for _, d := range devices {
		if len(d.Files) == 0 {
			continue
		}
		at := slices.IndexFunc(inventory.Devices, func(known gpu.Device) bool { return slices.Equal(known.Files, d.Files) })
		made := gpu.Device{ID: d.Name, Socket: -1, Files: d.Files, Mounts: d.Mounts, Variables: d.Variables}
		switch {
		case at < 0:
			inventory.Devices = append(inventory.Devices, made)
		case len(d.Name) > len(inventory.Devices[at].ID):
			inventory.Devices[at] = made
		}
	}
	return inventory
}
