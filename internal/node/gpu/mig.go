package gpu

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// MIG splits a GPU of NVIDIA into instances with memory and processors of their own. Each instance is a device of its own here; the whole GPU is
// not offered then. The tool names instances by index with their UUIDs in one place, and with the numbers that their files have in another.

// Lines of "nvidia-smi -L":
//
//	GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-…)
//	  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-…)
var (
	wholeLine    = regexp.MustCompile(`^GPU \d+: (.*) \(UUID: ([^)]+)\)`)
	instanceLine = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([^)]+)\)`)
)

// instance is a part of a GPU as the tool lists it.
type instance struct {
	parent  string // UUID
	index   int    // among the instances of its parent
	id      string // UUID
	profile string // such as 1g.5gb
}

// parseList reads what "nvidia-smi -L" prints.
func parseList(text []byte) (found []instance) {
	parent := ""
	for line := range strings.Lines(string(text)) {
		if whole := wholeLine.FindStringSubmatch(line); whole != nil {
			parent = whole[2]
		} else if part := instanceLine.FindStringSubmatch(line); part != nil {
			index, err := strconv.Atoi(part[2])
			if err == nil {
				found = append(found, instance{parent, index, part[3], part[1]})
			}
		}
	}
	return found
}

// described is what "nvidia-smi -q -x" says about instances.
type described struct {
	GPUs []struct {
		ID        string `xml:"uuid"`
		Instances []struct {
			Index   int `xml:"index"`
			GPU     int `xml:"gpu_instance_id"`
			Compute int `xml:"compute_instance_id"`
			Memory  struct {
				Total string `xml:"total"` // such as "4864 MiB"
			} `xml:"fb_memory_usage"`
		} `xml:"mig_devices>mig_device"`
	} `xml:"gpu"`
}

// Split replaces the GPUs that MIG has split by their instances, as a tool like nvidia-smi lists them.
func Split(ctx context.Context, whole *Inventory, tool string) (*Inventory, error) {
	return split(ctx, whole, tool, machine{"/proc/driver/nvidia", "/sys/bus/pci/devices", "/dev"})
}

func split(ctx context.Context, whole *Inventory, tool string, m machine) (*Inventory, error) {
	if _, err := os.Stat(filepath.Join(m.proc, "capabilities")); errors.Is(err, fs.ErrNotExist) || len(whole.Devices) == 0 {
		return whole, nil // the driver knows no instances
	}
	list, err := exec.CommandContext(ctx, tool, "-L").Output()
	if err != nil {
		return nil, fmt.Errorf("instances of GPUs: %s -L: %w", tool, err)
	}
	instances := parseList(list)
	if len(instances) == 0 {
		return whole, nil
	}
	text, err := exec.CommandContext(ctx, tool, "-q", "-x").Output()
	if err != nil {
		return nil, fmt.Errorf("instances of GPUs: %s -q -x: %w", tool, err)
	}
	var d described
	decoder := xml.NewDecoder(bytes.NewReader(text))
	decoder.Strict = false // it names a document type
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("instances of GPUs: %s -q -x: %w", tool, err)
	}
	parts := &Inventory{Shared: whole.Shared, Spare: whole.Spare}
	for i := range whole.Devices {
		device := &whole.Devices[i]
		before := len(parts.Devices)
		for _, part := range instances {
			if part.parent != device.ID {
				continue
			}
			made, err := d.device(device, part, m)
			if err != nil {
				return nil, fmt.Errorf("instance %s: %w", part.id, err)
			}
			parts.Devices = append(parts.Devices, made)
		}
		if len(parts.Devices) == before {
			parts.Devices = append(parts.Devices, *device)
		}
	}
	return parts, nil
}

// device describes an instance. Its files are the whole GPU's and two that open the instance.
func (d *described) device(whole *Device, part instance, m machine) (Device, error) {
	for i := range d.GPUs {
		if d.GPUs[i].ID != whole.ID {
			continue
		}
		for _, seen := range d.GPUs[i].Instances {
			if seen.Index != part.index {
				continue
			}
			made := *whole
			made.ID, made.Parent, made.Model, made.Memory = part.id, whole.ID, whole.Model+" MIG "+part.profile, mebibytes(seen.Memory.Total)
			made.Files = []File{whole.Files[0]}
			below := filepath.Join(m.proc, "capabilities", fmt.Sprintf("gpu%d", whole.Files[0].Minor), "mig", fmt.Sprintf("gi%d", seen.GPU))
			for _, name := range []string{filepath.Join(below, "access"), filepath.Join(below, fmt.Sprintf("ci%d", seen.Compute), "access")} {
				text, err := os.ReadFile(name)
				if err != nil {
					return made, err
				}
				minor, err := strconv.ParseUint(factsOf(text)["DeviceFileMinor"], 10, 20)
				if err != nil {
					return made, fmt.Errorf("%s has no DeviceFileMinor", name)
				}
				file, err := fileAt(filepath.Join(m.dev, "nvidia-caps", fmt.Sprintf("nvidia-cap%d", minor)))
				if err != nil {
					return made, err
				}
				made.Files = append(made.Files, file)
			}
			return made, nil
		}
	}
	return Device{}, errors.New("the tool lists it, and does not describe it")
}

// mebibytes reads a size like "4864 MiB"; zero if it is none.
func mebibytes(text string) int64 {
	number, _, _ := strings.Cut(text, " ")
	size, err := strconv.ParseInt(number, 10, 40)
	if err != nil {
		return 0
	}
	return size << 20
}
