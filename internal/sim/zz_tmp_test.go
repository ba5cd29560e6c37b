package sim_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirhq/weir/internal/core"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/sim/scheduler"
)

func TestZZ(t *testing.T) {
	data, _ := os.ReadFile(os.Getenv("ZZ"))
	s, _, err := scenario.Read("zz.yaml", data, func(n string) (io.ReadCloser, error) { return os.Open(filepath.Join("/tmp/simtrace", n)) })
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	r, err := sim.Run(context.Background(), s, scheduler.New(core.DefaultSettings()), func(p sim.Progress) {
		if p.Fraction > last+0.1 {
			last = p.Fraction
			t.Logf("%v %v ops %d jobs %d", p.Now, p.Fraction, p.Operations, p.RunningJobs)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Wall, r.Cluster.Work, r.Cluster.Waits, r.Stalled)
}
