package app

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/cgroup"
)

func TestControlGroupsOfAnotherKindThanTheSettingsWantAreRefused(t *testing.T) {
	group := fmt.Sprintf("weir-test-mode-%d", os.Getpid())
	found, err := cgroup.Detect(group)
	if err != nil {
		t.Skipf("SKIPPED: no control groups here: %v", err)
	}
	if err := found.Close(); err != nil {
		t.Error(err)
	}
	for _, mode := range []string{"auto", "v1", "v2"} {
		loaded, _, err := config.Load(config.Sources{File: "node.yaml", Data: fmt.Appendf(nil, "node: {name: n, schedulers: [h:7070], cgroup: {mode: %s, parent: %s}}", mode, group)})
		if err != nil {
			t.Fatal(err)
		}
		driver, _, err := openCgroup(&loaded.Config.Node.Cgroup, "jobs", slog.New(slog.DiscardHandler))
		if isMode(found.Mode(), mode) {
			if err != nil {
				t.Errorf("%s is refused: %v", mode, err)
			} else if err := driver.Close(); err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "cgroup/mode is "+mode) {
			t.Errorf("%s on a machine with %s: %v", mode, found.Mode(), err)
		}
	}
}
