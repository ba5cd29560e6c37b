package jobproxy

import (
	"cmp"
	"maps"
	"os"
	"slices"
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
	// Instances of MIG have no numbers.
	if p.level() == jobinit.Full && !slices.ContainsFunc(g.IDs, func(id string) bool { return strings.HasPrefix(id, "MIG-") }) {
		numbers := make([]string, len(g.IDs))
		for i := range numbers {
			numbers[i] = strconv.Itoa(i)
		}
		visible = strings.Join(numbers, ",")
	}
	variables := map[string]string{}
	for _, v := range g.Variables {
		variables[v.Name] = v.Value
	}
	maps.Copy(variables, map[string]string{
		"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": ids, "WEIR_GPU_DEVICES": ids,
	})
	return variables
}

// gpuMounts are the files of the machine that the job's root shows because of its GPUs.
func (p *proxy) gpuMounts() (mounts []jobinit.Bind) {
	if p.job.GPUs == nil {
		return nil
	}
	for _, m := range p.job.GPUs.Mounts {
		mounts = append(mounts, jobinit.Bind{Source: m.Source, Target: m.Target})
	}
	return mounts
}

// GPUCheckFailed is the abort reason of a job whose check of its GPUs failed.
const GPUCheckFailed = "gpu_check_failed"

// checkMark is where a failed check of the GPUs leaves its exit code, in the temporary directory of the job.
const checkMark = ".weir-gpu-check"

// script is what the shell runs: the command, after the check of the GPUs if there is one. Nobody can gain anything by
// writing the mark without a check: the user who chooses the command chooses the check as well.
func (p *proxy) script() string {
	if len(p.job.GPUCheck) == 0 {
		return p.job.Command
	}
	quoted := make([]string, len(p.job.GPUCheck))
	for i, word := range p.job.GPUCheck {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ") + ` </dev/null >&2 || { code=$?; echo $code >"$TMPDIR/` + checkMark + `"; exit $code; }` + "\n" + p.job.Command
}

// failedCheck returns how the job ends if the check of its GPUs failed, otherwise nil.
func (p *proxy) failedCheck() *ending {
	if len(p.job.GPUCheck) == 0 || p.sandbox == nil {
		return nil
	}
	root, err := os.OpenRoot(p.sandbox.temporary) // the job may have put a link there
	if err != nil {
		return nil
	}
	defer root.Close()
	code, err := root.ReadFile(checkMark)
	if err != nil || len(code) > 8 {
		return nil
	}
	return &ending{Aborted, GPUCheckFailed, newError(CodeNotPrepared, "the check of the GPUs failed: "+p.job.GPUCheck[0]+" ended with "+strings.TrimSpace(string(code)))}
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
	if g == nil || !p.driver.LimitsDevices() || p.usesRuntime() { // a runtime needs more itself, and limits its container
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
