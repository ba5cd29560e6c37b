// Package fakeimage makes container images for tests, of programs of this machine.
package fakeimage

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Entry is a file, directory or link of a layer.
type Entry struct {
	Name, Link, Content string
	Kind                byte // tar.TypeReg if zero
	Mode                int64
}

// Layer returns an archive.
func Layer(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	data, err := archive(entries)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func archive(entries []Entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.Name, Linkname: e.Link, Typeflag: e.Kind, Mode: e.Mode, Size: int64(len(e.Content)), ModTime: time.Unix(1_700_000_000, 0),
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(e.Content)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// programs are what every image has.
var programs = []string{"sh", "cat", "ls", "id", "touch", "env", "sleep", "stat", "true", "mkdir", "mv"}

var base = sync.OnceValues(func() ([]byte, error) {
	entries := []Entry{{Name: "etc/release", Content: "fake\n", Mode: 0o644}, {Name: "work", Kind: tar.TypeDir}}
	var libraries []string
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Name: "bin/" + program, Content: string(content)})
		listed, err := exec.Command("ldd", path).Output()
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w", path, err)
		}
		for _, word := range strings.Fields(string(listed)) {
			if filepath.IsAbs(word) && !slices.Contains(libraries, word) {
				libraries = append(libraries, word)
			}
		}
	}
	for _, library := range libraries {
		content, err := os.ReadFile(library)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Name: library[1:], Content: string(content)})
	}
	return archive(entries)
})

// Base returns a layer with a shell and a few programs.
func Base(t testing.TB) []byte {
	t.Helper()
	data, err := base()
	if err != nil {
		t.Skipf("NO PROGRAMS FOR AN IMAGE HERE: %v", err)
	}
	return data
}

// Image returns an image of layers, the lowest first.
func Image(t testing.TB, config v1.Config, layers ...[]byte) v1.Image {
	t.Helper()
	img := empty.Image
	for _, content := range layers {
		added, err := mutate.AppendLayers(img, static.NewLayer(content, types.DockerUncompressedLayer))
		if err != nil {
			t.Fatal(err)
		}
		img = added
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

// Save writes an image as "docker save" does, and returns its digest as nodes know it.
func Save(t testing.TB, file, tag string, img v1.Image) (digest string) {
	t.Helper()
	reference, err := name.NewTag(tag)
	if err == nil {
		err = tarball.WriteToFile(file, reference, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}
