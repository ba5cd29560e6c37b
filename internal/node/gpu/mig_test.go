package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const migList = `GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
  MIG 3g.20gb     Device  0: (UUID: MIG-1111)
  MIG 1g.5gb      Device  1: (UUID: MIG-2222)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
`

const migXML = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log><gpu id="1"><uuid>GPU-aaaa</uuid><mig_devices>
<mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id><fb_memory_usage><total>19968 MiB</total></fb_memory_usage></mig_device>
<mig_device><index>1</index><gpu_instance_id>9</gpu_instance_id><compute_instance_id>0</compute_instance_id><fb_memory_usage><total>4864 MiB</total></fb_memory_usage></mig_device>
</mig_devices></gpu><gpu id="2"><uuid>GPU-bbbb</uuid><mig_devices>None</mig_devices></gpu></nvidia_smi_log>
`

// migMachine has one GPU that is split in two, and a whole one. Its device files are copies of /dev/null.
func migMachine(t *testing.T) (m machine, tool string, whole *Inventory) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: device files cannot be made")
	}
	root := t.TempDir()
	m = machine{filepath.Join(root, "proc"), filepath.Join(root, "sys"), filepath.Join(root, "dev")}
	put := func(path, text string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, minor := range map[string]string{"gi2/access": "21", "gi2/ci0/access": "22", "gi9/access": "84", "gi9/ci0/access": "85"} {
		put(filepath.Join(m.proc, "capabilities/gpu0/mig", name), "DeviceFileMinor: "+minor+"\nDeviceFileMode: 292\n", 0o644)
		device := filepath.Join(m.dev, "nvidia-caps/nvidia-cap"+minor)
		if err := os.MkdirAll(filepath.Dir(device), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("NO DEVICE FILES HERE: %v", err)
		}
	}
	put(filepath.Join(root, "list"), migList, 0o644)
	put(filepath.Join(root, "xml"), migXML, 0o644)
	tool = filepath.Join(root, "nvidia-smi")
	put(tool, "#!/bin/sh\ncase $1 in -L) cat "+root+"/list;; *) cat "+root+"/xml;; esac\n", 0o755)
	whole = &Inventory{Devices: []Device{
		{ID: "GPU-aaaa", Model: "A100", Socket: 1, Files: []File{{Path: "/dev/nvidia0", Major: 195, Minor: 0}}},
		{ID: "GPU-bbbb", Model: "A100", Socket: 0, Files: []File{{Path: "/dev/nvidia1", Major: 195, Minor: 1}}},
	}}
	return m, tool, whole
}

func TestInstancesOfMIGAreDevices(t *testing.T) {
	m, tool, whole := migMachine(t)
	parts, err := split(t.Context(), whole, tool, m)
	if err != nil || len(parts.Devices) != 3 {
		t.Fatalf("%+v, %v", parts, err)
	}
	first, second, third := parts.Devices[0], parts.Devices[1], parts.Devices[2]
	if first.ID != "MIG-1111" || first.Parent != "GPU-aaaa" || first.Model != "A100 MIG 3g.20gb" || first.Memory != 19968<<20 || first.Socket != 1 || first.Reported() != "GPU-aaaa" {
		t.Errorf("%+v", first)
	}
	var files []string
	for _, f := range second.Files {
		files = append(files, filepath.Base(f.Path))
	}
	if got := strings.Join(files, " "); second.ID != "MIG-2222" || got != "nvidia0 nvidia-cap84 nvidia-cap85" {
		t.Errorf("%s has the files %s", second.ID, got)
	}
	if third.ID != "GPU-bbbb" || third.Parent != "" || len(third.Files) != 1 {
		t.Errorf("%+v", third)
	}
}

func TestWhatTheToolSaysAboutInstancesMustFit(t *testing.T) {
	m, tool, whole := migMachine(t)
	if err := os.RemoveAll(filepath.Join(m.proc, "capabilities/gpu0/mig/gi9")); err != nil {
		t.Fatal(err)
	}
	if _, err := split(t.Context(), whole, tool, m); err == nil || !strings.Contains(err.Error(), "instance MIG-2222") {
		t.Errorf("an instance without files: %v", err)
	}
	if _, err := split(t.Context(), whole, filepath.Join(m.proc, "no-tool"), m); err == nil || !strings.Contains(err.Error(), "no-tool") {
		t.Errorf("a tool that is missing: %v", err)
	}
	m.proc = filepath.Join(m.proc, "nothing")
	if parts, err := split(t.Context(), whole, "/no/tool", m); err != nil || len(parts.Devices) != 2 {
		t.Errorf("a driver without MIG: %+v, %v", parts, err)
	}
}
