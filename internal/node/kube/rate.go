package kube

import "time"

// Rates of writes, per second.
const (
	firstRate    = 200
	leastRate    = 5
	rateRise     = 10 // per second once the server has shown trouble, or a tenth of the rate; until then the rate doubles each second
	halvingPause = time.Second
	// slowLatency is what answers may take on average. Kubernetes wants 99 of 100 writes to take less.
	slowLatency = time.Second
	burst       = 16 // writes that may leave at once
)

// rate is how many writes per second the API server gets: twice as many each second until the server shows trouble, half
// then, and from there slowly more as long as it answers well. It is a value without a clock.
//
// An answer that takes longer than before is no trouble: the writers wait for answers, so the server gets the fewer writes the
// slower it is.
type rate struct {
	perSecond, most float64
	tokens          float64
	last            time.Time
	recent          time.Duration // latency, smoothed over a few answers
	halved          time.Time
	troubled        bool      // the server has shown trouble
	until           time.Time // nothing leaves before; the server asked for it
}

func newRate(most float64, now time.Time) *rate {
	return &rate{perSecond: min(firstRate, most), most: most, tokens: burst, last: now, halved: now}
}

// wait returns zero and takes a write's turn, or returns how long to wait before asking again.
func (r *rate) wait(now time.Time) time.Duration {
	if passed := now.Sub(r.last); passed > 0 {
		r.tokens = min(burst, r.tokens+r.perSecond*passed.Seconds())
		rise := max(rateRise, r.perSecond/10)
		if !r.troubled {
			rise = r.perSecond
		}
		r.perSecond = min(r.most, r.perSecond+rise*min(1, passed.Seconds()))
		r.last = now
	}
	if pause := r.until.Sub(now); pause > 0 {
		return pause
	}
	if r.tokens >= 1 {
		r.tokens--
		return 0
	}
	return time.Duration((1 - r.tokens) / r.perSecond * float64(time.Second))
}

// answered takes in how a write went. Trouble is an answer that says so (too many requests, a timeout). One slow answer is
// not: the latest ones together must be.
func (r *rate) answered(now time.Time, latency time.Duration, trouble bool, retryAfter time.Duration) {
	if retryAfter > 0 {
		r.until = now.Add(retryAfter)
	}
	r.recent += (latency - r.recent) / 16
	if (trouble || r.recent > slowLatency) && now.Sub(r.halved) >= halvingPause {
		r.perSecond, r.halved, r.troubled = max(leastRate, r.perSecond/2), now, true
	}
}
