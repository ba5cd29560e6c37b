package config

import (
	"slices"
	"strings"
	"testing"
)

// effectiveOf returns a setting and its source as `weir config show` prints them.
func effectiveOf(t *testing.T, loaded *Loaded, path string) (value string, from From) {
	t.Helper()
	list := loaded.Effective(NodeSection)
	i := slices.IndexFunc(list, func(e Effective) bool { return e.Path == path })
	if i < 0 {
		t.Fatalf("%s is not shown", path)
	}
	return list[i].Value.String(), list[i].Origin.From
}

func TestOptionsThatHoldTheProcessesOfJobs(t *testing.T) {
	const score, processes = "node/oom_score_adj_on_exceeded_memory_reserve", "node/cgroup/process_limit_per_core"
	defaults := mustLoad(t, Sources{})
	if defaults.Config.Node.Memory.OOMScoreAdj.IsSet() || defaults.Config.Node.Cgroup.ProcessLimit.Value() != 1000 {
		t.Errorf("%+v, %+v", defaults.Config.Node.Memory.OOMScoreAdj, defaults.Config.Node.Cgroup.ProcessLimit)
	}
	if value, from := effectiveOf(t, defaults, score); value != "null" || from != FromDefault {
		t.Errorf("%s is %s", score, value)
	}
	if value, from := effectiveOf(t, defaults, processes); value != "1000" || from != FromDefault {
		t.Errorf("%s is %s", processes, value)
	}
	for name, sources := range map[string]Sources{
		"a file":               {File: "f", Data: []byte("node: {oom_score_adj_on_exceeded_memory_reserve: 700, cgroup: {process_limit_per_core: 50}}")},
		"a file with hyphens":  {File: "f", Data: []byte("node: {oom-score-adj-on-exceeded-memory-reserve: 700, cgroup: {process-limit-per-core: 50}}")},
		"variables":            {Environ: []string{"WEIR_NODE_OOM_SCORE_ADJ_ON_EXCEEDED_MEMORY_RESERVE=700", "WEIR_NODE_CGROUP_PROCESS_LIMIT_PER_CORE=50"}},
		"flags of the command": {Flags: []*Flags{flagsOf(t, NodeSection, "--oom-score-adj-on-exceeded-memory-reserve=700", "--cgroup-process-limit-per-core=50")}},
	} {
		loaded := mustLoad(t, sources)
		node := &loaded.Config.Node
		if node.Memory.OOMScoreAdj.Value() != 700 || node.Cgroup.ProcessLimit.Value() != 50 {
			t.Errorf("%s: %v, %v", name, node.Memory.OOMScoreAdj.Value(), node.Cgroup.ProcessLimit.Value())
		}
		if value, from := effectiveOf(t, loaded, score); value != "700" || from == FromDefault {
			t.Errorf("%s: %s is shown as %s", name, score, value)
		}
	}
}

func TestLimitsOfProcessesAndScoresThatAreRefused(t *testing.T) {
	for _, k := range []struct{ file, says string }{
		{"{oom_score_adj_on_exceeded_memory_reserve: 300}", "node/oom_score_adj_on_exceeded_memory_reserve: must be a whole number from 301 to 1000, not 300"},
		{"{oom_score_adj_on_exceeded_memory_reserve: 1001}", "node/oom_score_adj_on_exceeded_memory_reserve: must be a whole number from 301 to 1000, not 1001"},
		{"{oom_score_adj_on_exceeded_memory_reserve: -5}", "node/oom_score_adj_on_exceeded_memory_reserve: must be a whole number from 301 to 1000, not -5"},
		{"{oom_score_adj_on_exceeded_memory_reserve: high}", `node/oom_score_adj_on_exceeded_memory_reserve: must be a whole number, not "high"`},
		{"{oom_score_adj: 700}", "node/oom_score_adj: unknown option"},
		{"{cgroup: {process_limit_per_core: 9}}", "node/cgroup/process_limit_per_core: must be a whole number from 10 to 1000000, not 9"},
		{"{cgroup: {process_limit_per_core: 0}}", "node/cgroup/process_limit_per_core: must be a whole number from 10 to 1000000, not 0"},
		{"{cgroup: {process_limit_per_core: 1000001}}", "node/cgroup/process_limit_per_core: must be a whole number from 10 to 1000000, not 1000001"},
		{"{cgroup: {process_limit_per_core: 1.5}}", "node/cgroup/process_limit_per_core: must be a whole number, not 1.5"},
		{"{cgroup: {process_limit_per_cor: 100}}", `did you mean "process_limit_per_core"?`},
	} {
		_, _, err := Load(Sources{File: "f", Data: []byte("node: " + k.file)})
		if err == nil || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s: says %v\nwant %s", k.file, err, k.says)
		}
	}
}
