package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/checksum"
)

func open(t *testing.T, dir string, limit int64) *Cache {
	t.Helper()
	c, err := Open(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serving returns a fetch of a content that counts its calls.
func serving(content string, calls *int) Fetch {
	return func(_ context.Context, offset int64, to io.Writer) error {
		*calls++
		_, err := io.WriteString(to, content[offset:])
		return err
	}
}

func key(content string) Key { return Key{Sum: checksum.Of([]byte(content))} }

// get returns a content through the cache, and whether it had to be fetched.
func get(t *testing.T, c *Cache, content string) (got *Content, fetched bool) {
	t.Helper()
	calls := 0
	got, err := c.Get(t.Context(), key(content), int64(len(content)), serving(content, &calls))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(got.Path); err != nil || string(data) != content {
		t.Fatalf("got %q, %v, want %q", data, err, content)
	}
	return got, calls > 0
}

func TestAContentIsFetchedOnceAndSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, 100)
	if _, fetched := get(t, c, "content"); !fetched {
		t.Error("nothing was fetched")
	}
	if _, fetched := get(t, c, "content"); fetched {
		t.Error("it was fetched twice")
	}
	c = open(t, dir, 100)
	if got, fetched := get(t, c, "content"); fetched || c.Size() != 7 {
		t.Errorf("after a restart: fetched again into %s, %d bytes", got.Path, c.Size())
	}
}

func TestNobodyMayWriteToAContent(t *testing.T) {
	c := open(t, t.TempDir(), 100)
	for isExecutable, want := range map[bool]os.FileMode{false: 0o444, true: 0o555} {
		calls := 0
		got, err := c.Get(t.Context(), Key{key("x").Sum, isExecutable}, 1, serving("x", &calls))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(got.Path)
		if err != nil || info.Mode() != want {
			t.Errorf("got mode %v, %v, want %v", info.Mode(), err, want)
		}
	}
}

func TestADamagedContentIsFetchedAgain(t *testing.T) {
	for name, damaged := range map[string]string{"other": "tnetnoc", "short": "con", "empty": ""} {
		dir := t.TempDir()
		first, _ := get(t, open(t, dir, 100), "content")
		if err := os.Chmod(first.Path, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(first.Path, []byte(damaged), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, fetched := get(t, open(t, dir, 100), "content"); !fetched {
			t.Errorf("%s: nothing was fetched", name)
		}
	}
}

func TestWhatWasUsedLeastRecentlyIsRemoved(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, 30)
	old := strings.Repeat("o", 10)
	held := strings.Repeat("h", 10)
	used := strings.Repeat("u", 10)
	for i, content := range []string{old, held, used} {
		got, _ := get(t, c, content)
		got.Release()
		got.Release()
		c.entries[key(content)].used = time.Unix(int64(i), 0)
	}
	if _, ok := c.Hold(key(held)); !ok {
		t.Fatal("it is not there")
	}
	get(t, c, strings.Repeat("n", 10))
	if c.Size() != 30 {
		t.Errorf("the cache has %d bytes", c.Size())
	}
	for content, want := range map[string]bool{old: false, held: true, used: true} {
		if _, there := c.Hold(key(content)); there != want {
			t.Errorf("%s is there: %v, want %v", content, there, want)
		}
	}
	c = open(t, dir, 30)
	if c.Size() != 30 || len(c.entries) != 3 {
		t.Errorf("after a restart %d bytes in %d contents", c.Size(), len(c.entries))
	}
}

func TestAContentThatDoesNotFitBesideThoseInUseIsRefused(t *testing.T) {
	c := open(t, t.TempDir(), 10)
	held, _ := get(t, c, "held")
	calls := 0
	_, err := c.Get(t.Context(), key("1234567"), 7, serving("1234567", &calls))
	if !errors.Is(err, ErrNoRoom) || calls > 0 || !strings.Contains(err.Error(), "7 bytes: jobs use 4 of its 10") {
		t.Errorf("got %v after %d fetches", err, calls)
	}
	if _, err := os.Stat(held.Path); err != nil {
		t.Error(err)
	}
	held.Release()
	get(t, c, "1234567")
}

func TestWhatDoesNotMatchIsNotKept(t *testing.T) {
	c := open(t, t.TempDir(), 100)
	for name, fetch := range map[string]Fetch{
		"other": func(_ context.Context, _ int64, to io.Writer) error {
			_, err := io.WriteString(to, "tnetnoc")
			return err
		},
		"long": func(_ context.Context, _ int64, to io.Writer) error {
			_, err := io.WriteString(to, "content and more")
			return err
		},
		"short": func(_ context.Context, _ int64, to io.Writer) error { _, err := io.WriteString(to, "con"); return err },
	} {
		if _, err := c.Get(t.Context(), key("content"), 7, fetch); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
		if c.Size() != 0 || len(c.entries) != 0 {
			t.Errorf("%s: %d bytes are left", name, c.Size())
		}
	}
	get(t, c, "content")
}

func TestAFetchContinuesWhereItBrokeOff(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken off")
	_, err := open(t, dir, 100).Get(t.Context(), key("content"), 7, func(_ context.Context, _ int64, to io.Writer) error {
		_, _ = io.WriteString(to, "con")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	c := open(t, dir, 100) // also after a restart
	var from []int64
	got, err := c.Get(t.Context(), key("content"), 7, func(_ context.Context, offset int64, to io.Writer) error {
		from = append(from, offset)
		_, err := io.WriteString(to, "content"[offset:])
		return err
	})
	if err != nil || fmt.Sprint(from) != "[3]" {
		t.Errorf("got %v from %v", err, from)
	}
	if data, _ := os.ReadFile(got.Path); string(data) != "content" {
		t.Errorf("got %q", data)
	}
}

func TestManyCallersFetchAContentOnce(t *testing.T) {
	c := open(t, t.TempDir(), 100)
	var calls atomic.Int32
	inside := make(chan struct{})
	fetch := func(_ context.Context, _ int64, to io.Writer) error {
		if calls.Add(1) == 1 {
			close(inside)
		}
		_, err := io.WriteString(to, "content")
		return err
	}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			got, err := c.Get(context.Background(), key("content"), 7, fetch)
			if err != nil {
				t.Error(err)
				return
			}
			got.Release()
		})
	}
	<-inside
	callers.Wait()
	if calls.Load() != 1 || c.Size() != 7 {
		t.Errorf("%d fetches, %d bytes", calls.Load(), c.Size())
	}
}

func TestACallerThatGivesUpDoesNotHarmOthers(t *testing.T) {
	c := open(t, t.TempDir(), 100)
	ctx, cancel := context.WithCancel(t.Context())
	fetching := make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		_, err := c.Get(ctx, key("content"), 7, func(ctx context.Context, _ int64, _ io.Writer) error {
			close(fetching)
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	<-fetching
	first.Go(func() {
		if _, fetched := get(t, c, "content"); !fetched {
			t.Error("nothing was fetched")
		}
	})
	cancel()
	first.Wait()
}

func TestForeignFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, 100)
	foreign := filepath.Join(dir, contents, "notes")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := open(t, dir, 100); len(c.entries) != 0 {
		t.Errorf("got %d contents", len(c.entries))
	}
	if _, err := os.Stat(foreign); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
