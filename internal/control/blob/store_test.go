package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob/memblob"

	"github.com/weirhq/weir/internal/value/checksum"
)

// everywhere runs a test on every kind of storage.
func everywhere(t *testing.T, test func(t *testing.T, s *Store)) {
	kinds := map[string]func(t *testing.T) (*Store, error){
		"directory": func(t *testing.T) (*Store, error) { return Directory(filepath.Join(t.TempDir(), "blobs")) },
		"memory":    func(t *testing.T) (*Store, error) { return In(memblob.OpenBucket(nil), t.TempDir()) },
		"s3":        openS3,
	}
	for _, kind := range []string{"directory", "memory", "s3"} {
		t.Run(kind, func(t *testing.T) {
			s, err := kinds[kind](t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, s)
		})
	}
}

// openS3 opens a bucket of a small server that speaks the protocol of S3.
func openS3(t *testing.T) (*Store, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket("weir"); err != nil {
		return nil, err
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return Open(t.Context(), "s3://weir?region=us-east-1&use_path_style=true&endpoint="+server.URL, filepath.Join(t.TempDir(), "spool"))
}

func put(t *testing.T, s *Store, content string) *Content {
	t.Helper()
	c, err := s.Put(t.Context(), strings.NewReader(content), 1<<30, checksum.Sum{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, s *Store, sum checksum.Sum, offset, length int64) string {
	t.Helper()
	r, err := s.Reader(t.Context(), sum, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// spooled returns the names of unfinished uploads.
func spooled(t *testing.T, s *Store) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.spool)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// objects counts what is in the bucket.
func objects(t *testing.T, s *Store) int {
	t.Helper()
	sizes, err := s.list(t.Context(), &Collected{})
	if err != nil {
		t.Fatal(err)
	}
	return len(sizes)
}

func TestAContentIsReadAsItWasWritten(t *testing.T) {
	everywhere(t, func(t *testing.T, s *Store) {
		large := strings.Repeat("0123456789", 1<<20)
		c := put(t, s, large)
		if c.Sum != checksum.Of([]byte(large)) || c.Size != int64(len(large)) {
			t.Errorf("got %s with %d bytes", c.Sum, c.Size)
		}
		if got := read(t, s, c.Sum, 0, -1); got != large {
			t.Errorf("got %d bytes", len(got))
		}
		if got := read(t, s, c.Sum, 5, 7); got != "5678901" {
			t.Errorf("got %q", got)
		}
		again := put(t, s, large)
		if again.Sum != c.Sum || objects(t, s) != 1 {
			t.Errorf("an equal content is kept %d times", objects(t, s))
		}
		if left := spooled(t, s); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestARefusedContentLeavesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, s *Store) {
		_, err := s.Put(t.Context(), strings.NewReader("one"), 100, checksum.Of([]byte("two")))
		if !errors.Is(err, ErrMismatch) {
			t.Errorf("another content than stated: %v", err)
		}
		if _, err = s.Put(t.Context(), strings.NewReader("12345"), 4, checksum.Sum{}); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "4 bytes") {
			t.Errorf("a content above the limit: %v", err)
		}
		broken := errors.New("broken off")
		if _, err = s.Put(t.Context(), io.MultiReader(strings.NewReader("12"), failing{broken}), 100, checksum.Sum{}); !errors.Is(err, broken) {
			t.Errorf("a content that broke off: %v", err)
		}
		if _, err := s.Put(t.Context(), strings.NewReader("1234"), 4, checksum.Of([]byte("1234"))); err != nil {
			t.Errorf("a content of exactly the limit: %v", err)
		}
		if n := objects(t, s); n != 1 || len(spooled(t, s)) > 0 {
			t.Errorf("%d objects, and uploads %v", n, spooled(t, s))
		}
		if _, err := s.Reader(t.Context(), checksum.Of([]byte("one")), 0, -1); !errors.Is(err, ErrNotFound) {
			t.Errorf("a content that is not there: %v", err)
		}
		if _, err := s.Hold(t.Context(), checksum.Of([]byte("one"))); !errors.Is(err, ErrNotFound) || len(s.held) != 1 {
			t.Errorf("holding a content that is not there: %v; %d held", err, len(s.held))
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestAStorageThatDoesNotAnswerLeavesNothing(t *testing.T) {
	s, err := openS3(t)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as if the server were gone, without its retries
	if _, err := s.Put(ctx, strings.NewReader("x"), 10, checksum.Sum{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if left := spooled(t, s); len(left) > 0 || len(s.held) > 0 {
		t.Errorf("left behind: %v, %d held", left, len(s.held))
	}
}

func TestAnUploadContinuesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	want := bytes.Repeat([]byte("part"), 1000)
	for end := 1000; end <= len(want); end += 1000 {
		s, err := Directory(dir)
		if err != nil {
			t.Fatal(err)
		}
		u, err := s.ResumeUpload("job")
		if err != nil || u.Size() != int64(end-1000) {
			t.Fatalf("got %d bytes, %v", u.Size(), err)
		}
		if _, err := u.Write(want[end-1000 : end]); err != nil {
			t.Fatal(err)
		}
		if end < len(want) {
			err = u.Pause()
		} else if _, err = u.Finish(t.Context(), checksum.Of(want)); err == nil && read(t, s, checksum.Of(want), 0, -1) != string(want) {
			t.Error("the content differs")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := Directory(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "..", "../x", "a/b"} {
		if _, err := s.ResumeUpload(name); err == nil {
			t.Errorf("an upload is called %q", name)
		}
	}
	if left := spooled(t, s); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatNothingNamesIsDeletedAfterAGracePeriod(t *testing.T) {
	everywhere(t, func(t *testing.T, s *Store) {
		named, unnamed, held := put(t, s, "named"), put(t, s, "unnamed"), put(t, s, "held")
		named.Release()
		unnamed.Release()
		names := map[checksum.Sum]bool{named.Sum: true}
		now := time.Now()
		collect := func(after time.Duration) Collected {
			t.Helper()
			got, err := s.Collect(t.Context(), now.Add(after), time.Hour, func() (map[checksum.Sum]bool, error) { return names, nil }, func() error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := collect(0); got.Removed != 0 || got.Objects != 3 {
			t.Errorf("at once: %+v", got)
		}
		if got := collect(59 * time.Minute); got.Removed != 0 {
			t.Errorf("before the grace period is over: %+v", got)
		}
		if got := collect(time.Hour); got.Removed != 1 || got.RemovedBytes != int64(len("unnamed")) || got.Objects != 2 {
			t.Errorf("after it: %+v", got)
		}
		if _, err := s.Reader(t.Context(), unnamed.Sum, 0, -1); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v", err)
		}
		held.Release()
		held.Release()
		if got := collect(90 * time.Minute); got.Removed != 0 {
			t.Errorf("a content that was held until now: %+v", got)
		}
		names = map[checksum.Sum]bool{held.Sum: true}
		if got := collect(3 * time.Hour); got.Removed != 0 {
			t.Errorf("a content whose name has just gone: %+v", got)
		}
		if got := collect(4 * time.Hour); got.Removed != 1 || read(t, s, held.Sum, 0, -1) != "held" {
			t.Errorf("a content that was named in time: %+v", got)
		}
	})
}

func TestCollectingStopsWhenItIsForbiddenOrBlind(t *testing.T) {
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "x").Release()
	no := errors.New("no")
	none := func() (map[checksum.Sum]bool, error) { return nil, nil }
	if _, err := s.Collect(t.Context(), time.Now(), 0, none, func() error { return no }); !errors.Is(err, no) {
		t.Errorf("forbidden: %v", err)
	}
	if _, err := s.Collect(t.Context(), time.Now(), 0, func() (map[checksum.Sum]bool, error) { return nil, no }, func() error { return nil }); !errors.Is(err, no) {
		t.Errorf("blind: %v", err)
	}
	if objects(t, s) != 1 {
		t.Error("the content is gone")
	}
}

func TestUploadsThatEndedWithoutNoticeAreRemoved(t *testing.T) {
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.ResumeUpload("dead")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Pause(); err != nil {
		t.Fatal(err)
	}
	none := func() (map[checksum.Sum]bool, error) { return nil, nil }
	if _, err := s.Collect(t.Context(), time.Now(), time.Hour, none, func() error { return nil }); err != nil || len(spooled(t, s)) != 1 {
		t.Errorf("young: %v, %v", spooled(t, s), err)
	}
	if _, err := s.Collect(t.Context(), time.Now().Add(2*time.Hour), time.Hour, none, func() error { return nil }); err != nil || len(spooled(t, s)) != 0 {
		t.Errorf("old: %v, %v", spooled(t, s), err)
	}
}

// A content that several callers put while Collect runs is there when the last of them has it.
func TestCollectingNeverTakesWhatACallerHas(t *testing.T) {
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	none := func() (map[checksum.Sum]bool, error) { return nil, nil }
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 50 {
				c, err := s.Put(context.Background(), strings.NewReader("wanted"), 10, checksum.Sum{})
				if err != nil {
					t.Error(err)
					return
				}
				if r, err := s.Reader(context.Background(), c.Sum, 0, -1); err != nil {
					t.Error(err)
				} else {
					r.Close()
				}
				c.Release()
			}
		})
	}
	for range 100 {
		if _, err := s.Collect(t.Context(), time.Now(), 0, none, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	workers.Wait()
}
