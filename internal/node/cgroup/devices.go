package cgroup

import (
	"github.com/opencontainers/cgroups"
	_ "github.com/opencontainers/cgroups/devices" // lets the library set the rules
	rules "github.com/opencontainers/cgroups/devices/config"
)

// Device is a character device, by its number.
type Device struct{ Major, Minor uint32 }

// Devices are the device files that processes may open, whatever the permissions of the files.
type Devices struct {
	// Only, if set, are all devices that processes may open besides terminals.
	Only []Device
	// Except are devices that they may not open.
	Except []Device
}

const (
	terminalMajor = 136 // of the terminals under /dev/pts
	useOnly       = "rw"
	everything    = "rwm"
)

// set translates the rules for the library, which applies them in order, to nothing at first.
func (d *Devices) set(r *cgroups.Resources) {
	r.SkipDevices = false
	add := func(major, minor int64, permissions rules.Permissions, allow bool) {
		r.Devices = append(r.Devices, &rules.Rule{Type: rules.CharDevice, Major: major, Minor: minor, Permissions: permissions, Allow: allow})
	}
	if d.Only == nil {
		r.Devices = append(r.Devices, &rules.Rule{Type: rules.WildcardDevice, Major: rules.Wildcard, Minor: rules.Wildcard, Permissions: everything, Allow: true})
	} else {
		add(terminalMajor, rules.Wildcard, useOnly, true)
	}
	for _, device := range d.Only {
		add(int64(device.Major), int64(device.Minor), useOnly, true)
	}
	for _, device := range d.Except {
		add(int64(device.Major), int64(device.Minor), everything, false)
	}
}
