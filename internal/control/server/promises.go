package server

import (
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/ledger"
)

// watchedPromise is what the loop remembers of a pool's guarantee to log when it is broken.
type watchedPromise struct {
	// brokenSince and keptSince are since when it is broken, or not, without a break; the other is zero.
	brokenSince, keptSince time.Time
	told                   bool // its breach is in the log
	low                    bool // so is that its volume runs out
}

// brokenPart is the part of what is due that may be lacking without breaking a guarantee: one in this many.
const brokenPart = 100

// lowVolume is for how long the volume of a burst pool must pay for its burst guarantee; if it pays for less while the pool uses
// it, the log says so.
const lowVolume = 10 * time.Minute

// noticePromises logs when guarantees have been broken for some time, and when they have been kept again for as long. The
// entries are those of this update.
func (t *term) noticePromises(entries []ledger.Entry, away bool) {
	patience := t.server.settings().GuaranteePatience
	there := make(map[ledger.Pool]bool, len(entries))
	for i := range entries {
		e := &entries[i]
		there[e.Pool] = true
		w := t.promises[e.Pool]
		if w == nil {
			w = &watchedPromise{}
			t.promises[e.Pool] = w
		}
		t.noticePromise(e, w, e.Claim.Split(e.Claim.Got, away), patience)
		t.noticeVolume(e, w)
	}
	for pool := range t.promises {
		if !there[pool] {
			delete(t.promises, pool)
		}
	}
}

func (t *term) noticePromise(e *ledger.Entry, w *watchedPromise, parts ledger.Parts, patience time.Duration) {
	broken, first := int64(0), ledger.CauseCount
	for cause, part := range parts {
		if ledger.Cause(cause).IsOwn() {
			continue
		}
		broken += part
		if part > 0 && (first == ledger.CauseCount || part > parts[first]) {
			first = ledger.Cause(cause)
		}
	}
	if broken*brokenPart > e.Claim.Due() {
		w.keptSince = time.Time{}
		if w.brokenSince.IsZero() {
			w.brokenSince = t.now
		}
		if !w.told && t.now.Sub(w.brokenSince) >= patience {
			w.told = true
			t.event(store.Event{Type: "guarantee_broken", Tree: e.Tree, Pool: e.Name},
				fact{"cause", first.String()}, fact{"resource", e.Claim.Resource.String()}, fact{"due", unitsOfClaim(e, e.Claim.Due())},
				fact{"short", unitsOfClaim(e, broken)}, fact{"since", w.brokenSince})
		}
		return
	}
	w.brokenSince = time.Time{}
	if w.keptSince.IsZero() {
		w.keptSince = t.now
	}
	if w.told && t.now.Sub(w.keptSince) >= patience {
		w.told = false
		t.event(store.Event{Type: "guarantee_kept", Tree: e.Tree, Pool: e.Name}, fact{"since", w.keptSince})
	}
}

// noticeVolume logs when the volume of a burst pool that uses it runs out soon.
func (t *term) noticeVolume(e *ledger.Entry, w *watchedPromise) {
	c := &e.Claim
	if c.Burst == 0 || c.Total == 0 {
		w.low = false
		return
	}
	tree, there := t.server.View().Picture.Tree(e.Tree)
	if !there {
		return
	}
	p, there := tree.Pool(e.Name)
	if !there {
		return
	}
	left := time.Duration(p.VolumeRatio * float64(c.Total) / float64(c.Burst) * float64(time.Second))
	switch {
	case left >= 2*lowVolume:
		w.low = false
	case left < lowVolume && c.Got > c.Strong && !w.low:
		w.low = true
		t.event(store.Event{Type: "volume_low", Tree: e.Tree, Pool: e.Name}, fact{"left_s", int64(left.Seconds())}, fact{"burst", unitsOfClaim(e, c.Burst)})
	}
}

// unitsOfClaim returns an amount of the resource of a claim in its unit.
func unitsOfClaim(e *ledger.Entry, amount int64) float64 {
	return float64(amount) / float64(e.Claim.Resource.Scale())
}
