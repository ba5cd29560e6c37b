package server

import (
	"fmt"
	"testing"

	"github.com/weirhq/weir/internal/control/store"
)

func TestJobsOfAnAbortedOperationAreArchivedWithIt(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	id := s.start(fmt.Sprintf(small, "p", 3))
	s.eventually("three jobs run", func() bool { m.beat(s); return len(m.jobs) == 3 })
	if err := s.AbortOperation(t.Context(), tester, OperationKey{ID: id}, "no longer needed"); err != nil {
		t.Fatal(err)
	}
	s.eventually("nothing runs", func() bool { m.beat(s); return len(m.jobs) == 0 })
	row, err := s.Store().OperationByID(t.Context(), id.String())
	if err != nil || row.State != "aborted" {
		t.Fatalf("%+v, %v", row, err)
	}
	jobs, err := s.Store().Jobs(t.Context(), store.JobFilter{Operation: row.Number})
	if err != nil || jobs.States["aborted"] != 3 || jobs.Jobs[0].AbortReason != "operation_aborted" {
		t.Errorf("%+v, %v", jobs, err)
	}
	if !s.Leading() {
		t.Error("the server lost its lead")
	}
	s.stop()
}
