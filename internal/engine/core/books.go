package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/resource"
)

// Books keep the ledger of guarantees of a core. The daemon, the simulator and replays of
// journals use them alike, so the same inputs at the same times give the same ledger.
type Books struct {
	*ledger.Book
	entries []ledger.Entry
}

// Updated enters what pools may claim after an update of the core; see [Core.Claims]. away reports
// whether the scheduler gives jobs to no node from now on. The claims are valid until the next call.
func (b *Books) Updated(now time.Time, c *Core, closed func(NodeID) bool, lost []resource.Amounts, away bool) []ledger.Entry {
	b.entries = c.Claims(b.entries[:0], closed, lost)
	b.Update(now, b.entries, away)
	return b.entries
}

// Spent enters the usage of pools that has changed by the last inputs. It calls others for
// operations whose usage has changed, unless that is nil.
func (b *Books) Spent(now time.Time, c *Core, others func(s *Spent)) {
	c.TakeUsage(func(s *Spent) {
		switch {
		case s.Operation == NoOperation:
			b.Spend(now, s.Pool, s.Usage)
		case others != nil:
			others(s)
		}
	})
}
