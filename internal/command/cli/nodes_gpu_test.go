package cli

import (
	"testing"

	"github.com/weirhq/weir/client"
)

func TestTheIsolationOfANodeIsDescribedInALine(t *testing.T) {
	for _, test := range []struct {
		isolation client.Isolation
		want      string
	}{
		{client.Isolation{}, ""},
		{client.Isolation{Level: "full", RunAs: "job"}, "full, a user for each job"},
		{client.Isolation{Level: "full", RunAs: "user"}, "full, jobs run as the accounts of their users"},
		{client.Isolation{Level: "full", RunAs: "agent", Cause: "not_root"}, "full, jobs run as the agent's user (not_root)"},
		{client.Isolation{Level: "none", RunAs: "job", Cause: "no_namespaces", Detail: "start: operation not permitted"}, "none, a user for each job (no_namespaces: start: operation not permitted)"},
	} {
		if got := isolationText(&test.isolation); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestAGPUIsDescribedInALine(t *testing.T) {
	half := 0.5
	for _, test := range []struct {
		gpu  client.GPU
		want string
	}{
		{client.GPU{ID: "GPU-1"}, "GPU-1, free"},
		{client.GPU{ID: "GPU-1", Model: "H200", Memory: 4 << 30, MemoryInUse: 1 << 30, Utilization: &half, Job: "1-2-3-4"}, "GPU-1 (H200), 50 % busy, 1 GiB of 4 GiB in use, job 1-2-3-4"},
		{client.GPU{ID: "GPU-1", Job: "1-2-3-4", Fault: "it is missing"}, "GPU-1, gets no jobs: it is missing"},
	} {
		if got := gpuText(&test.gpu); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
