package server

import (
	"encoding/json"
	"strings"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
)

// jobSpec returns what a node needs in order to run the jobs of a task.
func jobSpec(spec *operation.Spec, task int, record *Operation) *nodev1.JobSpec {
	t := &spec.Tasks[task].Value
	out := &nodev1.JobSpec{
		Command:                       t.Command.Value(),
		MemoryLimit:                   t.MemoryLimit.Value(),
		CpuLimit:                      t.CPULimit.Value(),
		GpuLimit:                      t.GPULimit.Value(),
		CpuMonitor:                    cpuMonitor(&spec.CPUMonitor),
		Interruption:                  &nodev1.Interruption{Signal: t.InterruptionSignal.Value(), RootProcessOnly: t.SignalRootProcessOnly.Value()},
		JobTimeLimitUs:                t.JobTimeLimit.Value().Microseconds(),
		PrepareTimeLimitUs:            t.PrepareTimeLimit.Value().Microseconds(),
		MaxStderrSize:                 t.MaxStderrSize.Value(),
		RedirectStdoutToStderr:        t.RedirectStdoutToStderr.Value(),
		SetContainerCpuLimit:          t.SetContainerCPULimit.Value(),
		IncludeMemoryMappedFiles:      t.IncludeMemoryMappedFiles.Value(),
		JobProxyMemoryOvercommitLimit: t.Memory.ProxyOvercommitLimit.Value(),
		OperationType:                 record.Type,
		User:                          record.User,
		Title:                         spec.Title.Value(),
		DiskSpaceLimit:                t.Disk.Space.Value(),
		InodeLimit:                    int64(t.Disk.Inodes.Value()),
		Network:                       t.Network.Value(),
	}
	for _, v := range t.Environment {
		out.Environment = append(out.Environment, &nodev1.Variable{Name: v.Name, Value: v.Value})
	}
	for _, v := range t.TmpfsVolumes {
		out.TmpfsVolumes = append(out.TmpfsVolumes, &nodev1.TmpfsVolume{Path: v.Path, Size: v.Size})
	}
	for _, f := range t.FilePaths {
		file := jobFile(f)
		file.Copy = t.CopyFiles.Value()
		out.Files = append(out.Files, file)
	}
	if a := &t.Artifacts; len(a.Paths) > 0 {
		out.Artifacts = &nodev1.Artifacts{
			Patterns: a.Paths, OnlyCompleted: a.On.Value() == operation.ArtifactsCompleted, MaxSize: a.MaxSize.Value(), MaxCount: int64(a.MaxCount.Value()),
			OfAborted: a.Restore.Value(),
		}
	}
	if name, given := t.DockerImage.Get(); given {
		out.Image = &nodev1.JobImage{Name: name, Writable: t.WritableRootfs.Value()}
	}
	if len(t.LayerPaths) > 0 {
		out.Image = &nodev1.JobImage{Name: t.DockerImage.Value(), Writable: t.WritableRootfs.Value()}
	}
	for _, entry := range t.LayerPaths {
		f, _ := operation.ReadFile(entry) // its content was fixed when the operation started
		out.Image.Layers = append(out.Image.Layers, &nodev1.Content{Sha256: f.Sum[:], Size: f.Size})
	}
	if path, given := t.GPUCheck.Get(); given {
		out.GpuCheck = &nodev1.GpuCheck{Path: path, Args: t.GPUCheckArgs}
	}
	if !t.Kubernetes.IsNull() {
		out.Extra = kubernetesExtra(t.Kubernetes)
	}
	if code, given := t.RestartExitCode.Get(); given {
		restart := int32(code)
		out.RestartExitCode = &restart
	}
	return out
}

// kubernetesExtra passes the section of a task on to the driver. One that cannot be written, such as one with a number that
// JSON does not have, becomes a text that the driver cannot read: it fails the job with it.
func kubernetesExtra(section document.Value) []byte {
	data, err := json.Marshal(map[string]any{"kubernetes": section})
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

func cpuMonitor(c *operation.CPUMonitor) *nodev1.CpuMonitorOptions {
	return &nodev1.CpuMonitorOptions{
		EnableCpuReclaim:      c.EnableReclaim.Value(),
		CheckPeriodUs:         c.CheckPeriod.Value().Microseconds(),
		StartDelayUs:          c.StartDelay.Value().Microseconds(),
		SmoothingFactor:       c.SmoothingFactor.Value(),
		RelativeUpperBound:    c.RelativeUpperBound.Value(),
		RelativeLowerBound:    c.RelativeLowerBound.Value(),
		IncreaseCoefficient:   c.IncreaseCoefficient.Value(),
		DecreaseCoefficient:   c.DecreaseCoefficient.Value(),
		VoteWindowSize:        int32(c.VoteWindowSize.Value()),
		VoteDecisionThreshold: int32(c.VoteDecisionThreshold.Value()),
		MinCpuLimit:           c.MinCPULimit.Value(),
	}
}

// jobFile returns a task's file. The specification was validated when it was read, and files of the tree were replaced by
// their contents when the operation started.
func jobFile(entry document.Value) *nodev1.File {
	f, _ := operation.ReadFile(entry)
	file := &nodev1.File{Path: f.Name, Executable: f.Executable.Value()}
	switch {
	case f.Unpack:
		// A node that does not know archives has no such file, and fails the job.
		file.Source = &nodev1.File_NodePath{NodePath: "archive:" + f.Sum.String()}
		file.Archive = &nodev1.Content{Sha256: f.Sum[:], Size: f.Size}
	case !f.Sum.IsZero():
		// A node that does not fetch contents has no such file, and fails the job.
		file.Source = &nodev1.File_NodePath{NodePath: "sha256:" + f.Sum.String()}
		file.Sha256, file.Size = f.Sum[:], f.Size
	case f.NodePath != "":
		file.Source = &nodev1.File_NodePath{NodePath: f.NodePath}
	default:
		file.Source = &nodev1.File_Content{Content: f.Content}
	}
	return file
}

// statisticsDocument encodes a job's statistics as clients see them: a tree by
// path components, with a summary in every leaf.
func statisticsDocument(list []*nodev1.Statistic) []byte {
	if len(list) == 0 {
		return nil
	}
	tree := map[string]any{}
	for _, s := range list {
		at := tree
		parts := strings.Split(s.Path, "/")
		for _, part := range parts[:len(parts)-1] {
			inner, isMap := at[part].(map[string]any)
			if !isMap {
				inner = map[string]any{}
				at[part] = inner
			}
			at = inner
		}
		at[parts[len(parts)-1]] = map[string]int64{"sum": s.Sum, "count": s.Count, "min": s.Min, "max": s.Max, "last": s.Last}
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return nil // encoding maps of numbers does not fail
	}
	return data
}
