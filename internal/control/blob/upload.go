package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirhq/weir/internal/value/checksum"
)

// Errors of uploads. Test for them with errors.Is.
var (
	// ErrMismatch means that a content is not the one that its sender stated.
	ErrMismatch = errors.New("the content does not match its checksum")
	// ErrTooLarge means that a content exceeds its limit.
	ErrTooLarge = errors.New("the content is too large")
)

// Upload is a content that is arriving, in a local file. Only one goroutine may use it at a time. End it with Finish or Discard.
type Upload struct {
	store *Store
	file  *os.File
	meter *checksum.Meter
}

// NewUpload starts an upload that does not survive this process.
func (s *Store) NewUpload() (*Upload, error) {
	file, err := os.CreateTemp(s.spool, "new-*")
	if err != nil {
		return nil, unavailable(err)
	}
	return &Upload{store: s, file: file, meter: checksum.NewMeter()}, nil
}

// ResumeUpload continues the upload of a name, or starts it. A name must not be in use twice at a time.
func (s *Store) ResumeUpload(name string) (*Upload, error) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return nil, fmt.Errorf("upload %q: the name must be a plain file name", name)
	}
	file, err := os.OpenFile(filepath.Join(s.spool, "resumed-"+name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unavailable(err)
	}
	u := &Upload{store: s, file: file, meter: checksum.NewMeter()}
	if _, err := io.Copy(u.meter, file); err != nil { // also moves to the end
		return nil, errors.Join(unavailable(err), file.Close())
	}
	return u, nil
}

// ForgetUpload removes what has arrived under a name.
func (s *Store) ForgetUpload(name string) error {
	err := os.Remove(filepath.Join(s.spool, "resumed-"+filepath.Base(name)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Write adds a piece. After an error the upload can only be discarded.
func (u *Upload) Write(data []byte) (int, error) {
	n, err := u.file.Write(data)
	_, _ = u.meter.Write(data[:n])
	if err != nil {
		return n, unavailable(err)
	}
	return n, nil
}

// Size returns the number of bytes that have arrived.
func (u *Upload) Size() int64 { return u.meter.Size() }

// Pause keeps what has arrived for a later ResumeUpload.
func (u *Upload) Pause() error { return u.file.Close() }

// Discard removes what has arrived.
func (u *Upload) Discard() error {
	return errors.Join(u.file.Close(), os.Remove(u.file.Name()))
}

// Finish puts the content into the bucket. If want is not zero, the content must have this sum. The content is durable when
// Finish returns. The upload is over in any case; after an error it is discarded.
func (u *Upload) Finish(ctx context.Context, want checksum.Sum) (*Content, error) {
	sum := u.meter.Sum()
	if !want.IsZero() && sum != want {
		err := fmt.Errorf("%w: %d bytes have the sum %s, not %s", ErrMismatch, u.Size(), sum, want)
		return nil, errors.Join(err, u.Discard())
	}
	content := u.store.hold(sum, u.Size())
	moved, err := u.store.keep(ctx, u.file, content)
	err = errors.Join(err, u.file.Close())
	if !moved {
		err = errors.Join(err, os.Remove(u.file.Name()))
	}
	if err != nil {
		content.Release()
		return nil, err
	}
	return content, nil
}

// Put stores a content of at most limit bytes. If want is not zero, the content must have this sum.
func (s *Store) Put(ctx context.Context, content io.Reader, limit int64, want checksum.Sum) (*Content, error) {
	u, err := s.NewUpload()
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(u, io.LimitReader(content, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%w: it has more than %d bytes, which is the limit", ErrTooLarge, limit)
	}
	if err != nil {
		return nil, errors.Join(err, u.Discard())
	}
	return u.Finish(ctx, want)
}
