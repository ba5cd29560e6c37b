package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Jobs of 64 user ids, many times as many as there are ids (2,000 with WEIR_LONG), in the supervisor of a node. Each finds an empty sandbox and
// nothing of an earlier job in /tmp and /dev/shm, leaves something there, and meets no living job with its id.
func TestManyJobsShareFewUserIDsAndNothingElse(t *testing.T) {
	const first, last = 1_900_000_200, 1_900_000_263
	jobs := 200
	if os.Getenv("WEIR_LONG") != "" {
		jobs = 2000
	}
	directory, shared, group := t.TempDir(), sharedDirectory(t), newGroup()
	needMachine(t)
	isolation := fmt.Sprintf("{level: full, run_as: job, uids: %d-%d, writable_paths: [%s], share_writable_paths: true}", first, last, shared)
	u := startUpAs(t, nil, programs.weir, isolation, directory, group, "--data-dir", filepath.Join(directory, "data"), "--resources", "cpu=8,memory=8GiB,user_slots=64")
	// A directory that exists is of a living job with the same id: mkdir is atomic. Jobs that wait a moment make many live at once.
	command := `id=$(id -u); mkdir ` + shared + `/$id || exit 3
		[ -z "$(ls -A .)$(ls -A /dev/shm)" ] && ! ls -A /tmp | grep -q left || exit 4
		[ $(stat -c %u .) = $id ] || exit 5
		touch left /dev/shm/left && (cd /tmp && touch left) || exit 6
		[ $((YT_JOB_COOKIE % 4)) != 0 ] || sleep 0.2
		echo $id >>` + shared + `/log; rmdir ` + shared + `/$id`
	log := filepath.Join(shared, "log")
	if err := errors.Join(os.WriteFile(log, nil, 0o666), os.Chmod(log, 0o666)); err != nil {
		t.Fatal(err)
	}
	u.mustWeir("run", "-q", "-n", strconv.Itoa(jobs), "--cpu", "0.1", "--memory", "32MiB", "--", command)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(text)) {
		ran[strings.TrimSpace(line)]++
	}
	total, again := 0, 0
	for id, count := range ran {
		if number, err := strconv.Atoi(id); err != nil || number < first || number > last {
			t.Errorf("%d jobs ran as %s", count, id)
		}
		total += count
		if count > 1 {
			again++
		}
	}
	if total != jobs || again == 0 {
		t.Errorf("%d jobs ran under %d ids, %d of them used again; want %d jobs", total, len(ran), again, jobs)
	}
	t.Logf("%d jobs ran under %d user ids", total, len(ran))
	u.interrupt()
	checkNothingIsLeft(t, directory+"/data/node-1/jobs", group)
}
