package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

func writeFiles(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(directory, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func packedBytes(t *testing.T, directory string) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := PackDirectory(directory, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpackTo(t *testing.T, directory, name string, archive []byte, limit int64) error {
	t.Helper()
	root, err := os.OpenRoot(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, err = UnpackDirectory(t.Context(), bytes.NewReader(archive), root, name, limit)
	return err
}

// listing describes everything below a directory.
func listing(t *testing.T, directory string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == directory {
			return err
		}
		name, _ := filepath.Rel(directory, path)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %v", name, info.Mode())
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(text)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + target
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestADirectoryComesOutAsItWasPackedAndTwicePackedIsTheSame(t *testing.T) {
	make := func(when time.Time) string {
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{"a": "1", "bin/tool": "#!", "deep/er/x y": "2", "ünï": "3", strings.Repeat("n", 150) + "/" + strings.Repeat("m", 150): "long"})
		for _, err := range []error{
			os.Chmod(filepath.Join(dir, "bin/tool"), 0o700), os.Mkdir(filepath.Join(dir, "empty"), 0o700), os.Symlink("../bin/tool", filepath.Join(dir, "deep/link")),
			os.Symlink("missing", filepath.Join(dir, "dangling")), os.Chtimes(filepath.Join(dir, "a"), when, when),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	source := make(time.Unix(1, 0))
	archive := packedBytes(t, source)
	if !bytes.Equal(archive, packedBytes(t, make(time.Unix(1e9, 0)))) {
		t.Error("the same files at another time give another archive")
	}
	sandbox := t.TempDir()
	if err := unpackTo(t, sandbox, "some/where", archive, 1<<20); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a -rw-r--r-- 1", "bin drwxr-xr-x", "bin/tool -rwxr-xr-x #!", "dangling Lrwxrwxrwx missing", "deep drwxr-xr-x", "deep/er drwxr-xr-x", "deep/er/x y -rw-r--r-- 2",
		"deep/link Lrwxrwxrwx ../bin/tool", "empty drwxr-xr-x", strings.Repeat("n", 150) + " drwxr-xr-x", strings.Repeat("n", 150) + "/" + strings.Repeat("m", 150) + " -rw-r--r-- long", "ünï -rw-r--r-- 3",
	}
	if got := listing(t, filepath.Join(sandbox, "some/where")); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What a job's last attempt left is newer than what the job brings along.
func TestUnpackingReplacesNothing(t *testing.T) {
	source, sandbox := t.TempDir(), t.TempDir()
	writeFiles(t, source, map[string]string{"a": "new", "b": "new"})
	writeFiles(t, sandbox, map[string]string{"d/a": "left", "file": ""})
	if err := unpackTo(t, sandbox, "d", packedBytes(t, source), 1<<20); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, filepath.Join(sandbox, "d")); !slices.Equal(got, []string{"a -rw-r--r-- left", "b -rw-r--r-- new"}) {
		t.Errorf("got %q", got)
	}
	if err := unpackTo(t, sandbox, "file", packedBytes(t, source), 1<<20); !errors.Is(err, ErrDirectory) {
		t.Errorf("over a file: %v", err)
	}
}

func TestADirectoryWithWhatJobsCannotHaveIsNotPacked(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(dir string) error
		want string
	}{
		{"a pipe", func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "p"), 0o644) }, "p: it is a device, a pipe or a socket; name it in .weirignore"},
		{"an absolute link", func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "l")) }, `l: it is a link to "/etc/passwd", which is not a relative path; replace it, or name it in .weirignore`},
		{"a link out", func(dir string) error { return os.Symlink("../x", filepath.Join(dir, "l")) }, "may lead out"},
		{"a link out through another", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o755), os.Symlink("..", filepath.Join(dir, "d/up")), os.Symlink("d/up/../..", filepath.Join(dir, "l")))
		}, "may lead out"},
		{"too much", func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o644), os.Truncate(filepath.Join(dir, "f"), MaxDirectorySize+1)) // sparse
		}, "more than 20 GiB"},
		{"a bad pattern", func(dir string) error { return os.WriteFile(filepath.Join(dir, IgnoreFile), []byte("ok\n[\n"), 0o644) }, `.weirignore, line 2: "[" is no pattern`},
		{"an ignore file elsewhere", func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, IgnoreFile)) }, "escapes"},
	} {
		dir := t.TempDir()
		if err := test.make(dir); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := PackDirectory(dir, &out); err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
			t.Errorf("%s: %v, %d bytes written; want %q and none", test.name, err, out.Len(), test.want)
		}
	}
	if _, err := PackDirectory(filepath.Join(t.TempDir(), "none"), &bytes.Buffer{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// tarOf packs entries; those with a size have zeros.
func tarOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range entries {
		if err := w.WriteHeader(&entries[i]); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, entries[i].Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name string, size int64) tar.Header {
	return tar.Header{Name: name, Size: size, Mode: 0o6777, Typeflag: tar.TypeReg}
}

func link(name, target string) tar.Header {
	return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}
}

func TestArchivesThatLeadOutOfTheirDirectoryAreRefused(t *testing.T) {
	const limit = 1000
	for _, test := range []struct {
		name    string
		archive []byte
		want    string // empty: it is unpacked
	}{
		{"up", tarOf(t, file("../x", 1)), "may lead out"},
		{"up in the middle", tarOf(t, file("a/../../x", 1)), "may lead out"},
		{"an absolute path", tarOf(t, file("/x", 1)), "may lead out"},
		{"an absolute directory", tarOf(t, tar.Header{Name: "/x/", Typeflag: tar.TypeDir}), "may lead out"},
		{"through a link", tarOf(t, link("l", "d"), file("l/x", 1)), "it is not a directory"},
		{"a directory that is a link", tarOf(t, link("l", "."), tar.Header{Name: "l/", Typeflag: tar.TypeDir}), "it is not a directory"},
		{"a link in a link", tarOf(t, link("l", "."), link("l/m", "../x")), "it is not a directory"},
		{"a link up", tarOf(t, link("l", "..")), "may lead out"},
		{"a link up through another", tarOf(t, link("d/up", ".."), link("l", "d/up/../..")), "may lead out"},
		{"a link to the machine", tarOf(t, link("l", "/etc")), "not a relative path"},
		{"a link to nothing", tarOf(t, link("l", "")), "not a relative path"},
		{"a hard link", tarOf(t, tar.Header{Name: "h", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}), "neither a plain file"},
		{"a device", tarOf(t, tar.Header{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}), "neither a plain file"},
		{"a pipe", tarOf(t, tar.Header{Name: "d", Typeflag: tar.TypeFifo}), "neither a plain file"},
		{"a file as the directory", tarOf(t, file(".", 1)), "it must be a directory"},
		{"too large", tarOf(t, file("a", 600), file("b", 600)), "more disk space"},
		{"a directory over a file", tarOf(t, file("a", 1), file("a/b", 1)), "it is not a directory"},
		{"no archive", bytes.Repeat([]byte("no archive\n"), 100), "no tar archive"},
		{"half an archive", tarOf(t, file("a", 900))[:700], "unexpected EOF"},
		{"half of a packed one", gzipped(t, tarOf(t, file("a", 900)))[:30], "unexpected EOF"},
		{"packed with gzip", gzipped(t, tarOf(t, file("./a/b", 9))), ""},
		{"packed with zstd", zstandard(t, tarOf(t, tar.Header{Name: "./", Typeflag: tar.TypeDir}, file("./a/b", 9))), ""},
		{"a comment", tarOf(t, tar.Header{Name: "pax_global_header", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}, file("a", 1)), ""},
		{"nothing", tarOf(t), ""},
	} {
		outside := t.TempDir()
		sandbox := filepath.Join(outside, "sandbox")
		if err := os.Mkdir(sandbox, 0o755); err != nil {
			t.Fatal(err)
		}
		err := unpackTo(t, sandbox, "d", test.archive, limit)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		case test.want != "" && !errors.Is(err, ErrDirectory) && !strings.Contains(test.want, "EOF"):
			t.Errorf("%s: another node might try it again: %v", test.name, err)
		}
		for _, line := range listing(t, outside) {
			if !strings.HasPrefix(line, "sandbox d") && !strings.HasPrefix(line, "sandbox/d") || strings.Contains(line, "rws") {
				t.Errorf("%s made %s", test.name, line)
			}
		}
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t *testing.T, data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// A small archive of many zeros ends at the limit, not at the end of the disk.
func TestAnArchiveThatSwellsIsStopped(t *testing.T) {
	archive := zstandard(t, tarOf(t, file("a", 32<<20)))
	if len(archive) > 1<<16 {
		t.Fatalf("the archive has %d bytes", len(archive))
	}
	sandbox := t.TempDir()
	if err := unpackTo(t, sandbox, "d", archive, 1<<20); !errors.Is(err, ErrDirectory) {
		t.Errorf("%v", err)
	}
	if got := listing(t, sandbox); !slices.Equal(got, []string{"d drwxr-xr-x"}) {
		t.Errorf("made %q", got)
	}
}

func TestUnpackingEndsWithItsJob(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the job is ended"))
	if _, err := UnpackDirectory(ctx, bytes.NewReader(tarOf(t, file("a", 1))), root, "e", 1); err == nil || err.Error() != "the job is ended" {
		t.Errorf("%v", err)
	}
}

// Random archives of nasty names and links: whatever is unpacked, nothing is outside, and no path of it leads outside.
func TestRandomDirectoriesStayInside(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 13))
	parts := []string{"a", "b", "c", "..", ".", "a", "b"}
	path := func() string {
		words := make([]string, 1+random.IntN(4))
		for i := range words {
			words[i] = parts[random.IntN(len(parts))]
		}
		return strings.Join(words, "/")
	}
	links := 0
	base := t.TempDir()
	for round := range 150 {
		outside := filepath.Join(base, fmt.Sprint(round))
		sandbox := filepath.Join(outside, "1", "sandbox")
		if err := os.MkdirAll(sandbox, 0o755); err != nil {
			t.Fatal(err)
		}
		for range 1 + random.IntN(6) { // several archives: a bad entry ends one
			entry := file(path(), 3)
			if random.IntN(3) > 0 {
				entry = link(path(), path())
			}
			_ = unpackTo(t, sandbox, "d", tarOf(t, entry), 100) // most are refused
		}
		inside, err := filepath.EvalSymlinks(filepath.Join(sandbox, "d"))
		if err != nil {
			continue // nothing was made
		}
		err = filepath.WalkDir(outside, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.Type() == fs.ModeSymlink {
				links++
				if target, err := filepath.EvalSymlinks(path); err == nil && target != inside && !strings.HasPrefix(target, inside+"/") {
					t.Errorf("%s leads to %s", path, target)
				}
			}
			if entry.Type().IsRegular() && !strings.HasPrefix(path, inside+"/") {
				t.Errorf("%s was made", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if links < 40 {
		t.Errorf("only %d links were made: the test tries too little", links)
	}
}

func TestTheIgnoreFileSaysWhatStaysHere(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		IgnoreFile: "# caches\n*.pyc\nnode_modules/\n/build\nlogs/*\n!logs/keep\n", "a.py": "", "a.pyc": "", "deep/b.pyc": "", "node_modules/x/y": "", "deep/node_modules/z": "",
		"build/out": "", "deep/build": "", "logs/1": "", "logs/keep": "",
	})
	if err := unix.Mkfifo(filepath.Join(dir, "build/pipe"), 0o644); err != nil { // what is ignored may be anything
		t.Fatal(err)
	}
	var out bytes.Buffer
	packed, err := PackDirectory(dir, &out)
	if err != nil {
		t.Fatal(err)
	}
	sandbox := t.TempDir()
	if err := unpackTo(t, sandbox, "d", out.Bytes(), 1<<20); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range listing(t, filepath.Join(sandbox, "d")) {
		names = append(names, strings.Fields(line)[0])
	}
	want := []string{IgnoreFile, "a.py", "deep", "deep/build", "logs", "logs/keep"}
	if !slices.Equal(names, want) || packed.Count != len(want) || packed.Ignored != 6 {
		t.Errorf("got %q, %+v; want %q", names, packed, want)
	}
}

// Patterns mean what they mean to git.
func TestIgnoreRulesAreThoseOfGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	run := func(input string, args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
		cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: nothing is ignored
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("", "init", "-q", ".")
	random := rand.New(rand.NewPCG(3, 5))
	names := []string{"a", "b", "ab", "a.b", "#a", "!a", "x y"}
	var paths []string
	for range 60 {
		words := make([]string, 1+random.IntN(3))
		for i := range words {
			words[i] = names[random.IntN(len(names))]
		}
		path := strings.Join(words, "/")
		if os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755) == nil && os.WriteFile(filepath.Join(dir, path), nil, 0o644) == nil {
			paths = append(paths, path)
		}
	}
	pieces := []string{"a", "b", "*", "?", "**", "[ab]", "[!a]", "a*", "*.b", "/", "/", "/", "!", `\#a`, `\!a`, "x y", " "}
	checked := 0
	for range 40 {
		var lines []string
		for range 1 + random.IntN(4) {
			line := ""
			for range 1 + random.IntN(4) {
				line += pieces[random.IntN(len(pieces))]
			}
			lines = append(lines, line)
		}
		text := strings.Join(lines, "\n") + "\n"
		rules, err := parseIgnoreRules(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		said := strings.Split(run(strings.Join(paths, "\x00")+"\x00", "check-ignore", "-z", "--stdin"), "\x00")
		for _, path := range paths {
			ignored := false
			for at := range len(path) + 1 { // as the walk does: a parent that is ignored takes everything with it
				if !ignored && (at == len(path) || path[at] == '/') {
					ignored = rules.match(path[:at], at < len(path))
				}
			}
			checked++
			if want := slices.Contains(said, path); ignored != want {
				t.Errorf("%q with %q: ignored is %v, git says %v", path, lines, ignored, want)
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d pairs were compared", checked)
	}
}
