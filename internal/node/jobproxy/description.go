package jobproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/gpu"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/cpumonitor"
)

// DescriptionVersion is the version of job.json that this program writes and reads.
const DescriptionVersion = 1

// Description is everything that a proxy needs to run its job.
type Description struct {
	Version     int    `json:"version"`
	JobID       string `json:"job_id"`
	OperationID string `json:"operation_id"`
	TaskName    string `json:"task_name,omitempty"`
	Tree        string `json:"tree,omitempty"`
	Node        string `json:"node,omitempty"`         // its address, for the job's environment
	Index       int64  `json:"job_index"`              // among the jobs of the operation
	TaskIndex   int64  `json:"task_job_index"`         // among the jobs of the task
	Cookie      int64  `json:"job_cookie"`             // identifies the piece of work across attempts
	Identity    []byte `json:"identity,omitempty"`     // opaque: the agent must return it to the scheduler
	AcceptedAt  Time   `json:"accepted_at,omitzero"`   // when the agent accepted the job
	KeepSandbox bool   `json:"keep_sandbox,omitempty"` // keep the working directory after the job has ended

	Command     string      `json:"command"`
	Shell       []string    `json:"shell,omitempty"` // what runs the command; unset: bash -c, or sh -c where there is no bash
	Environment []Variable  `json:"environment,omitempty"`
	Credential  *Credential `json:"credential,omitempty"` // unset: the proxy's user
	Files       []File      `json:"files,omitempty"`
	Tmpfs       []Tmpfs     `json:"tmpfs_volumes,omitempty"`
	Stdin       []byte      `json:"stdin,omitempty"`
	StdinPath   string      `json:"stdin_path,omitempty"` // a file or fifo on the node instead of Stdin

	MaxStderrSize          int64 `json:"max_stderr_size"`
	KeepStdout             bool  `json:"keep_stdout,omitempty"`
	MaxStdoutSize          int64 `json:"max_stdout_size,omitempty"`
	RedirectStdoutToStderr bool  `json:"redirect_stdout_to_stderr,omitempty"`

	// Isolation sets how the job is kept apart from the machine and from other jobs. Unset: control groups only.
	Isolation *Isolation `json:"isolation,omitempty"`

	// Image is what the job's root is made of. Unset: the machine's programs.
	Image *Image `json:"image,omitempty"`

	// Artifacts are the files that the agent keeps when the job has ended; KeepSandbox is then set. Unset: none.
	Artifacts *Artifacts `json:"artifacts,omitempty"`
	// Restored is a directory with the files of an earlier attempt and those that the agent has unpacked, which becomes the sandbox. It must be on the file system of the
	// job's directory. Empty: the sandbox is new.
	Restored string `json:"restored,omitempty"`

	// Disk is what its files may take; they are measured every few seconds, unless Project is set.
	Disk Disk `json:"disk,omitzero"`
	// Project is the number under which the file system counts and limits its files; zero if it does not.
	Project uint32 `json:"project,omitempty"`
	// DiskRequest is how much disk space it asked for; zero if it asked for none.
	DiskRequest int64 `json:"disk_request,omitempty"`
	// GPUs are those of the job. Unset: the node has none.
	GPUs *GPUs `json:"gpus,omitempty"`
	// GPUCheck is a program with arguments that must succeed before the command starts.
	GPUCheck []string `json:"gpu_check,omitempty"`

	Container Container `json:"container"`
	Memory    Memory    `json:"memory"`
	CPULimit  float64   `json:"cpu_limit"` // cores
	// SetContainerCPULimit enforces CPULimit even if cores are idle.
	SetContainerCPULimit bool                `json:"set_container_cpu_limit,omitempty"`
	CPUMonitor           *cpumonitor.Options `json:"job_cpu_monitor,omitempty"` // unset: no monitor

	TimeLimit        Duration     `json:"job_time_limit,omitzero"`
	PrepareTimeLimit Duration     `json:"prepare_time_limit,omitzero"`
	Interruption     Interruption `json:"interruption,omitzero"`
	RestartExitCode  *int         `json:"restart_exit_code,omitempty"`
}

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Credential is the user that the command runs as.
type Credential struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// File is put into the sandbox before the command starts: literal bytes, or a copy of a file on the node.
type File struct {
	Path       string `json:"path"`
	Executable bool   `json:"executable,omitempty"`
	Content    []byte `json:"content,omitempty"`
	Source     string `json:"source,omitempty"`
	// Root is a directory of the node that Source must not lead out of, by links or otherwise; empty if Source may be
	// any file.
	Root string `json:"root,omitempty"`
	// SHA256 and Size name a content of the node's cache, which Source is the file of.
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"`
	// Bind shows Source itself, read-only, where that is possible. Otherwise the job gets a copy.
	Bind bool `json:"bind,omitempty"`
}

// Artifacts are the files of a sandbox that are kept.
type Artifacts struct {
	Patterns      []string `json:"patterns"`
	OnlyCompleted bool     `json:"only_completed,omitempty"`
	MaxSize       int64    `json:"max_size,omitempty"`
	MaxCount      int64    `json:"max_count,omitempty"`
	OfAborted     bool     `json:"of_aborted,omitempty"` // those of aborted jobs too
}

// SandboxOf returns the working directory of a job, which is there as long as the job runs, and afterwards with KeepSandbox.
func SandboxOf(dir string) string { return filepath.Join(dir, sandboxDir) }

// Tmpfs is an in-memory file system. Path is relative to the sandbox; "." is the whole sandbox.
type Tmpfs struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// GPUs are the devices that a job may use, and those that it may not.
type GPUs struct {
	IDs    []string   `json:"ids"`              // in the order in which the job counts them
	Files  []gpu.File `json:"files,omitempty"`  // of these devices
	Others []gpu.File `json:"others,omitempty"` // of the node's other devices
	// Mounts are files of the machine that the job's root shows, with the isolation level full; Variables are added to its environment.
	Mounts    []gpu.Mount    `json:"mounts,omitempty"`
	Variables []gpu.Variable `json:"variables,omitempty"`
}

// check returns what is wrong with the devices: files of a job must be below /dev.
func (g *GPUs) check() (problems []error) {
	for i, f := range g.Files {
		if !strings.HasPrefix(f.Path, "/dev/") || filepath.Clean(f.Path) != f.Path {
			problems = append(problems, fmt.Errorf("gpus/files/%d: %q is no clean path below /dev", i, f.Path))
		}
	}
	return problems
}

// Isolation is what a job sees of its machine.
type Isolation struct {
	Level        jobinit.Level `json:"level"`
	ReadOnly     []string      `json:"readonly_paths,omitempty"` // shown besides programs and libraries
	Writable     []string      `json:"writable_paths,omitempty"`
	Hide         []string      `json:"hide,omitempty"`
	SharedMemory int64         `json:"shared_memory"` // the size of /dev/shm
	AllowPtrace  bool          `json:"allow_ptrace,omitempty"`
	NoNetwork    bool          `json:"no_network,omitempty"` // the job has the loopback device only
}

// Image is a container image that has been unpacked on the node.
type Image struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Layers are directories relative to Directory, the uppermost first. The first has what is mounted on.
	Directory string   `json:"directory"`
	Layers    []string `json:"layers"`
	// Writable lets the job change its root. The changes end with the job.
	Writable    bool     `json:"writable,omitempty"`
	Environment []string `json:"environment,omitempty"` // NAME=VALUE
	WorkingDir  string   `json:"working_directory,omitempty"`
	// Files are files of the node that the root shows, read-only, in place of the image's.
	Files []ImageFile `json:"files,omitempty"`
	Shell string      `json:"shell"`
	// Runtime is the path of an OCI runtime that makes the job's container. Empty: the job's init does.
	Runtime string `json:"runtime,omitempty"`
	// Preparation is how long the node took to have the image ready.
	Preparation Duration `json:"preparation,omitzero"`
}

// ImageFile is a file of the node that a root shows at a path, which its first layer must have.
type ImageFile struct {
	Source string `json:"source"`
	Path   string `json:"path"`
}

// check returns what is wrong with an image.
func (i *Image) check(isolation *Isolation) (problems []error) {
	if isolation == nil || isolation.Level != jobinit.Full {
		problems = append(problems, errors.New("image: needs the isolation level full"))
	}
	if !filepath.IsAbs(i.Directory) || len(i.Layers) < 2 {
		problems = append(problems, errors.New("image: needs an absolute directory and layers"))
	}
	for n, path := range i.Layers {
		if !filepath.IsLocal(path) || strings.ContainsAny(path, ":,\\") {
			problems = append(problems, fmt.Errorf("image/layers/%d: %q is not inside the directory", n, path))
		}
	}
	for n, f := range i.Files {
		if !filepath.IsAbs(f.Source) || !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path {
			problems = append(problems, fmt.Errorf("image/files/%d: %q and %q must be clean absolute paths", n, f.Source, f.Path))
		}
	}
	if !filepath.IsAbs(i.Shell) || i.WorkingDir != "" && !filepath.IsAbs(i.WorkingDir) {
		problems = append(problems, errors.New("image: the shell and the working directory must be absolute paths"))
	}
	return problems
}

// check returns what is wrong with an isolation.
func (i *Isolation) check() (problems []error) {
	if i.SharedMemory < 0 {
		problems = append(problems, fmt.Errorf("isolation/shared_memory: is %d, must not be negative", i.SharedMemory))
	}
	for name, paths := range map[string][]string{"readonly_paths": i.ReadOnly, "writable_paths": i.Writable, "hide": i.Hide} {
		for _, path := range paths {
			if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
				problems = append(problems, fmt.Errorf("isolation/%s: %q is no clean absolute path below the root", name, path))
			}
		}
	}
	return problems
}

// Container sets where and how the job's processes are contained.
type Container struct {
	Parent string      `json:"parent"`
	Mode   cgroup.Mode `json:"mode"`
	// MemoryLimit is the kernel's limit, zero for none. It kills a job that grows faster than the proxy samples it.
	MemoryLimit  int64 `json:"memory_limit,omitempty"`
	ProcessLimit int64 `json:"process_limit,omitempty"`
}

// Memory is what was promised to the job and what it may use. Zero limits are not enforced.
type Memory struct {
	Limit          int64    `json:"memory_limit"`
	ExcludeMapped  bool     `json:"exclude_memory_mapped_files,omitempty"`
	WatchdogPeriod Duration `json:"memory_watchdog_period,omitzero"` // 1 s
	Allocation     int64    `json:"allocation_memory"`               // what the scheduler charges: reserves and footprint
	Ahead          int64    `json:"ahead_memory_reserve"`            // how far the request is kept above the usage
	UserReserve    int64    `json:"user_job_reserve"`
	ProxyEstimate  int64    `json:"job_proxy_estimate,omitempty"`
	ProxyReserve   int64    `json:"job_proxy_reserve,omitempty"` // without footprint
	Footprint      int64    `json:"footprint,omitempty"`
	// AbortOnOverdraft aborts a job as soon as it uses more than its reserve.
	AbortOnOverdraft bool `json:"always_abort_on_memory_reserve_overdraft,omitempty"`
	// OOMScoreAdj is the oom_score_adj of the user's processes, and of the proxy, while they use more than their
	// reserves. Zero leaves it unchanged.
	OOMScoreAdj int `json:"oom_score_adj_on_exceeded_memory_reserve,omitempty"`
	// ProxyOvercommit is how far the proxy may exceed its reserve and footprint.
	ProxyOvercommit int64 `json:"job_proxy_memory_overcommit_limit,omitempty"`
}

// Interruption sets how the job is asked to end early. Without a signal it cannot be asked.
type Interruption struct {
	Signal          string `json:"signal,omitempty"`
	RootProcessOnly bool   `json:"root_process_only,omitempty"`
}

// Duration is a time.Duration with the text form "1.5s".
type Duration time.Duration

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	*d = Duration(value)
	return err
}

// Time is a point in time; the zero time is omitted.
type Time = time.Time

// DecodeDescription reads a description strictly: it rejects unknown keys and invalid values.
func DecodeDescription(text []byte) (*Description, error) {
	var head struct{ Version int }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("job description: %w", err)
	}
	if head.Version != DescriptionVersion {
		return nil, fmt.Errorf("job description: version is %d, this program reads %d", head.Version, DescriptionVersion)
	}
	d := new(Description)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(d); err != nil {
		return nil, fmt.Errorf("job description: %w", err)
	}
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("job description: %w", err)
	}
	return d, nil
}

// Validate returns everything that is wrong with a description.
func (d *Description) Validate() error {
	var problems []error
	refuse := func(path, rule string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: "+rule, append([]any{path}, args...)...))
	}
	if d.Version != DescriptionVersion {
		refuse("version", "is %d, must be %d", d.Version, DescriptionVersion)
	}
	if d.JobID == "" || strings.ContainsAny(d.JobID, "/\x00") || d.JobID[0] == '.' {
		refuse("job_id", "%q cannot name a directory", d.JobID)
	}
	if d.Command == "" {
		refuse("command", "must be given")
	}
	if strings.ContainsRune(d.Command, 0) {
		refuse("command", "must not hold a zero byte")
	}
	for i, v := range d.Environment {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.ContainsRune(v.Value, 0) {
			refuse(fmt.Sprintf("environment/%d", i), "%q is no environment variable", v.Name)
		}
	}
	if len(d.Stdin) > 0 && d.StdinPath != "" {
		refuse("stdin", "must not be given together with stdin_path")
	}
	for name, value := range map[string]int64{
		"max_stderr_size": d.MaxStderrSize, "max_stdout_size": d.MaxStdoutSize, "container/memory_limit": d.Container.MemoryLimit,
		"container/process_limit": d.Container.ProcessLimit, "memory/memory_limit": d.Memory.Limit, "memory/allocation_memory": d.Memory.Allocation,
		"memory/ahead_memory_reserve": d.Memory.Ahead, "memory/user_job_reserve": d.Memory.UserReserve, "job_time_limit": int64(d.TimeLimit),
		"memory/job_proxy_reserve": d.Memory.ProxyReserve, "memory/memory_watchdog_period": int64(d.Memory.WatchdogPeriod),
		"prepare_time_limit": int64(d.PrepareTimeLimit), "disk/space": d.Disk.Space, "disk/files": d.Disk.Files,
	} {
		if value < 0 {
			refuse(name, "is %d, must not be negative", value)
		}
	}
	if score := d.Memory.OOMScoreAdj; score != 0 && (score <= cgroup.StartOOMScore || score > cgroup.MaxOOMScore) {
		refuse("memory/oom_score_adj_on_exceeded_memory_reserve", "is %d, must be above %d, which every job has, and at most %d",
			score, cgroup.StartOOMScore, cgroup.MaxOOMScore)
	}
	if !(d.CPULimit >= 0 && d.CPULimit < 1e6) {
		refuse("cpu_limit", "is %v, must be a number of cores", d.CPULimit)
	}
	if d.CPUMonitor != nil {
		if err := d.CPUMonitor.Validate(); err != nil {
			refuse("job_cpu_monitor", "%w", err)
		}
	}
	if name := d.Interruption.Signal; name != "" && signalNumber(name) == 0 {
		refuse("interruption/signal", "%q is no signal", name)
	}
	problems = append(problems, d.checkSandbox()...)
	if d.Isolation != nil {
		problems = append(problems, d.Isolation.check()...)
	}
	if d.Image != nil {
		problems = append(problems, d.Image.check(d.Isolation)...)
	}
	for _, word := range d.GPUCheck {
		if strings.ContainsRune(word, 0) {
			refuse("gpu_check", "must not hold a zero byte")
		}
	}
	if d.GPUs != nil {
		problems = append(problems, d.GPUs.check()...)
	}
	return errors.Join(sorted(problems)...)
}

// checkSandbox checks that every path is inside the sandbox and that tmpfs volumes do not overlap.
func (d *Description) checkSandbox() (problems []error) {
	for i, f := range d.Files {
		if !filepath.IsLocal(f.Path) || filepath.Clean(f.Path) == "." {
			problems = append(problems, fmt.Errorf("files/%d/path: %q is not inside the sandbox", i, f.Path))
		}
		if len(f.Content) > 0 && f.Source != "" {
			problems = append(problems, fmt.Errorf("files/%d: content and source exclude each other", i))
		}
	}
	for i, v := range d.Tmpfs {
		if !filepath.IsLocal(v.Path) {
			problems = append(problems, fmt.Errorf("tmpfs_volumes/%d/path: %q is not inside the sandbox", i, v.Path))
		}
		if v.Size <= 0 {
			problems = append(problems, fmt.Errorf("tmpfs_volumes/%d/size: is %d, must be above zero", i, v.Size))
		}
		for j, other := range d.Tmpfs[:i] {
			if within(v.Path, other.Path) || within(other.Path, v.Path) {
				problems = append(problems, fmt.Errorf("tmpfs_volumes/%d/path: %q and %q of volume %d are not apart", i, v.Path, other.Path, j))
			}
		}
	}
	return problems
}

// within reports whether a path equals parent or is below it.
func within(path, parent string) bool {
	relative, err := filepath.Rel(parent, path)
	return err == nil && filepath.IsLocal(relative)
}

// signalNumber returns the signal with a name, with or without "SIG"; zero if there is none.
func signalNumber(name string) syscall.Signal {
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return unix.SignalNum(name)
}

// signalName is "SIGTERM" or, for a signal without a name, its number.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprint(int(s))
}
