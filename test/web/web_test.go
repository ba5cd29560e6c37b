// Package web_test opens the page in a real browser with a real cluster that runs the demonstration
// workload. The browser's steps are in web/browser; this package builds and starts what they need, and
// reports clearly what is missing.
package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/web"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/test/expected"
)

// patience is how long a cluster may take to start or stop. The machine may be busy.
const patience = 90 * time.Second

// sources is the folder of the page and its browser tests.
const sources = "../../web"

// tools are the programs that the tests run.
type tools struct {
	weir    string
	browser *expected.Browser
}

// needTools skips a test that this machine cannot run, and builds weir.
func needTools(t *testing.T) tools {
	t.Helper()
	if testing.Short() {
		t.Skip("BROWSER TESTS SKIPPED: -short")
	}
	if os.Getuid() != 0 {
		t.Skip("BROWSER TESTS SKIPPED: not root, so there are no real jobs to look at")
	}
	driver, err := cgroup.Detect(fmt.Sprintf("weir-web-probe-%d-%s", os.Getpid(), t.Name()))
	if err != nil {
		t.Skipf("BROWSER TESTS SKIPPED: no control groups here: %v", err)
	}
	if err := driver.Close(); err != nil {
		t.Error(err)
	}
	if !web.IsBuilt() {
		t.Skip("BROWSER TESTS SKIPPED: the page is not built; make web builds it where npm is")
	}
	var found tools
	if found.browser, err = expected.FindBrowser(sources); err != nil {
		t.Skipf("BROWSER TESTS SKIPPED: %v", err)
	}
	if found.weir, err = buildWeir(); err != nil {
		t.Fatal(err)
	}
	return found
}

// program is weir, built once for all tests, or the one that WEIR_BINARY names.
var program struct {
	once            sync.Once
	directory, path string
	err             error
}

func buildWeir() (string, error) {
	program.once.Do(func() {
		if given := os.Getenv("WEIR_BINARY"); given != "" {
			program.path, program.err = filepath.Abs(given)
			return
		}
		if program.directory, program.err = os.MkdirTemp("", "weir-web-"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.directory, "weir")
		out, err := exec.Command("go", "build", "-o", program.path, "../../cmd/weir").CombinedOutput()
		if err != nil {
			program.err = fmt.Errorf("building weir: %w: %s", err, out)
		}
	})
	return program.path, program.err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if program.directory != "" {
		_ = os.RemoveAll(program.directory)
	}
	os.Exit(code)
}

// startCluster runs weir up with the demonstration workload until the test ends, and returns its
// address.
func startCluster(t *testing.T, with tools) string {
	t.Helper()
	return startWeir(t, with, "up", "--demo", "--port", "0", "--nodes", "3", "--resources", "{cpu: 8, memory: 8GiB, user_slots: 12}")
}

// startWeir runs a cluster until the test ends, and returns its address.
func startWeir(t *testing.T, with tools, arguments ...string) string {
	t.Helper()
	command := exec.Command(with.weir, arguments...)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "WEIR_SCHEDULER_TRUST_LOOPBACK=true") // the browser does not sign in
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = command.Process.Kill()
			t.Error("weir up did not stop")
		}
		if t.Failed() {
			t.Logf("weir up wrote:\n%s", log.String())
		}
	})
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, after, found := strings.Cut(lines.Text(), " is up at http://"); found {
				host, _, _ := strings.Cut(after, " ")
				address <- host
			}
		}
		ended <- command.Wait()
	}()
	select {
	case host := <-address:
		return host
	case err := <-ended:
		ended <- err
		t.Fatalf("weir up ended: %v\n%s", err, log.String())
	case <-time.After(patience):
		t.Fatalf("weir up does not come up\n%s", log.String())
	}
	return ""
}

// browse runs a file of web/browser and reports what failed in it.
func browse(t *testing.T, with tools, host, file string, more ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	out, err := with.browser.Run(ctx, host, file, more...)
	if err != nil {
		t.Errorf("%s: %v\n%s", file, err, out)
		return
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "{") {
			t.Log(line)
		}
	}
}

// TestEachPageShowsWhatTheAPISays only reads, so that its browsers share a cluster. axe finds
// nothing serious in light and dark, on a desk and on a phone.
func TestEachPageShowsWhatTheAPISays(t *testing.T) {
	with := needTools(t)
	host := startCluster(t, with)
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		browse(t, with, host, "pages.test.mjs")
	})
	t.Run("axe", func(t *testing.T) {
		t.Parallel()
		browse(t, with, host, "axe.test.mjs")
	})
}

// TestEachActionOfThePageWorks changes its cluster. The last browser needs a token, and from then
// on so does everything else.
func TestEachActionOfThePageWorks(t *testing.T) {
	with := needTools(t)
	host := startCluster(t, with)
	t.Run("actions", func(t *testing.T) { browse(t, with, host, "actions.test.mjs") })
	t.Run("the client of YTsaurus", func(t *testing.T) { browse(t, with, host, "ytclient.test.mjs") })
	t.Run("tokens", func(t *testing.T) {
		token, err := exec.Command(with.weir, "token", "create", "root", "--addr", host).Output()
		if err != nil {
			t.Fatalf("weir token create: %v", err)
		}
		browse(t, with, host, "access.test.mjs", "WEIR_TOKEN="+strings.TrimSpace(string(token)))
	})
}

// TestPictures creates the pictures of docs/screenshots if it is enabled.
func TestPictures(t *testing.T) {
	directory := os.Getenv("WEIR_SCREENSHOTS")
	if directory == "" {
		t.Skip("WEIR_SCREENSHOTS does not name a directory; make screenshots does")
	}
	with := needTools(t)
	directory, err := filepath.Abs(directory)
	if err != nil {
		t.Fatal(err)
	}
	browse(t, with, startCluster(t, with), "screenshots.mjs", directory)
	pictures, err := filepath.Glob(filepath.Join(directory, "*.webp"))
	if err != nil || len(pictures) == 0 {
		t.Errorf("%d pictures in %s, %v", len(pictures), directory, err)
	}
}
