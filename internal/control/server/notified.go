package server

import (
	"context"

	"github.com/weirhq/weir/internal/control/store"
)

// The positions of notification targets in the log are counters: the last event that concerns them no more, and how many
// notifications were dropped without telling them.
func notifiedCounter(target string) string { return "notified/" + target }

func droppedCounter(target string) string { return "notifications_dropped/" + target }

// Notified returns the position of a notification target and how many notifications it missed; false if it has no
// position.
func (s *Server) Notified(ctx context.Context, target string) (position, dropped int64, known bool, err error) {
	if position, known, err = s.store.Counter(ctx, notifiedCounter(target)); err != nil || !known {
		return 0, 0, false, err
	}
	dropped, _, err = s.store.Counter(ctx, droppedCounter(target))
	return position, dropped, true, err
}

// SaveNotified stores them, in the order of everything else that the leader stores.
func (s *Server) SaveNotified(ctx context.Context, target string, position, dropped int64) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) {
		t.open.rows.Put.Counters = append(t.open.rows.Put.Counters,
			store.Counter{Name: notifiedCounter(target), Value: position}, store.Counter{Name: droppedCounter(target), Value: dropped})
		return struct{}{}, nil
	})
	return err
}
