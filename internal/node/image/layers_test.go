package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/weirhq/weir/internal/value/checksum"
)

// countedFile is a file of layer_paths that counts how often it is opened.
func countedFile(content []byte, opened *int) LayerFile {
	return LayerFile{Sum: checksum.Of(content), Open: func() (io.ReadCloser, error) {
		*opened++
		return io.NopCloser(bytes.NewReader(content)), nil
	}}
}

func packedWith(t testing.TB, content []byte, writer func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := writer(&out)
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }
func zstded(w io.Writer) (io.WriteCloser, error)  { return zstd.NewWriter(w) }

func TestARootIsMadeOfPlainAndPackedArchivesTheUppermostFirst(t *testing.T) {
	c := openCache(t, nil)
	opened := 0
	files := []LayerFile{
		countedFile(packedWith(t, archiveOf(t, file("etc/release", "top")), zstded), &opened),
		countedFile(packedWith(t, archiveOf(t, file("etc/release", "middle"), file("opt/tool", "tool")), gzipped), &opened),
		countedFile(baseLayer(t), &opened),
	}
	img, err := c.PrepareLayers(t.Context(), files, "job-1")
	if err != nil || len(img.Layers) != 3 || img.Shell != "/bin/sh" || opened != 3 {
		t.Fatalf("%+v after %d files, %v", img, opened, err)
	}
	for i, want := range map[int]string{0: "top", 1: "middle", 2: "base"} {
		if text, err := os.ReadFile(filepath.Join(c.Directory, img.Layers[i], "etc/release")); err != nil || string(text) != want {
			t.Errorf("layer %d has %q, %v", i, text, err)
		}
	}
	// Another job, and another root with the same base, fetch nothing twice.
	if _, err := c.PrepareLayers(t.Context(), files, "job-2"); err != nil || opened != 3 {
		t.Errorf("%d files are opened for the second job, %v", opened, err)
	}
	if _, err := c.PrepareLayers(t.Context(), files[1:], "job-3"); err != nil || opened != 3 {
		t.Errorf("%d files are opened for a part of the root, %v", opened, err)
	}
}

func TestWhatIsWrongWithALayerIsNamedAndNothingIsLeft(t *testing.T) {
	plain := archiveOf(t, file("x", "y"))
	for name, test := range map[string]struct {
		content []byte
		reason  Reason
		words   string
	}{
		"squashfs":         {[]byte("hsqs and more of it"), Invalid, "squashfs"},
		"xz":               {[]byte("\xfd7zXZ\x00 and more"), Invalid, "packed with xz"},
		"no archive":       {bytes.Repeat([]byte("words "), 500), Invalid, "no tar archive"},
		"broken gzip":      {packedWith(t, plain, gzipped)[:20], Invalid, ""},
		"a way out":        {archiveOf(t, file("../x", "y")), Invalid, "leads out"},
		"without a shell":  {plain, Invalid, "/bin/sh"},
		"empty":            {nil, Invalid, "/bin/sh"},
		"larger than zero": {archiveOf(t, file("x", strings.Repeat("0", 2000))), TooLarge, "1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := openCache(t, func(o *Options) { o.Largest.Size = 1000 })
			opened := 0
			_, err := c.PrepareLayers(t.Context(), []LayerFile{countedFile(test.content, &opened)}, "job")
			if reasonFrom(err) != test.reason || !strings.Contains(err.Error(), test.words) || !strings.Contains(err.Error(), "layer_paths") {
				t.Errorf("got %v", err)
			}
			if c.find(LayersDigest([]checksum.Sum{checksum.Of(test.content)})) != nil || len(c.holds) > 0 {
				t.Error("the root counts as ready")
			}
		})
	}
	c := openCache(t, nil)
	wrong := LayerFile{Sum: checksum.Of([]byte("another")), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(baseLayer(t))), nil }}
	if _, err := c.PrepareLayers(t.Context(), []LayerFile{wrong}, "job"); reasonFrom(err) != Mismatch || len(left(t, c)) > 0 {
		t.Errorf("another content: %v, left %v", err, left(t, c))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.PrepareLayers(ended, []LayerFile{wrong}, "job"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
