package treefile

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The integral-guarantees document: a burst guarantee is, for example, 2000 cores
// for two hours a day. That is a flow of a twelfth of it.
func TestTwoThousandCoresForTwoHoursADay(t *testing.T) {
	file := mustRead(t, `
cluster: {total: {cpu: 2400, memory: 2400GiB, user_slots: 2400}}
pools:
  peak: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 166.68}, burst_guarantee_resources: {cpu: 2000}}}
  other: {weight: 1000000}
operations:
  - {name: report, pool: peak, demand: {cpu: 2000, memory: 2000GiB, user_slots: 2000}, active: 22h-24h every 24h}
  - {name: rest, pool: other, demand: {cpu: 9000, memory: 9000GiB, user_slots: 9000}}
`)
	span := Span{For: 72 * time.Hour, Step: time.Hour, Period: 10 * time.Second}
	for _, sample := range History(file, span, []int32{file.mustSlot(t, "peak")})[0].Samples[1:] {
		want := 0.0
		if (sample.At-1)%(24*time.Hour) >= 22*time.Hour {
			want = 2000
		}
		// The speed falls in the last minutes of a peak; what is saved in 22 hours
		// and flows in during two lasts exactly two hours.
		near(t, fmt.Sprintf("average cpu of the hour before %v", sample.At), sample.Mean.Integral[cpu]*2400, want, 60)
	}
}

// forbid_immediate_operations applies to the pool itself, not to its subpools. The
// tree's forbid_immediate_operations_in_root forbids operations in the root.
func TestForbiddenPoolsTakeNoOperationsOfTheirOwn(t *testing.T) {
	const text = `
cluster: {total: {cpu: 100}}
tree: {forbid_immediate_operations_in_root: %v}
pools: {closed: {forbid_immediate_operations: %v, pools: {open: {}}}}
operations: [{name: o, pool: %s, demand: {cpu: 1}}]
`
	for _, test := range []struct {
		inRoot, inPool bool
		pool           string
		refused        bool
	}{
		{true, true, "closed", true},
		{true, true, "open", false},
		{true, false, "closed", false},
		{true, false, "<Root>", true},
		{false, false, "<Root>", false},
	} {
		_, _, err := Read("", fmt.Appendf(nil, text, test.inRoot, test.inPool, test.pool))
		if (err != nil) != test.refused {
			t.Errorf("%+v: %v", test, err)
		}
		if err != nil && !strings.Contains(err.Error(), "operations cannot be started in "+test.pool+" itself") {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// An operation's demand is the sum of its jobs' needs, resource by resource.
func TestDemandIsTheSumOfTheJobs(t *testing.T) {
	file := mustRead(t, `
cluster: {total: {cpu: 100, gpu: 10, memory: 1TiB, user_slots: 100}}
pools: {a: {}}
operations: [{name: o, pool: a, job_count: 7, running_job_count: 3, job_resources: {cpu: 1.5, gpu: 1, memory: 4GiB}}]
`)
	o := file.Tree.Elements[file.mustSlot(t, "o")]
	if got, want := o.Demand.String(), "user_slots=7, cpu=10.5, gpu=7, memory=28GiB"; got != want {
		t.Errorf("demand %s, want %s", got, want)
	}
	if got, want := o.Usage.String(), "user_slots=3, cpu=4.5, gpu=3, memory=12GiB"; got != want {
		t.Errorf("usage %s, want %s", got, want)
	}
}
