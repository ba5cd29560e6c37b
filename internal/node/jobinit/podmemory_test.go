package jobinit

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// group writes the files of a control group.
func group(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheMemoryOfAContainerIsReadFromItsControlGroup(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  int64
		known bool
	}{
		{map[string]string{"memory.current": "1000\n", "memory.stat": "anon 5\ninactive_file 300\n"}, 700, true},
		{map[string]string{"memory/memory.usage_in_bytes": "1000", "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 400\n"}, 600, true},
		{map[string]string{"memory.current": "1000"}, 1000, true},
		{nil, 0, false},
	} {
		m := &podMemory{root: group(t, c.files)}
		if got, known := m.usage(); got != c.want || known != c.known {
			t.Errorf("%v: %d, %v", c.files, got, known)
		}
	}
}

func TestACommandThatUsesTooMuchMemoryIsEndedAndItsProcessesAreNamed(t *testing.T) {
	root := group(t, map[string]string{"memory.current": "2000"})
	result := filepath.Join(t.TempDir(), "result")
	command := pod("--result", result, "--memory-limit", "1999", "--control-group", root, "--", "sleep", "5432")
	err := command.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 128+9 {
		t.Errorf("%v", err)
	}
	var got struct {
		Exceeded  int64 `json:"memory_exceeded_bytes"`
		Peak      int64 `json:"max_memory_bytes"`
		Processes []struct {
			Pid, Memory int64
			Command     string
		}
	}
	text, _ := os.ReadFile(result)
	if err := json.Unmarshal(text, &got); err != nil || got.Exceeded != 2000 || got.Peak < 2000 || len(got.Processes) == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	if len(text) > 4096 {
		t.Errorf("Kubernetes keeps 4096 bytes of %d", len(text))
	}
}
