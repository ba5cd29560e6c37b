package expected

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BuildProgram builds a program that a test runs. On a machine without Go the variable WEIR_TEST_PROGRAMS names a
// directory where it has been built already, under the last part of its source's path.
func BuildProgram(output, source string) error {
	if directory := os.Getenv("WEIR_TEST_PROGRAMS"); directory != "" {
		program, err := os.ReadFile(filepath.Join(directory, filepath.Base(source)))
		if err != nil {
			return err
		}
		return os.WriteFile(output, program, 0o755)
	}
	build := exec.Command("go", "build", "-o", output, source)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build %s: %w", source, err)
	}
	return nil
}

// ErrNoTool means that a tool is neither built nor to be built here.
var ErrNoTool = errors.New("not there")

// fetchLimit is how long the sources of a tool may take to arrive.
const fetchLimit = 10 * time.Minute

// Tool returns a program that a module beside this one builds, such as etcd. It is built once for each state of the module's
// go.sum and kept in the user's cache, because that takes minutes. If it is not there, only WEIR_CONTROLPLANE=build (make test,
// make kube) builds it, and only if its sources can be fetched. Otherwise the error is ErrNoTool.
func Tool(module, name, source string) (program string, err error) {
	sums, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(sums)
	program = filepath.Join(cache, "weir", filepath.Base(module), hex.EncodeToString(sum[:8]), name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if os.Getenv("WEIR_CONTROLPLANE") != "build" {
		return "", fmt.Errorf("%w: %s has not been built: make kube builds it, which takes minutes", ErrNoTool, name)
	}
	fmt.Fprintf(os.Stderr, "building %s; this takes minutes, once\n", name)
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	fetch := exec.CommandContext(ctx, "go", "list", "-deps", source)
	fetch.Dir = module
	if _, err := fetch.Output(); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return "", fmt.Errorf("%w: the sources of %s cannot be fetched: %w", ErrNoTool, name, err)
	}
	fresh := fmt.Sprint(program, ".", os.Getpid()) // another process may build it too
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", fresh, source)
	build.Dir, build.Stderr = module, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", source, err)
	}
	return program, os.Rename(fresh, program)
}

// NeedTool returns a tool, or skips the test where there is none.
func NeedTool(t *testing.T, module, name, source string) string {
	t.Helper()
	program, err := Tool(module, name, source)
	if errors.Is(err, ErrNoTool) {
		t.Skipf("NO %s HERE: %v", strings.ToUpper(name), err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}
