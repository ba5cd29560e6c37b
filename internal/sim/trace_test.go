package sim

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/resource"
)

// replay runs a scenario; the files that it names are in this directory.
func replay(t *testing.T, directory, text string) *outcome.Result {
	t.Helper()
	s, _, err := scenario.Read("trace.yaml", []byte(text), func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(directory, name))
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestALogIsReplayedWithUsersAsPoolsOrEphemeralPools(t *testing.T) {
	const excerpt = "trace/testdata"
	pools := replay(t, excerpt, "traces: [{file: nasa-excerpt.swf}]")
	ephemeral := replay(t, excerpt, "traces: [{file: nasa-excerpt.swf, pool: all, users: ephemeral}]\npools: {all: {create_ephemeral_subpools: true}}")
	for _, r := range []*outcome.Result{pools, ephemeral} {
		if o := r.Cluster.Operations; o.Completed != 88 || o.Arrived != 88 {
			t.Errorf("%+v", o)
		}
	}
	a, b := poolNamed(t, pools, "user-4"), poolNamed(t, ephemeral, "all$user-4")
	if a.Got[resource.CPU] == 0 || a.Got != b.Got || !b.Ephemeral || b.Parent != "all" {
		t.Errorf("user 4 got %v in a pool and %v in an ephemeral one below %q", a.Got, b.Got, b.Parent)
	}
	// No job waits longer than until the next heartbeat, because the submit times of
	// this log are its start times.
	if pools.Cluster.Waits.Max > 5 {
		t.Errorf("waits %+v", pools.Cluster.Waits)
	}
}

func TestTheAlibabaTraceIsReplayed(t *testing.T) {
	r := replay(t, "trace/testdata", `
scheduler: {heartbeat_period: 1m, fair_share_update_period: 1m}
statistics: {period: 1m}
traces: [{format: alibaba_gpu_2023, file: pods-excerpt.csv, nodes_file: nodes-excerpt.csv, gpu_thousandths: true, from: 124d}]
`)
	if o := r.Cluster.Operations; o.Arrived == 0 || o.Completed != o.Arrived {
		t.Errorf("%+v", o)
	}
	if r.Cluster.Utilisation[resource.GPU] == 0 || poolNamed(t, r, "BE").Got[resource.GPU] == 0 {
		t.Errorf("no GPU was used: %v", r.Cluster.Utilisation)
	}
}

func TestFiveDaysOfTheNASALogAreReplayed(t *testing.T) {
	const directory, file = "../../../shared/traces", "NASA-iPSC-1993-3.1-cln.swf.gz"
	if _, err := os.Stat(filepath.Join(directory, file)); err != nil {
		t.Skipf("SKIPPED: the whole trace is not here: %v", err)
	}
	r := replay(t, directory, `
scheduler: {heartbeat_period: 10s, fair_share_update_period: 1m}
statistics: {period: 5m, operations: 200}
traces: [{file: `+file+`, to: 5d}]
`)
	if o := r.Cluster.Operations; o.Completed != o.Arrived || r.OperationsOmitted != int(o.Arrived)-200 {
		t.Errorf("%+v, %d omitted", o, r.OperationsOmitted)
	}
	written(t, "nasa", r)
	t.Logf("%v on the wall, utilisation %v", r.Wall, r.Cluster.Utilisation)
}
