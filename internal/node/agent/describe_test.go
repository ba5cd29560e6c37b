package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// describedBy returns the description that a node with these rules passes to the job's proxy.
func describedBy(t *testing.T, rules Rules, spec *nodev1.JobSpec) *jobproxy.Description {
	t.Helper()
	driver, err := cgroup.NewProcessLimits("weir-test")
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{Options: Options{Rules: rules, Driver: driver}}
	spec.Command = "true"
	d, err := a.describe(&nodeproto.Start{Identity: &nodev1.JobIdentity{JobId: "1-2-3-4"}, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	return d
}

func TestTheLimitOfProcessesIsThatOfTheCoresThatAJobHasOrdered(t *testing.T) {
	for _, k := range []struct {
		name       string
		perCore    int64
		hundredths int64
		want       int64
	}{
		{"a part of a core is a core", DefaultRules().ProcessLimit, 10, 1000},
		{"no core is one too", DefaultRules().ProcessLimit, 0, 1000},
		{"one core", DefaultRules().ProcessLimit, 1_00, 1000},
		{"begun cores count", DefaultRules().ProcessLimit, 1_01, 2000},
		{"the node's own limit", 50, 4_00, 200},
		{"never more than the kernel counts", 1_000_000, 64_00, cgroup.MaxProcesses},
		{"however many cores there are", 1_000_000, 1 << 62, cgroup.MaxProcesses},
	} {
		rules := DefaultRules()
		rules.ProcessLimit = k.perCore
		spec := &nodev1.JobSpec{CpuLimit: k.hundredths}
		if k.hundredths > 1<<30 { // no description has that much
			if got := rules.processLimit(k.hundredths); got != k.want {
				t.Errorf("%s: %d, want %d", k.name, got, k.want)
			}
			continue
		}
		if got := describedBy(t, rules, spec).Container.ProcessLimit; got != k.want {
			t.Errorf("%s: %d, want %d", k.name, got, k.want)
		}
	}
}

func TestFilesOfTheNodeNeedItsOperatorsPermission(t *testing.T) {
	a := &Agent{Options: Options{Files: []string{"/opt/data", "/srv"}}}
	for path, want := range map[string]string{
		"/opt/data/x": "/opt/data", "/opt/data/a/b": "/opt/data", "/srv": "/srv", "/etc/shadow": "", "/opt/database": "", "/opt": "", "/opt/data/../x": "", "opt/data/x": "",
	} {
		if got := a.allowing(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	spec := &nodev1.JobSpec{Command: "true", Files: []*nodev1.File{{Path: "x", Source: &nodev1.File_NodePath{NodePath: "/etc/shadow"}}}}
	driver, err := cgroup.NewProcessLimits("weir-test")
	if err != nil {
		t.Fatal(err)
	}
	a.Driver = driver
	_, err = a.describe(&nodeproto.Start{Identity: &nodev1.JobIdentity{JobId: "1"}, Spec: spec})
	if !errors.Is(err, jobproxy.ErrInvalid) || !strings.Contains(err.Error(), "node/files/allow") || !strings.Contains(err.Error(), "--file") {
		t.Errorf("got %v, want a refusal that names the setting and --file", err)
	}
}

func TestAProxyIsToldWhatTheKernelIsToPrefer(t *testing.T) {
	rules := DefaultRules()
	if got := describedBy(t, rules, &nodev1.JobSpec{}).Memory.OOMScoreAdj; got != 0 {
		t.Errorf("%d though nobody wants it", got)
	}
	rules.OOMScoreAdj = 700
	if got := describedBy(t, rules, &nodev1.JobSpec{}).Memory.OOMScoreAdj; got != 700 {
		t.Errorf("%d, want 700", got)
	}
}

func TestWhereTheLimitIsNotCheckedNeitherProxyNorKernelHoldsIt(t *testing.T) {
	rules := DefaultRules()
	spec := &nodev1.JobSpec{MemoryLimit: 1 << 30}
	if d := describedBy(t, rules, spec); d.Memory.Limit != 1<<30 || d.Container.MemoryLimit != 1<<30+rules.KernelLimit {
		t.Errorf("limits %d and %d", d.Memory.Limit, d.Container.MemoryLimit)
	}
	rules.IgnoreLimit = true
	if d := describedBy(t, rules, spec); d.Memory.Limit != 0 || d.Container.MemoryLimit != 0 {
		t.Errorf("limits %d and %d, though nobody checks", d.Memory.Limit, d.Container.MemoryLimit)
	}
}
