package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The integral-guarantees document: 2000 CPU twelve hours a day and 1000 CPU on
// average fit into 2000 cores, and need 3000 as strong guarantees.
func TestTheDocumentsPromisesNeedTwoThousandCores(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(example("production-research.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	strong, err := os.ReadFile(example("production-research-strong.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		text  string
		cores int
		code  int
		says  string
	}{
		{"integral on 2000", string(text), 2000, ExitOK, "fits: every promise can be kept; they need 2000 cpu"},
		{"integral on 2500", string(text), 2500, ExitOK, "fits: every promise can be kept; they need 2000 cpu"},
		{"integral on 1999", string(text), 1999, ExitFailed, "does not fit: these promises need 2000 cpu"},
		{"integral on 1900", string(text), 1900, ExitFailed, "does not fit: these promises need 2000 cpu"},
		{"strong on 2000", string(strong), 2000, ExitFailed, "does not fit: these promises need 3000 cpu"},
		{"strong on 3000", string(strong), 3000, ExitOK, "fits: every promise can be kept; they need 3000 cpu"},
	} {
		t.Run(test.name, func(t *testing.T) {
			total := fmt.Sprintf("total: {cpu: %d, memory: %dGiB, user_slots: %d}", test.cores, 4*test.cores, test.cores)
			changed := strings.Replace(test.text, "total: {cpu: 2000, memory: 8TiB, user_slots: 2000}", total, 1)
			if changed == test.text && test.cores != 2000 {
				t.Fatal("the example has changed")
			}
			code, out, errs := callWith(strings.NewReader(changed), "check", "-")
			if first, _, _ := strings.Cut(out, "\n"); code != test.code || first != test.says || errs != "" {
				t.Errorf("exit code %d, want %d; stdout:\n%s\nwant: %s\nstderr %q", code, test.code, out, test.says, errs)
			}
		})
	}
}

func TestCheckNamesTheSmallestConflict(t *testing.T) {
	t.Parallel()
	code, out, _ := callWith(strings.NewReader(`
cluster: {total: {cpu: 100, memory: 100GiB, user_slots: 100}}
pools:
  a: {min_share_resources: {cpu: 10}}
  b: {min_share_resources: {cpu: 70}}
  c: {min_share_resources: {cpu: 20}}
  d: {min_share_resources: {cpu: 60}}
`), "check", "-", "-o", "json")
	var verdict struct {
		OK       bool
		Needs    map[string]float64
		Findings []struct {
			Code     string
			Conflict []struct{ Pool string }
			Smallest bool
		}
	}
	if err := json.Unmarshal([]byte(out), &verdict); err != nil {
		t.Fatal(err)
	}
	if code != ExitFailed || verdict.OK || verdict.Needs["cpu"] != 160 || len(verdict.Findings) == 0 {
		t.Fatalf("exit code %d, %s", code, out)
	}
	found := verdict.Findings[0]
	if found.Code != "strong_over_cluster" || !found.Smallest || fmt.Sprint(found.Conflict) != "[{b} {d}]" {
		t.Errorf("found %+v", found)
	}
}

func TestWrongCallsOfCheck(t *testing.T) {
	t.Parallel()
	nodes := example("departments.yaml")
	for _, test := range []struct {
		name string
		args []string
		code int
		errs string
	}{
		{"no file", nil, ExitWrongCall, "takes one file name, got 0"},
		{"a job without an amount", []string{nodes, "--job", "cpu"}, ExitWrongCall, "--job cpu: must be a list like cpu=8,memory=64GiB"},
		{"a job of an unknown resource", []string{nodes, "--job", "cores=8"}, ExitWrongCall, `there is no resource "cores"`},
		{"a job with a resource twice", []string{nodes, "--job", "memory=1,user-memory=2"}, ExitWrongCall, "memory is given twice"},
		{"a job of a wrong amount", []string{nodes, "--job", "memory=8Gb/s"}, ExitWrongCall, `--job memory=8Gb/s: memory "8Gb/s": `},
		{"a negative job", []string{nodes, "--job", "cpu=-1"}, ExitWrongCall, "amount must not be negative"},
		{"a job without nodes to place it on", []string{example("burst.yaml"), "--job", "cpu=1"}, ExitFailed, "--job needs the cluster's nodes"},
		{"a file that is not there", []string{"nothing.yaml"}, ExitFailed, "nothing.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := call(append([]string{"check"}, test.args...)...)
			if code != test.code || out != "" || !strings.Contains(errs, test.errs) {
				t.Errorf("exit code %d, want %d; stdout %q, stderr %q; want in it %q", code, test.code, out, errs, test.errs)
			}
		})
	}
}

func TestCheckReadsVectors(t *testing.T) {
	t.Parallel()
	code, out, errs := callWith(strings.NewReader(`{"total_resources":{"cpu":100},"elements":[
		{"type":"pool","id":"child","parent":"parent","strong_guarantee_resources":{"cpu":60}},
		{"type":"pool","id":"parent","strong_guarantee_resources":{"cpu":50}},
		{"type":"operation","id":"o","parent":"child"}]}`), "check", "-")
	if code != ExitFailed || errs != "" || !strings.Contains(out, "children of pool parent are guaranteed 60 cpu, the pool itself 50 cpu") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, errs, out)
	}
}
