package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/checksum"
)

// contentOf is a content that goes to the blob storage.
func contentOf(seed string) string { return strings.Repeat(seed+"0123456789", maxSmallFile/10) }

// stored returns the names of the contents in a cluster's directory.
func stored(t *testing.T, directory string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(directory, "blobs", "sha256", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// spool returns unfinished uploads.
func spool(t *testing.T, directory string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(directory, "blobs", "uploads", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLargeFilesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	large := contentOf("x")
	c.must("write_file", `{path="//home/large"}`, large)
	c.must("copy", `{source_path="//home/large";destination_path="//home/copy"}`, "")
	c.must("move", `{source_path="//home/large";destination_path="//home/moved"}`, "")
	c.must("write_file", `{path="//home/small"}`, "small")
	if n := len(stored(t, directory)); n != 1 {
		t.Errorf("%d contents are stored, want 1", n)
	}
	c.stop()
	c = startCluster(t, directory)
	for _, path := range []string{"//home/copy", "//home/moved"} {
		if got := c.must("read_file", fmt.Sprintf(`{path=%q}`, path), ""); got != large {
			t.Errorf("%s: got %d bytes, want %d", path, len(got), len(large))
		}
		if got := c.must("read_file", fmt.Sprintf(`{path=%q;offset=5;length=10}`, path), ""); got != large[5:15] {
			t.Errorf("%s: got %q", path, got)
		}
		if got := c.must("read_file", fmt.Sprintf(`{path=%q;offset=%d}`, path, len(large)-3), ""); got != large[len(large)-3:] {
			t.Errorf("%s: the end is %q", path, got)
		}
		if got := c.must("read_file", fmt.Sprintf(`{path=%q;offset=%d}`, path, len(large)+3), ""); got != "" {
			t.Errorf("%s: after its end there is %q", path, got)
		}
		if got := c.get(path + "/@uncompressed_data_size"); got != fmt.Sprint(len(large)) {
			t.Errorf("%s has size %s", path, got)
		}
		if got := c.get(path + "/@content_hash"); strings.Trim(got, `"`) != checksum.Of([]byte(large)).String() {
			t.Errorf("%s has hash %s", path, got)
		}
	}
	if got := c.get("//home/small/@content_hash"); strings.Trim(got, `"`) != checksum.Of([]byte("small")).String() {
		t.Errorf("the small file has hash %s", got)
	}
	c.must("write_file", `{path="//home/moved"}`, "now small")
	if got := c.must("read_file", `{path="//home/moved"}`, ""); got != "now small" {
		t.Errorf("got %q", got)
	}
}

func TestACompressedFileIsUnpackedAsItArrives(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	large := contentOf("packed")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(large)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	header := http.Header{"X-YT-Header-Format": {"<format=text>yson"}, "X-YT-Parameters": {`{path="//home/f"}`}, "Content-Encoding": {"gzip"}}
	if a := c.send(http.MethodPut, "/api/v4/write_file", header, packed.Bytes()); a.status != http.StatusOK {
		t.Fatal(a)
	}
	if got := c.must("read_file", `{path="//home/f"}`, ""); got != large {
		t.Errorf("got %d bytes, want %d", len(got), len(large))
	}
	for name, body := range map[string][]byte{"truncated": packed.Bytes()[:packed.Len()-20], "not packed": []byte("plain text")} {
		if a := c.send(http.MethodPut, "/api/v4/write_file", header, body); a.status != http.StatusBadRequest {
			t.Errorf("%s: %v", name, a)
		}
	}
	if got := c.must("read_file", `{path="//home/f"}`, ""); got != large {
		t.Error("a refused content has replaced the old one")
	}
}

// A file that is refused changes nothing: neither the tree nor the storage.
func TestFilesThatAreRefusedLeaveNothing(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	settings := c.Settings()
	settings.MaxFileSize, settings.FileQuota = 3*maxSmallFile, 4*maxSmallFile
	c.Configure(settings)
	old := contentOf("old")
	c.must("write_file", `{path="//home/old"}`, old)
	for name, test := range map[string]struct {
		parameters, content string
		code                int
		words               []string
	}{
		"over the limit":         {`{path="//home/new"}`, strings.Repeat("x", 3*maxSmallFile+1), wire.CodeGeneric, []string{"too large", fmt.Sprint(3 * maxSmallFile)}},
		"over the quota":         {`{path="//home/new"}`, strings.Repeat("x", 3*maxSmallFile), wire.CodeAccountLimit, []string{fmt.Sprint(len(old)), fmt.Sprint(3 * maxSmallFile), fmt.Sprint(4 * maxSmallFile)}},
		"another sum, large":     {fmt.Sprintf(`{path="//home/new";sha256=%q}`, checksum.Of([]byte("x")).String()), contentOf("x"), wire.CodeGeneric, []string{"does not match"}},
		"another sum, small":     {fmt.Sprintf(`{path="//home/new";sha256=%q}`, checksum.Of([]byte("x")).String()), "y", wire.CodeGeneric, []string{"does not match"}},
		"a sum that is none":     {`{path="//home/new";sha256=abc}`, "y", wire.CodeGeneric, []string{"sha256"}},
		"a node that is no file": {`{path="//home"}`, contentOf("x"), wire.CodeGeneric, []string{"is not a file"}},
		"no parent":              {`{path="//home/none/new"}`, contentOf("x"), wire.CodeResolve, nil},
	} {
		c.refused("write_file", test.parameters, test.content, test.code, test.words...)
		if got := c.must("exists", `{path="//home/new"}`, ""); !strings.Contains(got, "false") {
			t.Errorf("%s: the file exists", name)
		}
		if left := spool(t, directory); len(left) > 0 {
			t.Errorf("%s: uploads are left: %v", name, left)
		}
	}
	if got := c.must("read_file", `{path="//home/old"}`, ""); got != old {
		t.Errorf("the old file has %d bytes", len(got))
	}
	c.must("write_file", `{path="//home/again"}`, old) // counts once
}

func TestABodyThatBreaksOffChangesNothing(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.url+"/api/v4/write_file", &endless{after: 4 * maxSmallFile, then: cancel})
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"X-Yt-Header-Format": {"<format=text>yson"}, "X-Yt-Parameters": {`{path="//home/new"}`}}
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
		t.Fatalf("got status %d", response.StatusCode)
	}
	c.eventually("the upload is discarded", func() bool { return len(spool(t, directory)) == 0 })
	if c.do("get", `{path="//home/new/@id"}`, "").status == http.StatusOK || len(stored(t, directory)) > 0 {
		t.Error("a part of a file is stored")
	}
}

// endless sends data without an end, and calls a function on its way.
type endless struct {
	sent, after int
	then        func()
}

func (e *endless) Read(p []byte) (int, error) {
	if e.sent += len(p); e.sent > e.after {
		e.then()
	}
	return len(p), nil
}

func TestAStorageThatDoesNotWorkRefusesFilesAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	if err := os.Rename(filepath.Join(directory, "blobs"), filepath.Join(directory, "away")); err != nil {
		t.Fatal(err)
	}
	if a := c.do("write_file", `{path="//home/new"}`, contentOf("x")); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "blob storage") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	c.must("write_file", `{path="//home/small"}`, "small")
	if err := os.Rename(filepath.Join(directory, "away"), filepath.Join(directory, "blobs")); err != nil {
		t.Fatal(err)
	}
	c.must("write_file", `{path="//home/new"}`, contentOf("x"))
}

func TestContentsOfRemovedFilesAreDeleted(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	for _, name := range []string{"kept", "replaced", "removed"} {
		c.must("write_file", fmt.Sprintf(`{path="//home/%s"}`, name), contentOf(name))
	}
	c.must("write_file", `{path="//home/replaced"}`, "small")
	c.must("remove", `{path="//home/removed"}`, "")
	settings := c.Settings()
	settings.CollectPeriod, settings.ContentGrace = time.Millisecond, 0
	c.Configure(settings)
	c.stop() // the next collection is an hour away
	c = launch(t, directory)
	c.Configure(settings)
	<-c.Led()
	c.eventually("contents without a use are deleted", func() bool { return len(stored(t, directory)) == 1 })
	if got := c.must("read_file", `{path="//home/kept"}`, ""); got != contentOf("kept") {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestUsersHaveSeparateQuotas(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t, "ann", "bob")
	settings := c.Settings()
	settings.FileQuota = 2 * maxSmallFile
	c.Configure(settings)
	c.mustAs(tokens["root"], "set", `{path="//home/@acl"}`, "[{action=allow;subjects=[users];permissions=[read;write;remove;modify_children]}]")
	c.mustAs(tokens["ann"], "write_file", `{path="//home/ann"}`, contentOf("a"))
	if a := c.as(tokens["ann"], "write_file", `{path="//home/ann2"}`, contentOf("b")); !strings.Contains(a.body, "quota") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	c.mustAs(tokens["bob"], "write_file", `{path="//home/bob"}`, contentOf("b"))
	if a := c.as(tokens["ann"], "copy", `{source_path="//home/bob";destination_path="//home/ann2"}`, ""); !strings.Contains(a.body, "quota") {
		t.Errorf("a copy: got %d %s", a.status, a.body)
	}
	c.mustAs(tokens["ann"], "remove", `{path="//home/ann"}`, "")
	c.mustAs(tokens["ann"], "copy", `{source_path="//home/bob";destination_path="//home/ann2"}`, "")
}
