package cli

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/weirhq/weir/test/fakeimage"
)

// packFile packs a file with gzip.
func packFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(out)
	if _, err := io.Copy(w, in); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestImagesAreLoadedListedAndRemoved(t *testing.T) {
	b := newTestbed(t, 0)
	dir := t.TempDir()
	archive := filepath.Join(dir, "train.tar")
	layer := fakeimage.Layer(t, fakeimage.Entry{Name: "bin/sh", Content: "not really"})
	digest := fakeimage.Save(t, archive, "team/train:v1", fakeimage.Image(t, v1.Config{}, layer))
	if out := b.ok("image", "load", archive); out != "team/train:v1@"+digest+"\n" {
		t.Errorf("load: %q", out)
	}
	packed := filepath.Join(dir, "train.tar.gz")
	packFile(t, archive, packed)
	b.ok("image", "push", "tools", packed)
	if out := b.ok("image", "list"); !strings.Contains(out, "team/train:v1") || !strings.Contains(out, "tools:latest") || strings.Contains(out, "draft") {
		t.Errorf("list:\n%s", out)
	}
	var listed []listedImage
	if err := json.Unmarshal([]byte(b.ok("image", "list", "-o", "json")), &listed); err != nil || len(listed) != 2 || listed[0].Digest != digest || listed[0].ArchiveSize == 0 {
		t.Errorf("list -o json: %+v, %v", listed, err)
	}
	// The same again sends nothing.
	if code, _, said := b.call("image", "load", archive); code != ExitOK || strings.Contains(said, "sending") {
		t.Errorf("load again: %d %q", code, said)
	}
	if out := b.ok("image", "prune"); !strings.Contains(out, "0 nodes") { // there are none with images
		t.Errorf("prune: %q", out)
	}
	b.ok("image", "remove", "tools")
	if out := b.ok("image", "list"); strings.Contains(out, "tools") {
		t.Errorf("list after remove:\n%s", out)
	}
	if said := b.refused("image", "remove", "tools"); !strings.Contains(said, "tools") {
		t.Errorf("remove again: %q", said)
	}
}

func TestFilesThatAreNoImagesAreRefused(t *testing.T) {
	b := newTestbed(t, 0)
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	layer := fakeimage.Layer(t, fakeimage.Entry{Name: "bin/sh", Content: "not really"})
	sound := filepath.Join(dir, "sound.tar")
	fakeimage.Save(t, sound, "team/train:v1", fakeimage.Image(t, v1.Config{}, layer))
	content, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	other := write("other.tar", strings.Replace(string(content), "not really", "not REALLY", 1))
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"load", filepath.Join(dir, "missing.tar")}, "no such file"},
		{[]string{"load", write("text", "this is a text and not an archive")}, "it is no tar archive"},
		{[]string{"load", write("short", "x")}, "too short"},
		{[]string{"load", dir}, "it is no OCI layout"},
		{[]string{"load", other}, "has the content of"},
		{[]string{"push", "registry.example/train", sound}, "images of the cluster have none"},
		{[]string{"push", "Not A Name", sound}, "Not A Name"},
		{[]string{"push", "train"}, "push needs the name of the image"},
	} {
		if code, _, said := b.call(append([]string{"image"}, test.args...)...); code == ExitOK || !strings.Contains(said, test.says) {
			t.Errorf("%v: %d %q, want %q", test.args, code, said, test.says)
		}
	}
	if out := b.ok("list", "//sys/images"); strings.TrimSpace(out) != "" {
		t.Errorf("//sys/images has %q", out)
	}
}

func TestAnImageOfTheClusterIsReplacedOnlyByWhoMay(t *testing.T) {
	b := newTestbed(t, 0)
	archive := filepath.Join(t.TempDir(), "train.tar")
	layer := fakeimage.Layer(t, fakeimage.Entry{Name: "bin/sh", Content: "not really"})
	digest := fakeimage.Save(t, archive, "team/train:v1", fakeimage.Image(t, v1.Config{}, layer))
	b.ok("image", "load", archive)
	b.ok("create", "user", "--attributes", "{name=bob}")
	other := filepath.Join(t.TempDir(), "other.tar")
	fakeimage.Save(t, other, "team/train:v1", fakeimage.Image(t, v1.Config{}, layer, layer))
	for _, args := range [][]string{{"image", "load", "--as", "bob", other}, {"image", "remove", "--as", "bob", "team/train:v1"}} {
		if said := b.refused(args...); !strings.Contains(said, "Access denied") {
			t.Errorf("%v: %q", args, said)
		}
	}
	if out := b.ok("image", "list", "-o", "json"); strings.Count(out, "digest") != 1 || !strings.Contains(out, digest) {
		t.Errorf("the cluster has %s", out)
	}
}
