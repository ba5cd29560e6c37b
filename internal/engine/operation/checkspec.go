package operation

import (
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Rules for whole specifications. Rules for single options are in package
// document.
const (
	RuleBoundOrder document.Rule = "bound_order" // a lower bound above an upper one
	// RuleTwoRoots is layer_paths beside docker_image, or with too many layers.
	RuleTwoRoots document.Rule = "two_roots"
	// RuleNothingToRestore is restore_artifacts where no attempt leaves files for the next one.
	RuleNothingToRestore document.Rule = "nothing_to_restore"
	RuleDiskTwice        document.Rule = "disk_twice"        // disk_request together with its older names
	RuleTmpfsTwice       document.Rule = "tmpfs_twice"       // tmpfs_volumes together with tmpfs_path and tmpfs_size
	RuleTmpfsPath        document.Rule = "tmpfs_path"        // outside the sandbox, or inside another volume
	RuleTmpfsOverMemory  document.Rule = "tmpfs_over_memory" // more than memory_limit
	RuleTooManyTasks     document.Rule = "too_many_tasks"
	RuleTooManyJobs      document.Rule = "too_many_jobs"
	RuleCannotStart      document.Rule = "cannot_start"    // the kernel would refuse to start the command
	RuleTotalTooLarge    document.Rule = "total_too_large" // jobs that together need more than can be counted
	RuleGangRestart      document.Rule = "gang_restart"    // restart_completed_jobs in a gang
	RuleIneffective      document.Rule = "ineffective"     // the value has no effect because of another one; a warning
	RuleNotMutable       document.Rule = "not_mutable"     // an option that cannot be changed at run time
	RuleExternal         document.Rule = "external"        // an external operation that no driver starts, or options that it cannot have
)

// refuseOption reports a problem with an option of the map that the reader is
// in.
func refuseOption[T any](r *document.Reader, t *document.Table[T], v document.Value, name string,
	rule document.Rule, message string, facts ...document.Entry,
) {
	at := v.Position()
	if e, ok := t.Find(v, name); ok {
		at = e.At
	}
	r.Enter(name)
	r.Refuse(at, rule, message, facts...)
	r.Leave()
}

// warnOption is refuseOption for warnings.
func warnOption[T any](r *document.Reader, t *document.Table[T], v document.Value, name string, rule document.Rule, message string) {
	at := v.Position()
	if e, ok := t.Find(v, name); ok {
		at = e.At
	}
	r.Enter(name)
	r.Warn(at, rule, message)
	r.Leave()
}

// checkSpec applies the rules between options. Options in wrong have already
// been rejected.
func checkSpec(r *document.Reader, v document.Value, spec *Spec, wrong []string, options ReadOptions) {
	if e, ok := specTable.Find(v, "job_cpu_monitor"); ok && !slices.Contains(wrong, "job_cpu_monitor") {
		r.Enter(e.Key)
		spec.CPUMonitor.check(r, e.Value)
		r.Leave()
	}
	checkMemory(r, specTable, v, &spec.Memory)
	if v.Kind() != document.MapKind && !v.IsNull() {
		return
	}
	if spec.IsExternal() {
		checkExternal(r, v, spec, options)
		options.CommandOptional = true
	}
	tasks, ok := specTable.Find(v, "tasks")
	if !ok && spec.IsExternal() {
		return
	}
	if !ok || tasks.Value.IsNull() || tasks.Value.Kind() == document.MapKind && len(tasks.Value.Entries()) == 0 {
		refuseOption(r, specTable, v, "tasks", document.RuleMissing, "an operation has at least one task")
		return
	}
	r.Enter("tasks")
	entries := tasks.Value.Entries()
	most := MaxTaskCount
	if spec.IsExternal() {
		most = MaxExternalTasks
	}
	if len(entries) > most {
		r.Refuse(tasks.At, RuleTooManyTasks, fmt.Sprintf("there are %d tasks; the limit is %d", len(entries), most))
	}
	var good []*Task
	for i, e := range entries {
		var t *Task
		if len(spec.Tasks) == len(entries) {
			t = &spec.Tasks[i].Value
		} else { // one of them was rejected, so none was kept
			t = readAgain(e.Value)
		}
		r.Enter(e.Key)
		checkTask(r, e, t, spec, options)
		r.Leave()
		if t != nil {
			good = append(good, t)
		}
	}
	checkTotals(r, tasks, good)
	r.Leave()
}

// checkExternal rejects an external operation that no driver starts, and options that
// concern jobs which the scheduler retries.
func checkExternal(r *document.Reader, v document.Value, spec *Spec, options ReadOptions) {
	if !options.External {
		refuseOption(r, specTable, v, "external", RuleExternal, "only drivers of the scheduler start external operations")
	}
	for _, o := range []struct {
		name string
		set  bool
	}{
		{"is_gang", spec.IsGang.Value()}, {"fail_on_job_restart", spec.FailOnJobRestart.Value()},
		{"suspend_on_job_failure", spec.SuspendOnJobFailure.Value()}, {"ban_nodes_with_failed_jobs", spec.BanNodesWithFailedJobs.Value()},
		{"time_limit", spec.TimeLimit.IsSet()},
	} {
		if o.set {
			refuseOption(r, specTable, v, o.name, RuleExternal, "the owner of the jobs retries them, not the scheduler")
		}
	}
}

// readAgain returns the task, or nil if it has a problem. The problem has
// already been reported.
func readAgain(v document.Value) *Task {
	r := document.NewReader("")
	r.KeepUnknown = true
	t := &Task{}
	if wrong := taskTable.Read(r, v, t); len(wrong) > 0 {
		return nil
	}
	return t
}

// checkTask applies the rules between the options of a task; t is nil when
// one of them was rejected.
func checkTask(r *document.Reader, e document.Entry, t *Task, spec *Spec, options ReadOptions) {
	if e.Key == "" {
		r.Refuse(e.At, document.RuleBadFormat, "a task must have a name")
	}
	if e.Value.Kind() != document.MapKind && !e.Value.IsNull() {
		return
	}
	for _, name := range []string{"job_count", "command"} {
		if _, given := taskTable.Find(e.Value, name); !given && !(name == "command" && options.CommandOptional) {
			r.Enter(name)
			r.Refuse(e.At, document.RuleMissing, "must be given for every task")
			r.Leave()
		}
	}
	if t == nil {
		return
	}
	checkCommand(r, e.Value, t)
	checkMemory(r, taskTable, e.Value, &t.Memory)
	checkTmpfs(r, e.Value, t)
	checkDisk(r, e.Value, t)
	checkNetwork(r, e.Value, t)
	checkArtifacts(r, e.Value, t, spec)
	checkLayers(r, e.Value, t)
	if spec.IsGang.Value() && t.RestartCompletedJobs.Value() {
		refuseOption(r, taskTable, e.Value, "restart_completed_jobs", RuleGangRestart,
			"jobs of a gang end together, so that single ones cannot be restarted")
	}
	if t.RestartExitCode.IsSet() && !t.InterruptionSignal.IsSet() {
		warnOption(r, taskTable, e.Value, "restart_exit_code", RuleIneffective,
			"jobs without interruption_signal are never interrupted, so the code has no effect")
	}
}

// Limits of Linux on starting a program: one argument or variable with its
// terminating zero, and all of them together, minus a part for the variables
// that the node adds.
const (
	maxArgument  = 128<<10 - 1
	maxArguments = 1 << 20
	maxPath      = 2048 // the kernel allows 4096, including the sandbox's path
)

// checkCommand rejects a command and variables with which no process can
// start: such a job would fail on every node.
func checkCommand(r *document.Reader, v document.Value, t *Task) {
	refuse := func(name, message string, size int) {
		refuseOption(r, taskTable, v, name, RuleCannotStart, message, document.Pair("size", document.Int(int64(size))))
	}
	command := t.Command.Value()
	switch {
	case strings.ContainsRune(command, 0):
		refuse("command", "has a zero byte, which no argument of a process can have", len(command))
	case len(command) > maxArgument:
		refuse("command", fmt.Sprintf("has %d bytes; a process can be started with at most %d in one argument", len(command), maxArgument), len(command))
	}
	total := len(command)
	for _, variable := range t.Environment {
		name, size := "environment", len(variable.Name)+len("=")+len(variable.Value)
		total += size
		switch {
		case strings.ContainsRune(variable.Value, 0):
			refuse(name, fmt.Sprintf("variable %q has a zero byte, which no variable of a process can have", document.Shorten(variable.Name)), size)
		case size > maxArgument:
			refuse(name, fmt.Sprintf("variable %q has %d bytes with its name; a process can be started with at most %d in one variable",
				document.Shorten(variable.Name), size, maxArgument), size)
		}
	}
	if total > maxArguments {
		refuse("environment", fmt.Sprintf("command and variables have %d bytes together; a process can be started with at most %d", total, maxArguments), total)
	}
}

func checkMemory[T any](r *document.Reader, table *document.Table[T], v document.Value, m *MemoryOptions) {
	if e, ok := table.Find(v, "job_proxy_memory_digest"); ok {
		r.Enter(e.Key)
		m.ProxyDigest.check(r, e.Value)
		r.Leave()
	}
	if !m.ReserveFactor.IsSet() || m.IgnoreFactorBelowOne.Value() && m.ReserveFactor.Value() != 1 {
		return
	}
	for _, name := range []string{"user_job_memory_digest_default_value", "user_job_memory_digest_lower_bound"} {
		if _, given := table.Find(v, name); given {
			warnOption(r, table, v, name, RuleIneffective, "memory_reserve_factor sets it too and wins")
		}
	}
}

// checkDisk merges the older names of disk_request into it.
func checkDisk(r *document.Reader, v document.Value, t *Task) {
	if t.diskSpace.IsSet() && t.Disk.Space.IsSet() {
		refuseOption(r, taskTable, v, "disk_space_limit", RuleDiskTwice, "cannot be combined with disk_request/disk_space, which says the same")
	}
	if t.inodeLimit.IsSet() && t.Disk.Inodes.IsSet() {
		refuseOption(r, taskTable, v, "inode_limit", RuleDiskTwice, "cannot be combined with disk_request/inode_count, which says the same")
	}
	t.Disk.Space, t.Disk.Inodes = t.Disk.Space.OrElse(t.diskSpace), t.Disk.Inodes.OrElse(t.inodeLimit)
}

// checkNetwork turns an amount under network into network_limit.
func checkNetwork(r *document.Reader, v document.Value, t *Task) {
	amount, err := strconv.ParseInt(t.Network.Value(), 10, 64)
	if err != nil {
		return // a word, or nothing
	}
	if t.NetworkLimit.IsSet() {
		refuseOption(r, taskTable, v, "network", document.RuleTwoNames, "cannot be an amount together with network_limit, which says the same")
	}
	t.Network, t.NetworkLimit = opt[string]{}, document.Some(amount)
}

func checkTmpfs(r *document.Reader, v document.Value, t *Task) {
	const volumes = "tmpfs_volumes"
	limit := t.MemoryLimit.Or(512 << 20)
	list, option := t.TmpfsVolumes, volumes
	switch {
	case len(list) > 0 && (t.tmpfsPath.IsSet() || t.tmpfsSize.IsSet()):
		refuseOption(r, taskTable, v, volumes, RuleTmpfsTwice, "cannot be combined with tmpfs_path and tmpfs_size, which define one such volume")
		return
	case t.tmpfsSize.IsSet() && !t.tmpfsPath.IsSet():
		refuseOption(r, taskTable, v, "tmpfs_size", document.RuleMissing, "needs tmpfs_path")
		return
	case t.tmpfsPath.IsSet():
		option = "tmpfs_path"
		list = []TmpfsVolume{{Path: t.tmpfsPath.Value(), Size: t.tmpfsSize.Or(limit)}}
	}
	var total int64
	for i, volume := range list {
		if volume.Path == "" || volume.Size == 0 {
			refuseOption(r, taskTable, v, option, document.RuleMissing, "every volume needs path and size")
			return
		}
		total = min(total, resource.Unlimited) + volume.Size
		if !isInside(volume.Path) {
			refuseOption(r, taskTable, v, option, RuleTmpfsPath, fmt.Sprintf("%q must be a path inside the sandbox", document.Shorten(volume.Path)))
			continue
		}
		for _, other := range list[:i] {
			if contains(volume.Path, other.Path) || contains(other.Path, volume.Path) {
				refuseOption(r, taskTable, v, option, RuleTmpfsPath, fmt.Sprintf("%q and %q are one inside the other",
					document.Shorten(other.Path), document.Shorten(volume.Path)))
			}
		}
	}
	if total > limit {
		refuseOption(r, taskTable, v, option, RuleTmpfsOverMemory,
			fmt.Sprintf("tmpfs takes %s, more than memory_limit, %s", resource.FormatExact(resource.Memory, total), resource.FormatExact(resource.Memory, limit)),
			document.Pair("tmpfs_size", document.Int(total)), document.Pair("memory_limit", document.Int(limit)))
	}
}

// isInside reports whether a path can be a file in the directory it is
// relative to.
func isInside(p string) bool {
	return len(p) < maxPath && !strings.ContainsRune(p, 0) && !strings.HasPrefix(p, "/") && !slices.Contains(strings.Split(p, "/"), "..")
}

// contains reports whether inner is outer or inside it.
func contains(outer, inner string) bool {
	outer, inner = path.Clean(outer), path.Clean(inner)
	return outer == "." || outer == inner || strings.HasPrefix(inner, outer+"/")
}

// maxTotal bounds what all jobs may need together. It leaves room for
// reserves that are larger than limits.
const maxTotal = resource.Unlimited / 8

// checkTotals ensures that sums over all jobs are exact.
func checkTotals(r *document.Reader, at document.Entry, tasks []*Task) {
	total := 0
	for _, t := range tasks {
		total += t.JobCount
	}
	if total > MaxJobCount {
		r.Refuse(at.At, RuleTooManyJobs, fmt.Sprintf("the tasks have %d jobs together; the limit is %d", total, MaxJobCount),
			document.Pair("job_count", document.Int(int64(total))), document.Pair("limit", document.Int(MaxJobCount)))
		return
	}
	var sums resource.Amounts
	for _, t := range tasks {
		job := resource.Amounts{
			resource.CPU: t.CPULimit.Value(), resource.GPU: t.GPULimit.Value(),
			resource.Memory: t.MemoryLimit.Value(), resource.Network: t.NetworkLimit.Value(),
		}
		for k := range job {
			high, low := bits.Mul64(uint64(job[k]), uint64(t.JobCount))
			if high > 0 || low > uint64(maxTotal) {
				low = uint64(maxTotal)
			}
			sums[k] = min(sums[k]+int64(low), maxTotal)
		}
	}
	for _, k := range resource.Kinds {
		if sums[k] >= maxTotal {
			r.Refuse(at.At, RuleTotalTooLarge, fmt.Sprintf("all jobs together need more %v than can be counted", k),
				document.Pair("resource", document.Text(k.String())))
		}
	}
}
