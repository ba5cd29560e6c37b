package blob

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/weirhq/weir/internal/value/checksum"
)

// Collected is what Collect found and did.
type Collected struct {
	// Objects and Bytes are in the bucket afterwards.
	Objects, Bytes int64
	// Removed and RemovedBytes were deleted.
	Removed, RemovedBytes int64
}

// Collect deletes the objects that nobody has named for a grace period, and uploads that have not grown for one. named returns the sums
// that the rows of the store name; Collect calls it after it has listed the bucket, so it also knows the names of
// contents that arrived before. may is called before each deletion, and Collect stops when it returns an error.
//
// The grace period of an object starts when a call first finds it without a name, so it starts again in a new process.
// Calls must not overlap.
func (s *Store) Collect(ctx context.Context, now time.Time, grace time.Duration, named func() (map[checksum.Sum]bool, error), may func() error) (Collected, error) {
	var result Collected
	sizes, err := s.list(ctx, &result)
	if err != nil {
		return result, err
	}
	names, err := named()
	if err != nil {
		return result, err
	}
	for _, key := range s.expired(sizes, names, now, grace) {
		if err := may(); err != nil {
			return result, err
		}
		removed, err := s.remove(ctx, key)
		if err != nil {
			return result, err
		}
		if removed {
			result.Objects, result.Bytes = result.Objects-1, result.Bytes-sizes[key]
			result.Removed, result.RemovedBytes = result.Removed+1, result.RemovedBytes+sizes[key]
		}
	}
	return result, s.dropUploads(now.Add(-max(grace, time.Hour)))
}

// list returns the sizes of all objects by key.
func (s *Store) list(ctx context.Context, result *Collected) (map[string]int64, error) {
	sizes := map[string]int64{}
	for objects := s.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		object, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return sizes, nil
		}
		if err != nil {
			return nil, unavailable(err)
		}
		sizes[object.Key] = object.Size
		result.Objects, result.Bytes = result.Objects+1, result.Bytes+object.Size
	}
}

// expired returns the objects whose grace period is over, and notes which objects have no name now.
func (s *Store) expired(sizes map[string]int64, names map[checksum.Sum]bool, now time.Time, grace time.Duration) (keys []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for key := range sizes { // the order does not matter
		sum, ok := sumOf(key)
		if ok && (names[sum] || s.held[sum] > 0) {
			delete(s.unnamed, key)
			continue
		}
		since, known := s.unnamed[key]
		if !known {
			s.unnamed[key], since = now, now
		}
		if now.Sub(since) >= grace {
			keys = append(keys, key)
		}
	}
	maps.DeleteFunc(s.unnamed, func(key string, _ time.Time) bool {
		_, there := sizes[key]
		return !there
	})
	return keys
}

// remove deletes an object that nobody holds. The mutex is held during the deletion, so that no caller can find the object
// and hold it before it is gone.
func (s *Store) remove(ctx context.Context, key string) (bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if sum, ok := sumOf(key); ok && s.held[sum] > 0 {
		return false, nil
	}
	if err := s.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return false, unavailable(err)
	}
	delete(s.unnamed, key)
	return true, nil
}

// dropUploads removes the files of uploads that ended without notice.
func (s *Store) dropUploads(before time.Time) error {
	entries, err := os.ReadDir(s.spool)
	if err != nil {
		return unavailable(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue // it has just ended, or it is not ours
		}
		if err := os.Remove(filepath.Join(s.spool, entry.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return unavailable(err)
		}
	}
	return nil
}
