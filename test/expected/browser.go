package expected

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Browser runs the browser tests of the page.
type Browser struct {
	// Sources is the folder web/.
	Sources        string
	Node, Chromium string
}

// FindBrowser returns what this machine has for browser tests. The error says what is missing and how to get it.
func FindBrowser(sources string) (*Browser, error) {
	b := &Browser{Sources: sources}
	var err error
	if b.Node, err = filepath.Abs(filepath.Join(sources, ".node", "bin", "node")); err != nil { // scripts/web.sh installs it if the machine's is too old
		return nil, err
	}
	if _, err := os.Stat(b.Node); err != nil {
		if b.Node, err = exec.LookPath("node"); err != nil {
			return nil, errors.New("there is no node")
		}
	}
	if _, err := os.Stat(filepath.Join(sources, "node_modules", "playwright-core")); err != nil {
		return nil, errors.New("web/node_modules is not there; make web installs it")
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if b.Chromium, err = exec.LookPath(name); err == nil {
			return b, nil
		}
	}
	return nil, errors.New("there is no chromium; apt-get install chromium-headless-shell")
}

// Run runs a file of web/browser with the cluster at a host, and returns what it prints. A test gets more as variables,
// another script as arguments.
func (b *Browser) Run(ctx context.Context, host, file string, more ...string) (string, error) {
	arguments := []string{"--test", "browser/" + file}
	if !strings.HasSuffix(file, ".test.mjs") {
		arguments = append([]string{"browser/" + file}, more...)
		more = nil
	}
	command := exec.CommandContext(ctx, b.Node, arguments...)
	command.Dir = b.Sources
	command.Env = append(os.Environ(), append(more, "WEIR_URL=http://"+host, "WEIR_CHROMIUM="+b.Chromium)...)
	out, err := command.CombinedOutput()
	return string(out), err
}
