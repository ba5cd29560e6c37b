package expected

import (
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
