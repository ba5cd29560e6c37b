package cli

import (
	"os/exec"
	"strings"
	"testing"
)

// The command lines of the five user documents, as printed there. All of them are
// in the document on integral guarantees. Readers fill in the names in angle
// brackets.
const documentedCommands = `
$ yt set //sys/pools/root-pool/burst/@integral-guarantees/resource_flow "{cpu=100}"
---
   yt set //sys/pools/root-pool/burst/@integral-guarantees "
   {
     guarantee_type=burst;
     resource_flow={cpu=1000};
     burst_guarantee_resources={cpu=2000}
   }"
---
    yt set //sys/pools/root-pool/relaxed/@integral-guarantees "
    {
      guarantee_type=relaxed;
      resource_flow={cpu=1000}
    }"
---
yt get //sys/scheduler/orchid/scheduler/pool_trees/<pool-tree>/pools/<pool>/integral_pool_capacity
`

// split splits a command line as a shell does.
func split(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `set -- `+line+`; printf '%s\0' "$@"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// Every command line of the documents works as documented on a new server that has
// only the pools it names: each alone, and all in sequence.
func TestTheCommandLinesOfTheDocumentsAsTyped(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(documentedCommands), "---")
	if len(lines) != 4 {
		t.Fatalf("%d command lines", len(lines))
	}
	b := newTestbed(t, 1)
	fresh := func() {
		t.Helper()
		b.ok("remove", "//sys/pools/root-pool", "--force", "--recursive")
		b.ok("create", "scheduler_pool", "//sys/pools/root-pool")
		for _, name := range []string{"burst", "relaxed"} {
			b.ok("create", "scheduler_pool", "//sys/pools/root-pool/"+name)
		}
	}
	type as struct{ path, is string }
	results := [][]as{
		{{"//sys/pools/root-pool/burst/@integral_guarantees", "{resource_flow={cpu=100}}"}},
		{{"//sys/pools/root-pool/burst/@integral_guarantees", "{guarantee_type=burst;resource_flow={cpu=1000};burst_guarantee_resources={cpu=2000}}"}},
		{{"//sys/pools/root-pool/relaxed/@integral_guarantees", "{guarantee_type=relaxed;resource_flow={cpu=1000}}"}},
	}
	blanks, ends := strings.NewReplacer(" ", "", "\n", "", `"`, ""), strings.NewReplacer(";}", "}")
	for _, together := range []bool{false, true} {
		fresh()
		for i, line := range lines[:3] {
			if !together {
				fresh()
			}
			args := split(t, strings.TrimPrefix(strings.TrimSpace(line), "$ "))
			b.ok(args[1:]...)
			for _, want := range results[i] {
				if got := ends.Replace(blanks.Replace(b.ok("get", want.path, "-o", "yson"))); got != want.is {
					t.Errorf("after %q %s is %s, want %s", args, want.path, got, want.is)
				}
			}
		}
	}
	for _, pool := range []string{"burst", "relaxed"} {
		line := strings.NewReplacer("<pool-tree>", "default", "<pool>", pool).Replace(strings.TrimSpace(lines[3]))
		path := split(t, line)[2]
		b.until(func() bool { code, _, _ := b.call("get", path); return code == ExitOK }, "%s is there", path)
		if got := b.ok("get", path, "-o", "json"); !strings.Contains(got, "cpu") {
			t.Errorf("%s: %s", line, got)
		}
	}
}
