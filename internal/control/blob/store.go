package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // opens s3 addresses
	"gocloud.dev/gcerrors"

	"github.com/weirhq/weir/internal/value/checksum"
)

// Errors of the storage. Test for them with errors.Is.
var (
	// ErrNotFound means that the bucket does not have a content.
	ErrNotFound = errors.New("the content is not in the blob storage")
	// ErrUnavailable means that the bucket or the disk failed; trying again later may succeed.
	ErrUnavailable = errors.New("the blob storage does not work")
)

// failure is an ErrUnavailable with its cause.
type failure struct{ cause error }

func unavailable(err error) error { return &failure{err} }

func (f *failure) Error() string { return ErrUnavailable.Error() + ": " + f.cause.Error() }

func (f *failure) Unwrap() error { return f.cause }

func (f *failure) Is(target error) bool { return target == ErrUnavailable }

// Store keeps contents in a bucket. It is safe for concurrent use.
type Store struct {
	bucket *blob.Bucket
	// directory is the bucket's, empty if it is not a directory.
	directory string
	spool     string

	mutex sync.Mutex
	// held counts the contents that callers have and rows may not name yet.
	held map[checksum.Sum]int
	// unnamed has, for each object that no row names, when Collect first saw it so.
	unnamed map[string]time.Time
}

// Content is a content that Collect spares until it is released.
type Content struct {
	Sum  checksum.Sum
	Size int64

	store *Store
	once  sync.Once
}

// Directory returns a store in a directory, which is created if it does not exist.
func Directory(path string) (*Store, error) {
	for _, part := range []string{path, filepath.Join(path, spoolDirectory)} {
		if err := os.MkdirAll(part, 0o700); err != nil {
			return nil, err
		}
	}
	bucket, err := fileblob.OpenBucket(path, &fileblob.Options{Metadata: fileblob.MetadataDontWrite, NoTempDir: true})
	if err != nil {
		return nil, err
	}
	s := newStore(bucket, filepath.Join(path, spoolDirectory))
	s.directory = path
	return s, nil
}

// spoolDirectory is where uploads to a directory arrive: on its file system, so that they can be moved.
const spoolDirectory = "uploads"

// Open returns the store at an address such as s3://bucket?region=eu-west-1; spool is a local directory for uploads. It does
// not check whether the bucket answers.
func Open(ctx context.Context, address, spool string) (*Store, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if at.Scheme != "s3" {
		return nil, fmt.Errorf("blob storage %s: want s3://BUCKET", address)
	}
	bucket, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return nil, err
	}
	s, err := In(bucket, spool)
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	return s, nil
}

// In returns a store in an open bucket, which it then owns; spool is a local directory for uploads.
func In(bucket *blob.Bucket, spool string) (*Store, error) {
	if err := os.MkdirAll(spool, 0o700); err != nil {
		return nil, err
	}
	return newStore(bucket, spool), nil
}

func newStore(bucket *blob.Bucket, spool string) *Store {
	return &Store{bucket: bucket, spool: spool, held: map[checksum.Sum]int{}, unnamed: map[string]time.Time{}}
}

// Close closes the bucket. A nil store has none.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	return s.bucket.Close()
}

// IsShared reports whether schedulers on other machines can use the same contents.
func (s *Store) IsShared() bool { return s.directory == "" }

// prefix starts the keys of contents.
const prefix = "sha256/"

// keyOf is the key of a content: sha256/AB/ABCD….
func keyOf(sum checksum.Sum) string {
	text := sum.String()
	return prefix + text[:2] + "/" + text
}

// sumOf is the sum in a key.
func sumOf(key string) (checksum.Sum, bool) {
	sum, err := checksum.Parse(key[strings.LastIndexByte(key, '/')+1:])
	return sum, err == nil && keyOf(sum) == key
}

// Hold spares a content that the bucket has from Collect until it is released.
func (s *Store) Hold(ctx context.Context, sum checksum.Sum) (*Content, error) {
	content := s.hold(sum, 0)
	attributes, err := s.bucket.Attributes(ctx, keyOf(sum))
	if err != nil {
		content.Release()
		return nil, s.wrap(sum, err)
	}
	content.Size = attributes.Size
	return content, nil
}

func (s *Store) hold(sum checksum.Sum, size int64) *Content {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.held[sum]++
	return &Content{Sum: sum, Size: size, store: s}
}

// Release ends the protection from Collect. A second call does nothing.
func (c *Content) Release() {
	c.once.Do(func() {
		s := c.store
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.held[c.Sum]--; s.held[c.Sum] == 0 {
			delete(s.held, c.Sum)
		}
	})
}

// Reader returns length bytes of a content from an offset on, all that follow if length is negative.
func (s *Store) Reader(ctx context.Context, sum checksum.Sum, offset, length int64) (io.ReadCloser, error) {
	r, err := s.bucket.NewRangeReader(ctx, keyOf(sum), offset, length, nil)
	if err != nil {
		return nil, s.wrap(sum, err)
	}
	return r, nil
}

func (s *Store) wrap(sum checksum.Sum, err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, sum)
	}
	return unavailable(err)
}

// keep puts a file into the bucket and reports whether it was moved there.
func (s *Store) keep(ctx context.Context, file *os.File, content *Content) (moved bool, err error) {
	there, err := s.bucket.Exists(ctx, keyOf(content.Sum))
	if err != nil {
		return false, unavailable(err)
	}
	if there {
		return false, nil
	}
	if s.directory != "" {
		return s.move(file, content.Sum)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, unavailable(err)
	}
	// A writer whose context is cancelled before it is closed leaves nothing.
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.bucket.NewWriter(writing, keyOf(content.Sum), &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return false, unavailable(err)
	}
	if _, err = io.Copy(w, file); err != nil {
		cancel()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return false, unavailable(err)
	}
	return false, nil
}

// move makes a file durable and gives it its name in the directory. The driver for directories would rename a file that may
// not be on disk yet, so after a crash there could be another content under the name.
func (s *Store) move(file *os.File, sum checksum.Sum) (moved bool, err error) {
	if err := file.Sync(); err != nil {
		return false, unavailable(err)
	}
	to := filepath.Join(s.directory, filepath.FromSlash(keyOf(sum)))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return false, unavailable(err)
	}
	if err := os.Rename(file.Name(), to); err != nil {
		return false, unavailable(err)
	}
	for at := filepath.Dir(to); len(at) >= len(s.directory); at = filepath.Dir(at) {
		if err := syncDirectory(at); err != nil {
			return true, unavailable(err)
		}
	}
	return true, nil
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
