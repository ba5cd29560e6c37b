package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var blocks = regexp.MustCompile("(?s)```bash\n(.*?)```\n(?:```output\n(.*?)```)?")

// The page is for users: the commands that it shows must work.
func TestTheCommandsOfThePageOnMemoryAndCPUWork(t *testing.T) {
	page, err := os.ReadFile("../../docs/memory-and-cpu.md")
	if err != nil {
		t.Fatal(err)
	}
	directory, group := sharedDirectory(t), newGroup()
	u := startUp(t, directory, group, "--resources", "cpu=8,memory=8GiB,user_slots=8")
	if err := os.Symlink(programs.weir, filepath.Join(directory, "weir")); err != nil {
		t.Fatal(err)
	}
	found := blocks.FindAllStringSubmatch(string(page), -1)
	if len(found) < 3 {
		t.Fatalf("the page has %d blocks", len(found))
	}
	for _, block := range found {
		script, wants := block[1], block[2]
		ctx, cancel := background()
		shell := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script)
		shell.Env = append(environment(), "WEIR_ADDR="+u.address, "PATH="+directory+":"+os.Getenv("PATH"))
		output, err := shell.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%v\n%s%s", err, script, output)
		}
		for line := range strings.Lines(wants) {
			if !strings.Contains(string(output), strings.TrimSpace(line)) {
				t.Errorf("%s%s\nlacks %s", script, output, line)
			}
		}
		if strings.Contains(script, "*learns") && !learnt.Match(output) {
			t.Errorf("reserves were not learnt:\n%s", output)
		}
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}

// learnt matches a reserve of the last jobs that is little more than the 30 MB they use.
var learnt = regexp.MustCompile(`"min" = 3[0-9]{7};`)
