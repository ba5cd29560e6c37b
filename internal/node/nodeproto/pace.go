package nodeproto

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Settings are the scheduler's settings for its nodes. A node replaces fields that are zero or
// below with the defaults when it reads them.
type Settings struct {
	HeartbeatPeriod          time.Duration
	HeartbeatSplay           time.Duration // added at random
	BackoffMin               time.Duration // after an error or a skipped scheduling
	BackoffMax               time.Duration
	BackoffFactor            float64
	CallTimeout              time.Duration
	MaxResultsPerReport      int
	MaxInlineOutput          int64
	MaxUploadPiece           int64
	MemoryWatchdogPeriod     time.Duration
	ResourceAdjustmentPeriod time.Duration
	MemoryOverdraftTimeout   time.Duration
	CPUOverdraftTimeout      time.Duration
}

// DefaultSettings returns the defaults of the reference.
func DefaultSettings() Settings {
	return Settings{
		HeartbeatPeriod:          5 * time.Second,
		HeartbeatSplay:           time.Second,
		BackoffMin:               5 * time.Second,
		BackoffMax:               time.Minute,
		BackoffFactor:            2,
		CallTimeout:              time.Minute,
		MaxResultsPerReport:      500,
		MaxInlineOutput:          64 << 10,
		MaxUploadPiece:           1 << 20,
		MemoryWatchdogPeriod:     time.Second,
		ResourceAdjustmentPeriod: 5 * time.Second,
		MemoryOverdraftTimeout:   5 * time.Minute,
		CPUOverdraftTimeout:      10 * time.Minute,
	}
}

func (s Settings) message() *nodev1.Settings {
	return &nodev1.Settings{
		HeartbeatPeriodUs:          Micros(s.HeartbeatPeriod),
		HeartbeatSplayUs:           Micros(s.HeartbeatSplay),
		BackoffMinUs:               Micros(s.BackoffMin),
		BackoffMaxUs:               Micros(s.BackoffMax),
		BackoffFactor:              s.BackoffFactor,
		CallTimeoutUs:              Micros(s.CallTimeout),
		MaxResultsPerReport:        int32(s.MaxResultsPerReport),
		MaxInlineOutput:            s.MaxInlineOutput,
		MaxUploadPiece:             s.MaxUploadPiece,
		MemoryWatchdogPeriodUs:     Micros(s.MemoryWatchdogPeriod),
		ResourceAdjustmentPeriodUs: Micros(s.ResourceAdjustmentPeriod),
		MemoryOverdraftTimeoutUs:   Micros(s.MemoryOverdraftTimeout),
		CpuOverdraftTimeoutUs:      Micros(s.CPUOverdraftTimeout),
	}
}

// SettingsOf reads settings from a message and fills in the defaults.
func SettingsOf(m *nodev1.Settings) Settings {
	s := DefaultSettings()
	for _, field := range []struct {
		us   int64
		into *time.Duration
	}{
		{m.GetHeartbeatPeriodUs(), &s.HeartbeatPeriod},
		{m.GetHeartbeatSplayUs(), &s.HeartbeatSplay},
		{m.GetBackoffMinUs(), &s.BackoffMin},
		{m.GetBackoffMaxUs(), &s.BackoffMax},
		{m.GetCallTimeoutUs(), &s.CallTimeout},
		{m.GetMemoryWatchdogPeriodUs(), &s.MemoryWatchdogPeriod},
		{m.GetResourceAdjustmentPeriodUs(), &s.ResourceAdjustmentPeriod},
		{m.GetMemoryOverdraftTimeoutUs(), &s.MemoryOverdraftTimeout},
		{m.GetCpuOverdraftTimeoutUs(), &s.CPUOverdraftTimeout},
	} {
		if field.us > 0 {
			*field.into = Duration(field.us)
		}
	}
	if factor := m.GetBackoffFactor(); factor >= 1 && factor <= 100 {
		s.BackoffFactor = factor
	}
	if count := m.GetMaxResultsPerReport(); count > 0 {
		s.MaxResultsPerReport = int(count)
	}
	if size := m.GetMaxInlineOutput(); size > 0 {
		s.MaxInlineOutput = size
	}
	if size := m.GetMaxUploadPiece(); size > 0 {
		s.MaxUploadPiece = size
	}
	s.BackoffMax = max(s.BackoffMax, s.BackoffMin)
	return s
}

// Pace decides when a node reports next. It is a value without a clock: the owner passes in how
// each exchange went and a random number from [0, 1).
type Pace struct {
	settings Settings
	backoff  time.Duration // zero after a success
	searches int           // how often there was no leader since the last success
}

// Adopt applies new settings.
func (p *Pace) Adopt(settings Settings) { p.settings = settings }

// Failed returns the pause after an exchange that brought no answer, a refusal, or an answer
// without scheduling. The pause is at least what a refusal requested; zero if nothing.
func (p *Pace) Failed(least time.Duration, random float64) time.Duration {
	s := p.filled()
	if p.backoff == 0 {
		p.backoff = s.BackoffMin
	} else {
		p.backoff = min(time.Duration(float64(p.backoff)*s.BackoffFactor), s.BackoffMax)
	}
	// From half of the backoff to all of it: nodes that failed together spread out.
	return max(p.backoff/2+time.Duration(random*float64(p.backoff/2)), least)
}

// AfterError returns the pause after an exchange that ended with an error. If no scheduler
// answered as the leader, the pause does not grow: a new leader hears from the node within a
// heartbeat period, and the requests are cheap for a standby.
func (p *Pace) AfterError(err error, random float64) time.Duration {
	if isLeaderless(err) {
		return p.leaderless(random)
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		return p.Failed(refused.RetryAfter, random)
	}
	return p.Failed(0, random)
}

// A takeover takes a few seconds. The first searches for a new leader come soon after each
// other, so that nodes get work as soon as one leads.
const (
	searchPause   = time.Second
	quickSearches = 10
)

// leaderless is the pause while there is no leader, or the leader cannot write.
func (p *Pace) leaderless(random float64) time.Duration {
	s := p.filled()
	pause := min(s.HeartbeatPeriod, s.BackoffMin)
	if p.searches++; p.searches <= quickSearches {
		pause = min(pause, searchPause)
	}
	return pause/2 + time.Duration(random*float64(pause/2))
}

// isLeaderless reports whether an error means that no scheduler answered as the leader: they
// stand by, cannot be reached, or do not answer.
func isLeaderless(err error) bool {
	var notLeader *NotLeaderError
	var remote *connect.Error
	switch {
	case errors.As(err, &notLeader):
		return true
	case errors.As(err, &remote):
		return remote.Code() == connect.CodeUnavailable || remote.Code() == connect.CodeDeadlineExceeded
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// holdPause is the pause between a response and the next heartbeat if the scheduler holds heartbeats: what happens on
// the node right after its orders is then in one report.
const holdPause = 5 * time.Millisecond

// Hold returns how long the scheduler may hold a heartbeat: a period with a random splay, but well below the time
// after which the node gives the call up.
func (p *Pace) Hold(random float64) time.Duration {
	s := p.filled()
	return min(s.HeartbeatPeriod+time.Duration(random*float64(s.HeartbeatSplay)), s.CallTimeout/2)
}

// Succeeded returns the pause after an exchange, given the response to a heartbeat (nil after
// a registration, which a heartbeat follows at once).
func (p *Pace) Succeeded(response *nodev1.HeartbeatResponse, random float64) time.Duration {
	switch response.GetSchedulingSkipped() {
	case nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED:
	case nodev1.SkipReason_SKIP_REASON_STORE_UNAVAILABLE:
		return p.leaderless(random)
	default:
		return p.Failed(Duration(response.GetNextHeartbeatUs()), random)
	}
	p.backoff, p.searches = 0, 0
	s := p.filled()
	switch {
	case response == nil, response.GetMore(), response.GetNeedFull():
		return 0
	case response.GetNextHeartbeatUs() > 0:
		return Duration(response.GetNextHeartbeatUs())
	case response.GetHolds():
		return holdPause
	}
	return s.HeartbeatPeriod + time.Duration(random*float64(s.HeartbeatSplay))
}

func (p *Pace) filled() Settings {
	if p.settings.HeartbeatPeriod == 0 {
		return DefaultSettings()
	}
	return p.settings
}
