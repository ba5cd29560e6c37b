package jobproxy

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
)

// gpuVariables tell the command which GPUs it has. A job with a root of its own sees no others, so it counts from zero;
// otherwise devices are named by their ids.
func (p *proxy) gpuVariables() map[string]string {
	g := p.job.GPUs
	switch {
	case g == nil:
		return nil
	case len(g.IDs) == 0:
		return map[string]string{"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
	}
	ids := strings.Join(g.IDs, ",")
	visible := ids
	if p.level() == jobinit.Full {
		numbers := make([]string, len(g.IDs))
		for i := range numbers {
			numbers[i] = strconv.Itoa(i)
		}
		visible = strings.Join(numbers, ",")
	}
	return map[string]string{
		"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": ids, "WEIR_GPU_DEVICES": ids,
	}
}

// gpuDevices are the device files that the init makes.
func (p *proxy) gpuDevices() (devices []jobinit.Device) {
	if p.job.GPUs == nil {
		return nil
	}
	for _, f := range p.job.GPUs.Files {
		devices = append(devices, jobinit.Device{
			Name: strings.TrimPrefix(f.Path, "/dev/"), Source: cmp.Or(f.Source, f.Path), Major: f.Major, Minor: f.Minor,
		})
	}
	return devices
}

// deviceRules keep the job from devices that are not its own, even if it finds or makes files for them. Unset: the node
// has no GPUs, or no means to do so.
func (p *proxy) deviceRules() *cgroup.Devices {
	g := p.job.GPUs
	if g == nil || !p.driver.LimitsDevices() {
		return nil
	}
	if p.level() == jobinit.Full {
		rules := &cgroup.Devices{}
		for _, d := range append(append(p.gpuDevices(), jobinit.Harmless...), jobinit.TerminalMaster) {
			rules.Only = append(rules.Only, cgroup.Device{Major: d.Major, Minor: d.Minor})
		}
		return rules
	}
	rules := &cgroup.Devices{}
	for _, f := range g.Others {
		if f.Source == "" { // a file with a source is another name of a device that jobs need
			rules.Except = append(rules.Except, cgroup.Device{Major: f.Major, Minor: f.Minor})
		}
	}
	return rules
}
