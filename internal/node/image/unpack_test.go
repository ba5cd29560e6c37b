package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// needRoot skips a test that makes device files.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: layers are not unpacked")
	}
}

// entry is an entry of an archive.
type entry struct {
	name, link, content string
	kind                byte
	mode                int64
}

func file(name, content string) entry {
	return entry{name: name, content: content, kind: tar.TypeReg, mode: 0o644}
}
func program(name, content string) entry {
	return entry{name: name, content: content, kind: tar.TypeReg, mode: 0o755}
}
func directory(name string) entry { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func symlink(name, target string) entry {
	return entry{name: name, link: target, kind: tar.TypeSymlink, mode: 0o777}
}
func hardLink(name, target string) entry { return entry{name: name, link: target, kind: tar.TypeLink} }

var when = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.content)), ModTime: when, Uid: 1000, Gid: 1000}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var roomy = Limits{Size: 1 << 20, Entries: 1000}

func unpacked(t testing.TB, entries ...entry) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layer")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, _, err := unpack(bytes.NewReader(archiveOf(t, entries...)), dir, roomy)
	return dir, err
}

func TestALayerIsUnpackedAsOverlayExpectsIt(t *testing.T) {
	needRoot(t)
	dir, err := unpacked(t,
		directory("etc"), file("etc/name", "weir"), program("usr/bin/tool", "#!"), symlink("bin", "/usr/bin"), file("bin/second", "x"),
		hardLink("usr/bin/same", "usr/bin/tool"), file(".wh.gone", ""), directory("var"), file("var/.wh..wh..opq", ""), file(".wh..wh.plnk", ""),
		entry{name: "su", content: "x", kind: tar.TypeReg, mode: 0o6755}, entry{name: "pipe", kind: tar.TypeFifo, mode: 0o600},
		entry{name: "sticky", kind: tar.TypeDir, mode: 0o1777}, file("etc/name", "again"),
	)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	if read("etc/name") != "again" || read("usr/bin/second") != "x" || read("usr/bin/same") != "#!" {
		t.Error("files have other contents")
	}
	for name, mode := range map[string]fs.FileMode{
		"su": 0o755, "sticky": 0o777 | fs.ModeDir | fs.ModeSticky, "pipe": 0o600 | fs.ModeNamedPipe, "gone": fs.ModeDevice | fs.ModeCharDevice,
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, "etc/name"), &st); err != nil || st.Uid != 0 || st.Gid != 0 || st.Mtim.Sec != when.Unix() {
		t.Errorf("the file is of %d:%d, from %d: %v", st.Uid, st.Gid, st.Mtim.Sec, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "etc")); err != nil || !info.ModTime().Equal(when) {
		t.Errorf("the directory is from %v: %v", info.ModTime(), err)
	}
	mark := make([]byte, 1)
	if n, err := unix.Lgetxattr(filepath.Join(dir, "var"), opaqueAttribute, mark); err != nil || n != 1 || mark[0] != 'y' {
		t.Errorf("var hides nothing: %q, %v", mark, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".wh..wh.plnk")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files of aufs are kept: %v", err)
	}
}

// Every path that leads out stays inside or is refused, whatever links the archive has made before.
func TestNothingIsWrittenOutsideALayer(t *testing.T) {
	needRoot(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "victim"), []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, entries := range map[string][]entry{
		"dots":              {file("../x", "bad")},
		"dots inside":       {file("a/../../x", "bad")},
		"hidden dots":       {file("a/.wh...", "bad")},
		"link with dots":    {directory("a"), hardLink("a/x", "../../etc/passwd")},
		"link to nothing":   {hardLink("x", "etc/passwd")},
		"link out":          {symlink("out", outside), hardLink("x", "out/victim")},
		"link as directory": {symlink("out", outside), file("out/victim", "bad")},
		"relative link":     {symlink("out", "../../../../../../../../.."+outside), file("out/victim", "bad")},
		"directory of link": {symlink("out", outside), entry{name: "out", kind: tar.TypeDir, mode: 0o777}, file("out/victim", "bad")},
		"link then file":    {symlink("out", filepath.Join(outside, "victim")), file("out", "bad")},
		"whiteout of link":  {symlink("out", outside), file("out/.wh.victim", "")},
		"opaque link":       {symlink("out", outside), file("out/.wh..wh..opq", "")},
		"fifo":              {symlink("out", outside), entry{name: "out/pipe", kind: tar.TypeFifo}},
		"magic":             {symlink("out", "/proc/self/cwd"), file("out/x", "bad")},
	} {
		_, err := unpacked(t, entries...)
		text, readErr := os.ReadFile(filepath.Join(outside, "victim"))
		left, listErr := os.ReadDir(outside)
		if readErr != nil || listErr != nil || string(text) != "whole" || len(left) != 1 {
			t.Fatalf("%s: outside there are %q and %v: %v, %v", name, text, left, readErr, listErr)
		}
		if strings.Contains(name, "dots") && reasonOf(err, "") != Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat("/proc/self/cwd/x"); err == nil {
		t.Error("a file was written through /proc")
	}
}

func TestBadLayersAreRefusedWithTheReason(t *testing.T) {
	needRoot(t)
	many := make([]entry, roomy.Entries+1)
	for i := range many {
		many[i] = file("x", "")
	}
	for name, c := range map[string]struct {
		entries []entry
		reason  Reason
		says    string
	}{
		"device":       {[]entry{{name: "dev/sda", kind: tar.TypeBlock}}, Invalid, "dev/sda: it is a device"},
		"terminal":     {[]entry{{name: "tty", kind: tar.TypeChar}}, Invalid, "it is a device"},
		"size":         {[]entry{file("a", strings.Repeat("x", 1<<20)), file("b", "x")}, TooLarge, "b: the image has more than 1048576 bytes"},
		"count":        {many, TooLarge, "more than 1000 files"},
		"parent file":  {[]entry{file("a", ""), file("a/b", "")}, Invalid, "its directory"},
		"two kinds":    {[]entry{directory("a"), file("a", "")}, Invalid, "a directory of the same name"},
		"loop":         {[]entry{symlink("a", "b"), symlink("b", "a"), file("a/x", "")}, Invalid, "its directory"},
		"root as file": {[]entry{file(".", "")}, Invalid, "the root must be a directory"},
		"long name":    {[]entry{file(strings.Repeat("n", 300), "")}, Invalid, "name too long"},
		"empty delete": {[]entry{file(".wh.", "")}, Invalid, "it deletes nothing"},
	} {
		_, err := unpacked(t, c.entries...)
		if err == nil || reasonOf(err, "") != c.reason || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.reason, c.says)
		}
	}
	_, _, err := unpack(strings.NewReader(strings.Repeat("no archive ", 100)), t.TempDir(), roomy)
	if reasonOf(err, "") != Invalid {
		t.Errorf("a text: %v", err)
	}
	broken := io.MultiReader(bytes.NewReader(archiveOf(t, file("a", "b"))[:600]), stream{brokenReader{}})
	if _, _, err := unpack(broken, t.TempDir(), roomy); reasonOf(readFault(err), "") != Unavailable {
		t.Errorf("a connection that breaks: %v", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// Random archives with links, dots and deletions never write outside.
func TestRandomArchivesStayInside(t *testing.T) {
	needRoot(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "b", "c", "..", ".", "", ".wh.a", ".wh..wh..opq", "out"})
		target := rapid.SampledFrom([]string{"a", "../b", "/c", outside, "../../../../../../../../../../" + outside, "/", ".", "out/a"})
		var entries []entry
		for range rapid.IntRange(1, 8).Draw(rt, "entries") {
			name := strings.Join(rapid.SliceOfN(part, 1, 3).Draw(rt, "name"), "/")
			if name = strings.TrimRight(name, "/"); name == "" {
				name = "a"
			}
			kind := rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink}).Draw(rt, "kind")
			e := entry{name: name, kind: kind, mode: 0o755}
			if kind == tar.TypeSymlink || kind == tar.TypeLink {
				e.link = target.Draw(rt, "target")
			}
			entries = append(entries, e)
		}
		_, _ = unpacked(t, entries...)
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			rt.Fatalf("outside there are %v, %v", left, err)
		}
	})
}

func TestAPathIsFoundAsTheOverlayWouldFindIt(t *testing.T) {
	needRoot(t)
	base, err := unpacked(t, symlink("bin", "usr/bin"), program("usr/bin/sh", "base"), program("usr/bin/bash", ""), file("etc/old", ""), file("opt/x", ""), symlink("loop", "loop"))
	if err != nil {
		t.Fatal(err)
	}
	upper, err := unpacked(t, file("usr/bin/.wh.bash", ""), directory("etc"), file("etc/.wh..wh..opq", ""), file("etc/new", ""), file(".wh.opt", ""), symlink("abs", "/usr/bin/sh"))
	if err != nil {
		t.Fatal(err)
	}
	layers := []string{upper, base}
	var found []string
	for _, name := range []string{"/bin/sh", "/bin/bash", "/etc/old", "/etc/new", "/opt/x", "/opt", "/abs", "/loop", "/usr", "/bin/sh/x"} {
		if _, err := lookup(layers, name); err == nil {
			found = append(found, name)
		}
	}
	if want := []string{"/bin/sh", "/etc/new", "/abs", "/usr"}; !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
}
