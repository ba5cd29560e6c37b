package image

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/weirhq/weir/internal/value/imagename"
)

// writeLayout writes an image as an OCI layout under a tag.
func writeLayout(t *testing.T, directory, tag string, img v1.Image) {
	t.Helper()
	path, err := layout.Write(directory, empty.Index)
	if err == nil {
		err = path.AppendImage(img, layout.WithAnnotations(map[string]string{refName: tag}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pack writes the files of a directory as a tar archive. change may replace a content; a nil one leaves the file out.
func pack(t *testing.T, directory, archive string, change func(name string, content []byte) []byte) {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(directory, path)
		if change != nil {
			content = change(name, content)
		}
		if err != nil || content == nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.WriteFile(archive, out.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// archived is how a job gets an image from an archive.
func archived(archive string) func() (string, func(), error) {
	return func() (string, func(), error) { return archive, func() {}, nil }
}

func TestAnOCILayoutInATarIsAnImage(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "tools")
	writeLayout(t, directory, "v3", makeImage(t, nil, baseLayer(t), archiveOf(t, file("x", "here"))))
	archive := filepath.Join(t.TempDir(), "tools.tar")
	pack(t, directory, archive, nil)
	images, err := ReadFile(archive)
	if err != nil || len(images) != 1 || images[0].Name.Tagged().String() != "tools:v3" {
		t.Fatalf("%+v, %v", images, err)
	}
	if size, err := images[0].Check(); err != nil || size == 0 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	c := openCache(t, nil)
	ready, err := c.PrepareArchived(t.Context(), images[0].Name, archived(archive), "job")
	if err != nil || ready.Shell != "/bin/sh" || len(ready.Layers) != 2 {
		t.Fatalf("%+v, %v", ready, err)
	}
	content, err := os.ReadFile(filepath.Join(c.Directory, ready.Layers[0], "x"))
	if err != nil || string(content) != "here" {
		t.Errorf("%q, %v", content, err)
	}
	again := func() (string, func(), error) { t.Error("the archive is fetched again"); return "", nil, io.EOF }
	if _, err := c.PrepareArchived(t.Context(), images[0].Name, again, "other"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsWrongWithAnArchiveIsNamedAndNothingIsLeft(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "tools")
	img := makeImage(t, nil, baseLayer(t))
	writeLayout(t, directory, "v3", img)
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	isBlob := func(name string, h v1.Hash) bool { return strings.HasSuffix(name, h.Hex) }
	layer := manifest.Layers[0].Digest
	for name, test := range map[string]struct {
		change func(name string, content []byte) []byte
		reason Reason
		says   string
	}{
		"a layer that is missing": {func(name string, content []byte) []byte {
			if isBlob(name, layer) {
				return nil
			}
			return content
		}, Invalid, "the layout lacks blobs/sha256/" + layer.Hex},
		"a layer with another content": {func(name string, content []byte) []byte {
			if isBlob(name, layer) {
				return archiveOf(t, file("x", ""))
			}
			return content
		}, Mismatch, "has the"},
		"a manifest with another content": {func(name string, content []byte) []byte {
			if isBlob(name, digest) {
				return append(content, ' ')
			}
			return content
		}, Mismatch, "has the content of"},
		"a configuration with another content": {func(name string, content []byte) []byte {
			if isBlob(name, manifest.Config.Digest) {
				return append(content, ' ')
			}
			return content
		}, Mismatch, "has the content of"},
		"no index": {func(name string, content []byte) []byte {
			if name == layoutIndex {
				return nil
			}
			return content
		}, Invalid, "it is no OCI layout"},
		"another archive": {func(name string, content []byte) []byte {
			if name == layoutMark {
				return nil
			}
			return content
		}, Invalid, "it has neither manifest.json, as archives of docker save do, nor oci-layout"},
	} {
		t.Run(name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "tools.tar")
			pack(t, directory, archive, test.change)
			images, err := ReadFile(archive)
			if err == nil {
				_, err = images[0].Check()
			}
			if err == nil || reasonOf(err, "") != test.reason || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it is checked with %v (%s), want %s: %s", err, reasonOf(err, ""), test.reason, test.says)
			}
			c := openCache(t, nil)
			n := imagename.Name{Repository: "tools", Tag: "v3", Digest: digest.String()}
			if _, err := c.PrepareArchived(t.Context(), n, archived(archive), "job"); err == nil || !strings.Contains(err.Error(), string(test.reason)) {
				t.Errorf("it is prepared with %v, want %s", err, test.reason)
			}
			left, err := os.ReadDir(filepath.Join(c.Directory, layersDir))
			if err != nil || len(left) > 0 || len(c.List()) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
	t.Run("a cut archive", func(t *testing.T) {
		archive := filepath.Join(t.TempDir(), "cut.tar")
		pack(t, directory, archive, nil)
		if err := os.Truncate(archive, 700); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(archive); err == nil || !strings.Contains(err.Error(), "it is no tar archive, or a packed one") {
			t.Errorf("%v", err)
		}
	})
	t.Run("an image that the archive does not have", func(t *testing.T) {
		archive := filepath.Join(t.TempDir(), "tools.tar")
		pack(t, directory, archive, nil)
		n := imagename.Name{Repository: "tools", Tag: "v3", Digest: "sha256:" + strings.Repeat("0", 64)}
		if _, err := openCache(t, nil).PrepareArchived(t.Context(), n, archived(archive), "job"); err == nil || !strings.Contains(err.Error(), "the archive does not have it") {
			t.Errorf("%v", err)
		}
	})
}
