package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/weirhq/weir/test/fakeimage"
)

// The page shows a training in an image, with an input file and a GPU, whose log is followed, that is preempted and continues
// from its checkpoint. Its commands run as they are, but for the time that a step takes.
func TestTheTrainingOfThePageOnJobsContinuesAfterPreemption(t *testing.T) {
	page, err := os.ReadFile("../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## A training that survives preemption\n")
	if !found {
		t.Fatal("the page has no training")
	}
	// The first attempt waits for its preemption after a few steps, and the second one does not dawdle.
	const step, quickStep = "sleep 1  ", "[ $step -lt 7 ] || [ $first -gt 0 ] || sleep 1000; :"
	if strings.Count(text, step) != 1 {
		t.Fatalf("the training has %d steps to replace", strings.Count(text, step))
	}
	text = strings.Replace(text, step, quickStep, 1)

	directory, group := sharedDirectory(t), newGroup()
	needMachine(t)
	preload := filepath.Join(directory, "images")
	if err := os.Mkdir(preload, 0o755); err != nil {
		t.Fatal(err)
	}
	fakeimage.Save(t, filepath.Join(preload, "train.tar"), "team/train:v1", fakeimage.Image(t, v1.Config{}, fakeimage.Base(t)))
	u := startUpAs(t, nil, programs.weir, sharing(directory)+", gpus: {fake: 1}, images: {preload: ["+preload+"]}", directory, group,
		"--resources", "cpu=4,memory=4GiB,user_slots=4,gpu=1")
	if err := os.Symlink(programs.weir, filepath.Join(directory, "weir")); err != nil {
		t.Fatal(err)
	}
	u.mustWeir("set", "//sys/pool_trees/default/@preemptive_scheduling_backoff", "0")
	list := blocks.FindAllStringSubmatch(text, -1)
	if len(list) != 3 {
		t.Fatalf("the training has %d blocks", len(list))
	}
	var output string
	for _, block := range list {
		ctx, cancel := background()
		shell := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", block[1])
		shell.Dir = directory
		shell.Env = append(environment(), "WEIR_ADDR="+u.address, "PATH="+directory+":"+os.Getenv("PATH"))
		printed, err := shell.CombinedOutput()
		cancel()
		if output = string(printed); err != nil {
			t.Fatalf("%v\n%s%s", err, block[1], output)
		}
		for line := range strings.Lines(block[2]) {
			if !strings.Contains(output, strings.TrimSpace(line)) {
				t.Errorf("%s%s\nlacks %s", block[1], output, line)
			}
		}
	}
	first, err := os.ReadFile(filepath.Join(directory, "first.log"))
	if err != nil || !strings.Contains(string(first), "training on GPU-fake-0 with 1000 samples, from step 0\nstep 1\n") || strings.Contains(string(first), "step 8") {
		t.Errorf("the first attempt wrote %q, %v", first, err)
	}
	if !strings.Contains(output, "training on GPU-fake-0 with 1000 samples, from step 7\nstep 8\n") {
		t.Errorf("the second attempt did not continue:\n%s", output)
	}
	u.interrupt()
	checkNothingIsLeft(t, directory, group)
}
