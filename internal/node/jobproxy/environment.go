package jobproxy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
)

// searchPath is the PATH of a command that does not set its own.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is the command's environment. The user cannot override the variables that describe the
// job; the rest can be overridden.
func (p *proxy) environment() []string {
	sandbox, temporary := p.directories()
	variables := map[string]string{
		"PATH": searchPath, "HOME": sandbox, "TMPDIR": temporary, "LANG": "C.UTF-8",
		"USER": "weir", "LOGNAME": "weir", "SHELL": p.shell()[0],
	}
	p.job.Image.addTo(variables)
	maps.Copy(variables, p.gpuVariables())
	for _, v := range p.job.Environment {
		variables[v.Name] = v.Value
	}
	maps.Copy(variables, p.job.Variables(sandbox))
	var entries []string
	for name, value := range variables {
		entries = append(entries, name+"="+value)
	}
	entries = append(entries, cgroup.Mark(p.driver, p.job.JobID))
	slices.Sort(entries)
	return entries
}

// Variables returns the variables that describe a job to its command, whose working directory is the sandbox.
func (d *Description) Variables(sandbox string) map[string]string {
	variables := map[string]string{"YT_START_ROW_INDEX": "0"}
	for name, value := range map[string]string{
		"JOB_ID": d.JobID, "OPERATION_ID": d.OperationID, "JOB_COOKIE": strconv.FormatInt(d.Cookie, 10),
		"JOB_INDEX": strconv.FormatInt(d.Index, 10), "TASK_JOB_INDEX": strconv.FormatInt(d.TaskIndex, 10),
		"TASK_NAME": d.TaskName, "POOL_TREE": d.Tree, "NODE_ADDRESS": d.Node, "SANDBOX_PATH": sandbox,
		"CPU_LIMIT": strconv.FormatFloat(d.CPULimit, 'f', -1, 64), "MEMORY_LIMIT": strconv.FormatInt(d.Memory.Limit, 10),
	} {
		variables["YT_"+name], variables["WEIR_"+name] = value, value
	}
	for i, v := range d.Tmpfs {
		variables["WEIR_TMPFS_PATH_"+strconv.Itoa(i)] = filepath.Join(sandbox, v.Path)
	}
	return variables
}

// directories are where the command finds its working directory and its TMPDIR.
func (p *proxy) directories() (sandbox, temporary string) {
	if p.level() == jobinit.Full {
		return jobinit.SandboxPath, jobinit.TemporaryPath
	}
	return filepath.Join(p.dir, sandboxDir), filepath.Join(p.dir, temporaryDir)
}

// shell is what runs the command.
func (p *proxy) shell() []string {
	if len(p.job.Shell) > 0 {
		return p.job.Shell
	}
	if p.job.Image != nil {
		return []string{p.job.Image.Shell, "-c"}
	}
	if _, err := os.Stat("/bin/bash"); err == nil {
		return []string{"/bin/bash", "-c"}
	}
	return []string{"/bin/sh", "-c"}
}
