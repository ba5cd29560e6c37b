// Package cache keeps contents on a node, named by their SHA-256, so that jobs share them and each is fetched once.
//
// The files belong to the agent and nobody may write to them. A job holds the contents that it uses: these are never removed. The
// others are removed when there is no room for a new one, least recently used first. A content counts as damaged if its
// size or sum differs at its first use after a restart of the agent; it is then fetched again.
package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/value/checksum"
)

// Errors of Get. Test for them with errors.Is.
var (
	// ErrNoRoom means that a content does not fit beside those in use.
	ErrNoRoom = errors.New("the cache has no room")
	// ErrMismatch means that what was fetched is not the content.
	ErrMismatch = errors.New("the fetched content does not match its checksum")
)

// Key names a file of the cache. The mode belongs to the file, so a content that some jobs execute and others do not is there twice.
type Key struct {
	Sum        checksum.Sum
	Executable bool
}

// Fetch writes a content from an offset on. It may write less than the rest and return an error; Get continues there at the
// next attempt.
type Fetch func(ctx context.Context, offset int64, to io.Writer) error

// Cache is a directory of contents. It is safe for concurrent use.
type Cache struct {
	dir   string
	limit int64

	mutex   sync.Mutex
	entries map[Key]*entry
	size    int64 // of all entries, including those that are being fetched
}

// entry is a content that is there or is being fetched.
type entry struct {
	size    int64
	used    time.Time
	holders int
	// turn is full while somebody fetches or verifies the content. Only its owner uses sound.
	turn  chan struct{}
	sound bool // the file has been verified or fetched by this process
}

func newEntry(size int64, used time.Time) *entry {
	return &entry{size: size, used: used, turn: make(chan struct{}, 1)}
}

// Content is a file of the cache that stays until it is released.
type Content struct {
	Path string

	cache *Cache
	entry *entry
	once  sync.Once
}

// Release lets the cache remove the content. A second call does nothing.
func (c *Content) Release() {
	c.once.Do(func() {
		c.cache.mutex.Lock()
		defer c.cache.mutex.Unlock()
		c.entry.holders--
	})
}

const (
	contents   = "sha256"
	executable = ".x"
	partial    = ".part"
	// partialAge is how long an unfinished file of an earlier process is kept.
	partialAge = 24 * time.Hour
)

// Open opens the cache in a directory, which may not exist yet. limit is the size of all contents together.
func Open(dir string, limit int64) (*Cache, error) {
	c := &Cache{dir: filepath.Join(dir, contents), limit: limit, entries: map[Key]*entry{}}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		key, isContent := keyOf(d.Name())
		switch {
		case isContent && path == c.path(key) && info.Mode().IsRegular():
			c.entries[key] = newEntry(info.Size(), info.ModTime())
			c.size += info.Size()
		case !strings.HasSuffix(path, partial) || time.Since(info.ModTime()) > partialAge:
			return os.Remove(path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cache of files: %w", err)
	}
	return c, nil
}

func (c *Cache) path(k Key) string {
	name := k.Sum.String()
	if k.Executable {
		return filepath.Join(c.dir, name[:2], name+executable)
	}
	return filepath.Join(c.dir, name[:2], name)
}

func keyOf(name string) (Key, bool) {
	text, isExecutable := strings.CutSuffix(name, executable)
	sum, err := checksum.Parse(text)
	return Key{sum, isExecutable}, err == nil
}

// Size returns the size of all contents.
func (c *Cache) Size() int64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.size
}

// Hold holds a content that jobs of an earlier process use, if it is there.
func (c *Cache) Hold(key Key) (*Content, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e := c.entries[key]
	if e == nil {
		return nil, false
	}
	e.holders++
	return &Content{Path: c.path(key), cache: c, entry: e}, true
}

// Get returns a content of a known size and fetches it if it is not there. Several callers that want the same content fetch it
// once. Release the content when it is no longer used.
func (c *Cache) Get(ctx context.Context, key Key, size int64, fetch Fetch) (*Content, error) {
	e, err := c.enter(key, size)
	if err != nil {
		return nil, err
	}
	content := &Content{Path: c.path(key), cache: c, entry: e}
	select {
	case e.turn <- struct{}{}:
		if !e.sound {
			err = c.provide(ctx, key, size, fetch)
			e.sound = err == nil
		}
		<-e.turn
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		content.Release()
		c.forget(key, e)
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(content.Path, now, now) // the order of uses after a restart is all that depends on it
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e.used = now
	return content, nil
}

// enter holds the entry of a content, and makes room for a new one.
func (c *Cache) enter(key Key, size int64) (*entry, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e := c.entries[key]
	if e == nil {
		if err := c.makeRoom(size); err != nil {
			return nil, err
		}
		e = newEntry(size, time.Now())
		c.entries[key] = e
		c.size += size
	}
	e.holders++
	return e, nil
}

// makeRoom removes contents that no job uses until a new one fits.
func (c *Cache) makeRoom(size int64) error {
	idle, reclaimable := c.idle()
	free := c.limit - c.size + reclaimable
	if size > free {
		return fmt.Errorf("%w for %d bytes: jobs use %d of its %d", ErrNoRoom, size, c.limit-free, c.limit)
	}
	for _, key := range idle {
		if c.size+size <= c.limit {
			break
		}
		if err := os.Remove(c.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cache of files: %w", err)
		}
		c.size -= c.entries[key].size
		delete(c.entries, key)
	}
	return nil
}

// Shrink removes a fifth of the contents that no job uses, at least one, least recently used first, for a disk that runs full.
func (c *Cache) Shrink() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	idle, size := c.idle()
	for _, key := range idle {
		if err := os.Remove(c.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // the next attempt may succeed
		}
		removed := c.entries[key].size
		c.size -= removed
		delete(c.entries, key)
		if size -= 5 * removed; size <= 0 {
			return
		}
	}
}

// idle returns the contents that no job uses, least recently used first, and their size together.
func (c *Cache) idle() (keys []Key, size int64) {
	for key, e := range c.entries {
		if e.holders == 0 {
			keys = append(keys, key)
			size += e.size
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(c.entries[a].used.Compare(c.entries[b].used), strings.Compare(c.path(a), c.path(b)))
	})
	return keys, size
}

// forget removes an entry whose content could not be provided, unless others wait for it.
func (c *Cache) forget(key Key, e *entry) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if e.holders > 0 || c.entries[key] != e {
		return
	}
	if _, err := os.Lstat(c.path(key)); err == nil {
		return
	}
	c.size -= e.size
	delete(c.entries, key)
}

// provide verifies the file of an earlier process, or fetches the content.
func (c *Cache) provide(ctx context.Context, key Key, size int64, fetch Fetch) error {
	path := c.path(key)
	if err := verify(path, key.Sum, size); err == nil {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cache of files: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cache of files: %w", err)
	}
	file, err := os.OpenFile(path+partial, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cache of files: %w", err)
	}
	defer file.Close()
	arrived := &arriving{file: file, meter: checksum.NewMeter(), size: size}
	if _, err := io.Copy(arrived.meter, file); err != nil {
		return fmt.Errorf("cache of files: %w", err)
	}
	if arrived.meter.Size() < size {
		if err := fetch(ctx, arrived.meter.Size(), arrived); err != nil {
			return err // what has arrived is kept for the next attempt
		}
	}
	if got := arrived.meter.Sum(); got != key.Sum || arrived.meter.Size() != size {
		err := fmt.Errorf("%w: got %d bytes with the sum %s, want %d with %s", ErrMismatch, arrived.meter.Size(), got, size, key.Sum)
		return errors.Join(err, os.Remove(path+partial))
	}
	mode := os.FileMode(0o444)
	if key.Executable {
		mode = 0o555
	}
	if err := errors.Join(file.Chmod(mode), os.Rename(path+partial, path)); err != nil {
		return fmt.Errorf("cache of files: %w", err)
	}
	return nil
}

// arriving is a file that grows to a size, and no further.
type arriving struct {
	file  *os.File
	meter *checksum.Meter
	size  int64
}

func (a *arriving) Write(data []byte) (int, error) {
	if a.meter.Size()+int64(len(data)) > a.size {
		return 0, fmt.Errorf("%w: it has more than %d bytes", ErrMismatch, a.size)
	}
	n, err := a.file.Write(data)
	_, _ = a.meter.Write(data[:n])
	return n, err
}

// verify compares a file with the content that it should have.
func verify(path string, sum checksum.Sum, size int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	meter := checksum.NewMeter()
	if info.Size() == size {
		_, err = io.Copy(meter, file)
	}
	if err == nil && meter.Sum() != sum {
		err = ErrMismatch
	}
	return err
}
