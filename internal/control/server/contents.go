package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/checksum"
)

// ErrNoBlobs means that a server has no blob storage.
var ErrNoBlobs = errors.New("the scheduler has no blob storage")

// QuotaError means that a user would use more of the blob storage than allowed.
type QuotaError struct {
	User string
	// Used is what the user's contents have now, Wanted the size of the new one, Limit the quota.
	Used, Wanted, Limit int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the files of user %s have %d bytes, and %d more would exceed the quota of %d; remove files or operations that keep some",
		e.User, e.Used, e.Wanted, e.Limit)
}

// PutContent stores a content that a user sends and that has at most MaxFileSize bytes. announced is its size as far as it is known,
// otherwise negative. If want is not zero, the content must have this sum. The user is not charged for it: commit the rows that
// name it with Charge, then release it.
func (s *Server) PutContent(ctx context.Context, user string, content io.Reader, announced int64, want checksum.Sum) (*blob.Content, error) {
	if s.blobs == nil {
		return nil, ErrNoBlobs
	}
	limit := s.settings().MaxFileSize
	if announced > limit {
		return nil, fmt.Errorf("%w: it has %d bytes, and the limit is %d", blob.ErrTooLarge, announced, limit)
	}
	if err := s.CheckQuota(ctx, user, max(announced, 0)); err != nil {
		return nil, err
	}
	return s.blobs.Put(ctx, content, limit, want)
}

// HoldContent returns a content that rows name, so that other rows can.
func (s *Server) HoldContent(ctx context.Context, sum checksum.Sum) (*blob.Content, error) {
	if s.blobs == nil {
		return nil, ErrNoBlobs
	}
	return s.blobs.Hold(ctx, sum)
}

// Charge commits rows that make a user use a content, unless the user's quota forbids it.
func (s *Server) Charge(ctx context.Context, user string, content *blob.Content, commit func() error) error {
	select {
	case s.charging <- struct{}{}:
		defer func() { <-s.charging }()
	case <-ctx.Done():
		return fmt.Errorf("%w: other files are being stored", ErrOverloaded)
	}
	uses, err := s.store.ContentUses(ctx, user, content.Sum.String())
	if err != nil {
		return err
	}
	if len(uses) == 0 {
		if err := s.CheckQuota(ctx, user, content.Size); err != nil {
			return err
		}
	}
	return commit()
}

// CheckQuota refuses contents of a size that a user may not use in addition.
func (s *Server) CheckQuota(ctx context.Context, user string, size int64) error {
	used, err := s.store.ContentUsage(ctx, user)
	if err != nil {
		return err
	}
	if limit := s.settings().FileQuota; limit > 0 && used+size > limit {
		return &QuotaError{User: user, Used: used, Wanted: size, Limit: limit}
	}
	return nil
}

// Content returns length bytes of a content from an offset on, all that follow if length is negative.
func (s *Server) Content(ctx context.Context, sum string, offset, length int64) (io.ReadCloser, error) {
	parsed, err := checksum.Parse(sum)
	switch {
	case err != nil:
		return nil, err
	case s.blobs == nil:
		return nil, ErrNoBlobs
	}
	return s.blobs.Reader(ctx, parsed, offset, length)
}

// withUses adds the uses of contents that follow from changes of the path tree.
func withUses(r *Registry, rows *store.Batch) {
	use := func(n store.PathNode) store.ContentUse {
		return store.ContentUse{Content: n.Content, Holder: "path:" + n.Path, User: n.ContentUser, Size: n.ContentSize}
	}
	for _, list := range [][]store.PathNode{rows.Delete.PathNodes, rows.Put.PathNodes} {
		for _, n := range list {
			if old, there := r.PathNode(n.Path); there && old.Content != "" {
				rows.Delete.ContentUses = append(rows.Delete.ContentUses, use(old))
			}
		}
	}
	for _, n := range rows.Put.PathNodes {
		if n.Content != "" {
			rows.Put.ContentUses = append(rows.Put.ContentUses, use(n))
		}
	}
}

// collectContents deletes contents without uses in the background.
func (t *term) collectContents(ctx context.Context) {
	s := t.server
	if s.blobs == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.settings().CollectPeriod):
		}
		collected, err := s.blobs.Collect(ctx, time.Now(), s.settings().ContentGrace, func() (map[checksum.Sum]bool, error) { return s.namedContents(ctx) },
			func() error { return t.mayDelete(ctx) })
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.alerts.raise(AlertBlobs, err.Error())
		default:
			s.alerts.clear(AlertBlobs)
			if collected.Removed > 0 {
				s.log.Info("removed contents that nothing uses", "count", collected.Removed, "bytes", collected.RemovedBytes)
			}
		}
	}
}

// mayDelete refuses to delete a content once another server may lead, and use it.
func (t *term) mayDelete(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !t.server.Leading() {
		return ErrNotLeading
	}
	return nil
}

// namedContents returns the contents that have a use.
func (s *Server) namedContents(ctx context.Context) (map[checksum.Sum]bool, error) {
	sums, err := s.store.Contents(ctx)
	if err != nil {
		return nil, err
	}
	named := make(map[checksum.Sum]bool, len(sums))
	for _, text := range sums {
		sum, err := checksum.Parse(text)
		if err != nil {
			return nil, err
		}
		named[sum] = true
	}
	return named, nil
}
