package cgroup

import "testing"

// opens prints which of two devices can be opened: writing to /dev/full fails with another error than permission.
const opens = `for d in /dev/zero /dev/full; do if (: <$d) 2>/dev/null; then echo $d opens; else echo $d is closed; fi; done`

func TestAContainerOpensOnlyTheDevicesThatItMay(t *testing.T) {
	d := kernel(t)
	if !d.LimitsDevices() {
		t.Skip("NO DEVICES CONTROLLER HERE: files alone decide")
	}
	zero, full, null := Device{1, 5}, Device{1, 7}, Device{1, 3}
	for _, test := range []struct {
		name       string
		devices    *Devices
		zero, full string
	}{
		{"no rules", nil, "opens", "opens"},
		{"all but one", &Devices{Except: []Device{full}}, "opens", "is closed"},
		{"only some", &Devices{Only: []Device{null, full}}, "is closed", "opens"},
		{"only some, but one", &Devices{Only: []Device{null, zero, full}, Except: []Device{zero}}, "is closed", "opens"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := create(t, d, "devices", Limits{CPU: CPU{Guarantee: 1}, Devices: test.devices})
			if err := c.SetCPU(CPU{Guarantee: 2}); err != nil { // other changes keep the rules
				t.Fatal(err)
			}
			r := startCommand(t, d, c, "/bin/sh", "-c", opens)
			r.expect(t, "/dev/zero "+test.zero)
			r.expect(t, "/dev/full "+test.full)
			r.end(t)
		})
	}
}
