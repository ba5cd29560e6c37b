package jobproxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/weirhq/weir/internal/node/gpu"
	"github.com/weirhq/weir/internal/node/jobinit"
)

// lists prints the variables of GPUs and the device files of GPUs.
const lists = `env | grep -E '^(CUDA|NVIDIA|WEIR_GPU)' | sort; echo files $(cd /dev; ls -d nvidia* 2>/dev/null); `

func TestAJobSeesItsOwnGPUsOnly(t *testing.T) {
	n := hostedNode(t)
	fakes := gpu.Fake(4)
	job := n.isolated(lists + `: </dev/nvidia2 && : </dev/nvidiactl && echo open`)
	job.GPUs = &GPUs{
		IDs:    []string{"GPU-fake-2", "GPU-fake-3"},
		Files:  append(append(fakes.Devices[2].Files, fakes.Devices[3].Files...), fakes.Shared...),
		Others: append(fakes.Devices[0].Files, fakes.Devices[1].Files...),
	}
	has(t, n.completed(t, job), "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=0,1\nNVIDIA_VISIBLE_DEVICES=GPU-fake-2,GPU-fake-3\nWEIR_GPU_DEVICES=GPU-fake-2,GPU-fake-3\n",
		"files nvidia2 nvidia3 nvidiactl\nopen\n")

	job = n.isolated(lists)
	job.GPUs = &GPUs{Others: fakes.Devices[0].Files}
	has(t, n.completed(t, job), "CUDA_VISIBLE_DEVICES=\nNVIDIA_VISIBLE_DEVICES=void\nfiles\n")
}

// What CDI files say about a device reaches the job, in the machine's root and in an image.
func TestAJobHasTheMountsAndVariablesOfItsGPUs(t *testing.T) {
	n := hostedNode(t)
	driver := t.TempDir()
	if err := os.WriteFile(filepath.Join(driver, "libcuda.so.1"), []byte("library\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fakes := gpu.Fake(1)
	gpus := &GPUs{
		IDs: []string{"MIG-1111"}, Files: append(fakes.Devices[0].Files, gpu.File{Path: "/dev/nvidia-caps/nvidia-cap21", Major: 1, Minor: 5}),
		Mounts:    []gpu.Mount{{Source: filepath.Join(driver, "libcuda.so.1"), Target: "/opt/driver/libcuda.so.1"}, {Source: driver, Target: "/opt/whole"}, {Source: "/usr/bin/env", Target: "/usr/bin/env"}},
		Variables: []gpu.Variable{{Name: "VENDOR_CARD", Value: "a"}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}},
	}
	for name, isImage := range map[string]bool{"the machine's programs": false, "an image": true} {
		job := n.isolated(`cat /opt/driver/libcuda.so.1 /opt/whole/libcuda.so.1; touch /opt/whole/x; echo $VENDOR_CARD $NVIDIA_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES; ls /dev/nvidia-caps`)
		job.GPUs = gpus
		if isImage {
			job = inImage(t, job, v1.Config{}, nil)
		}
		got := n.completed(t, job)
		t.Log(name)
		has(t, got, "library\nlibrary\n", "Read-only file system", "a MIG-1111 MIG-1111\n", "nvidia-cap21\n")
	}
}

func TestACheckOfGPUsRunsBeforeTheCommand(t *testing.T) {
	n := hostedNode(t)
	fakes := gpu.Fake(1)
	job := n.isolated("echo command $#")
	job.GPUs = &GPUs{IDs: []string{"GPU-fake-0"}, Files: append(fakes.Devices[0].Files, fakes.Shared...)}
	job.GPUCheck = []string{"/bin/sh", "-c", "echo \"check of $1\" $CUDA_VISIBLE_DEVICES; : </dev/nvidia0", "x", "it's me"}
	if got := n.completed(t, job); got != "check of it's me 0\ncommand 0\n" {
		t.Errorf("the job wrote %q", got)
	}
	for check, says := range map[string]string{
		"exit 3": "ended with 3", "exec /does/not/exist": "ended with 127", "kill -9 $$": "ended with 137",
	} {
		job := n.isolated("echo command")
		job.GPUs, job.GPUCheck = &GPUs{IDs: []string{"GPU-fake-0"}}, []string{"/bin/sh", "-c", check}
		dir := n.launch(t, job)
		result := n.result(t, dir)
		if result.Outcome != Aborted || result.AbortReason != GPUCheckFailed || !strings.Contains(result.Error.Error(), says) || strings.Contains(stderrOf(t, dir), "command\n") {
			t.Errorf("%s: %+v, %v", check, result, result.Error)
		}
	}
}

// Files of the machine stand for GPUs here: the fakes cannot be told from /dev/null.
func TestTheDevicesOfOtherJobsAreClosed(t *testing.T) {
	n := hostedNode(t)
	zero, full := gpu.File{Path: "/dev/zero", Major: 1, Minor: 5}, gpu.File{Path: "/dev/full", Major: 1, Minor: 7}
	for _, level := range []jobinit.Level{jobinit.None, jobinit.SharedFiles} {
		job := n.description(`: </dev/null && : </dev/zero && echo mine; : </dev/full || echo closed`)
		if level != jobinit.None {
			job.Isolation = &Isolation{Level: level, SharedMemory: mib}
		}
		job.GPUs = &GPUs{IDs: []string{"zero"}, Files: []gpu.File{zero}, Others: []gpu.File{full}}
		has(t, n.completed(t, job), "mine\n", "Operation not permitted", "closed\n")
	}
}

// compute uses the driver's library, which needs no toolkit. Each line has the code of an answer; zero is success.
const compute = `import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
print("init", cuda.cuInit(0))
count = ctypes.c_int()
print("devices", cuda.cuDeviceGetCount(ctypes.byref(count)), count.value)
context, memory = ctypes.c_void_p(), ctypes.c_void_p()
print("context", cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
print("memory", cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 30)))
`

// With real devices a job sees its own GPU, and a job without one sees none.
func TestJobsSeeRealGPUs(t *testing.T) {
	found, err := gpu.Detect()
	if err != nil || len(found.Devices) == 0 {
		t.Skipf("NO GPU HERE: jobs with real ones are not tested (%v)", err)
	}
	n := hostedNode(t)
	mine := found.Devices[0]
	job := n.isolated(`nvidia-smi -L; ` + lists)
	job.GPUs = &GPUs{IDs: []string{mine.ID}, Files: append(slices.Clone(mine.Files), found.Shared...)}
	for _, other := range found.Devices[1:] {
		job.GPUs.Others = append(job.GPUs.Others, other.Files...)
	}
	text := n.completed(t, job)
	has(t, text, "GPU 0:", mine.ID, "CUDA_VISIBLE_DEVICES=0\n", strings.TrimPrefix(mine.Files[0].Path, "/dev/")+" ")
	if strings.Contains(text, "GPU 1:") {
		t.Errorf("the job sees other GPUs:\n%s", text)
	}
	t.Log(text)

	// The driver lets the job compute: it makes a context and allocates memory of the device.
	if _, err := exec.LookPath("python3"); err == nil {
		computes := n.isolated("python3 compute.py")
		computes.Files = []File{{Path: "compute.py", Content: []byte(compute)}}
		computes.GPUs = job.GPUs
		has(t, n.completed(t, computes), "init 0\ndevices 0 1\ncontext 0\nmemory 0\n")
	}

	everything := append(slices.Clone(mine.Files), found.Shared...)
	for _, other := range found.Devices[1:] {
		everything = append(everything, other.Files...)
	}
	without := n.isolated(`nvidia-smi -L && echo sees; ` + lists)
	without.GPUs = &GPUs{Others: everything}
	text = n.completed(t, without)
	has(t, text, "NVIDIA_VISIBLE_DEVICES=void\nfiles\n")
	if strings.Contains(text, "sees") {
		t.Errorf("a job without GPUs sees some:\n%s", text)
	}

	// With the files of the machine in sight, the controller closes them.
	shared := n.description(`: <` + mine.Files[0].Path + ` || echo closed`)
	shared.GPUs = without.GPUs
	has(t, n.completed(t, shared), "Operation not permitted", "closed\n")
}
