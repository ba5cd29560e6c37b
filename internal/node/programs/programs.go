package programs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Paths are where a node has put the programs.
type Paths struct{ Supervisor, Init string }

// ErrNone means that this weir was built without the programs.
var ErrNone = errors.New("this program was built without weir-supervisor, weir-init and weir-pod: make builds it with them")

// Install writes the programs into a directory, under names that depend on their contents: programs that run there from
// an earlier version are not touched. The error is ErrNone if there are none.
func Install(directory string) (p Paths, err error) {
	supervisor, init, _ := embedded()
	if len(supervisor) == 0 || len(init) == 0 {
		return p, ErrNone
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return p, fmt.Errorf("programs: %w", err)
	}
	if p.Supervisor, err = install(directory, "weir-supervisor", supervisor); err != nil {
		return p, fmt.Errorf("programs: %w", err)
	}
	if p.Init, err = install(directory, "weir-init", init); err != nil {
		return p, fmt.Errorf("programs: %w", err)
	}
	return p, nil
}

// CopyPod writes weir-pod to a file. The error is ErrNone if this weir has none.
func CopyPod(path string) error {
	_, _, pod := embedded()
	if len(pod) == 0 {
		return ErrNone
	}
	return os.WriteFile(path, pod, 0o755)
}

func install(directory, name string, program []byte) (path string, err error) {
	sum := sha256.Sum256(program)
	path = filepath.Join(directory, name+"-"+hex.EncodeToString(sum[:6]))
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, program) {
		return path, nil
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, program, 0o755); err != nil {
		return "", err
	}
	return path, os.Rename(temporary, path)
}
