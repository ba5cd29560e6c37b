package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
)

// configured loads settings of GPUs, and of the resource gpu, from the environment.
func configured(t *testing.T, settings ...string) *config.Config {
	t.Helper()
	var environ []string
	for _, setting := range settings {
		if name, _, _ := strings.Cut(setting, "="); name == "gpu" {
			environ = append(environ, "WEIR_NODE_RESOURCES="+setting)
		} else {
			environ = append(environ, "WEIR_NODE_GPUS_"+setting)
		}
	}
	loaded, problems, err := config.Load(config.Sources{Environ: environ})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	return &loaded.Config
}

func TestANodeOffersTheGPUsThatItHas(t *testing.T) {
	driver, err := cgroup.NewProcessLimits("weir-test")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	const command = `COMMAND=echo '{"id": "card-0", "devices": ["/dev/null"]}'`
	for _, test := range []struct {
		name           string
		settings       []string
		devices, spare int
		says           string // an error, or an alert
		reads          bool
	}{
		{"fake ones", []string{"FAKE=4"}, 4, 0, "", true},
		{"the first of them", []string{"FAKE=4", "gpu=1"}, 1, 3, "", true},
		{"none of them", []string{"FAKE=4", "gpu=0"}, 0, 4, "", false},
		{"more than there are", []string{"FAKE=2", "gpu=3"}, 0, 0, "resources/gpu is 3, and the machine has 2", false},
		{"another maker's", []string{command}, 1, 0, "", false},
		{"a command that fails", []string{"COMMAND=exit 3"}, 0, 0, "gpus/command: exit status 3", false},
	} {
		c := configured(t, test.settings...)
		g, alerts, err := gpusOf(t.Context(), &c.Node, directory, jobinit.Full, driver, slog.New(slog.DiscardHandler))
		if err != nil || test.says != "" {
			if err == nil || !strings.Contains(err.Error(), test.says) || test.says == "" {
				t.Errorf("%s: %v, want %q", test.name, err, test.says)
			}
			continue
		}
		if len(g.Devices) != test.devices || len(g.Spare) != test.spare || (g.Reader != nil) != test.reads || len(alerts) != 0 {
			t.Errorf("%s: %+v, alerts %q", test.name, g, alerts)
		}
	}
	if err := os.WriteFile(filepath.Join(directory, "cards.json"), []byte(`{"cdiVersion": "0.6.0", "kind": "vendor.example/card", "devices": [
		{"name": "GPU-fake-1", "containerEdits": {"env": ["CARD=1"], "deviceNodes": [{"path": "/dev/card1", "type": "c", "major": 1, "minor": 5}]}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	files := "CDI_DIRECTORIES=[" + directory + "]"
	c := configured(t, "FAKE=2", "CDI=vendor.example/card", files)
	g, _, err := gpusOf(t.Context(), &c.Node, directory, jobinit.Full, driver, slog.New(slog.DiscardHandler))
	if err != nil || len(g.Devices) != 2 || len(g.Devices[0].Variables) != 0 || len(g.Devices[1].Variables) != 1 || len(g.Devices[1].Files) != 2 {
		t.Errorf("with CDI files: %+v, %v", g.Devices, err)
	}
	c = configured(t, "CDI=vendor.example/card", files)
	if g, _, err = gpusOf(t.Context(), &c.Node, directory, jobinit.Full, driver, slog.New(slog.DiscardHandler)); err != nil || len(g.Devices) != 1 || g.Devices[0].ID != "GPU-fake-1" || g.Reader != nil {
		t.Errorf("devices of CDI files only: %+v, %v", g.Devices, err)
	}
	c = configured(t, "CDI=vendor.example/other", files)
	if _, _, err = gpusOf(t.Context(), &c.Node, directory, jobinit.Full, driver, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "gpus/cdi: vendor.example/other: no CDI file in "+directory) {
		t.Errorf("a kind that no file has: %v", err)
	}
	c = configured(t, "FAKE=2")
	if _, alerts, err := gpusOf(t.Context(), &c.Node, directory, jobinit.None, driver, slog.New(slog.DiscardHandler)); err != nil || len(alerts) != 1 || !strings.HasPrefix(alerts[0], "isolation_lowered: ") {
		t.Errorf("without a devices controller: alerts %q, %v", alerts, err)
	}
	if n, err := localGPUs(t.Context(), &c.Node.GPUs, 3); n != 6 || err != nil {
		t.Errorf("three nodes with two fake GPUs each have %d, %v", n, err)
	}
}
