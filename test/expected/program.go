package expected

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// Tool returns a program that a module beside this one builds, such as etcd. It is built once for each state of the module's
// go.sum and kept in the user's cache, because that takes minutes: if it is not there, only WEIR_CONTROLPLANE=build (make kube)
// builds it.
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
		return "", fmt.Errorf("%s has not been built: make kube builds it, which takes minutes", name)
	}
	fmt.Fprintf(os.Stderr, "building %s; this takes minutes, once\n", name)
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program+".new", source)
	build.Dir, build.Stderr = module, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", source, err)
	}
	return program, os.Rename(program+".new", program)
}
