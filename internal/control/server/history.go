package server

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/store/history"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// Series of a pool that exist for every resource, as amounts, and series that
// exist once. Their position is their number in the store: append new ones, never
// remove any.
var (
	resourceSeries = []string{
		"usage", "demand", "fair_share_strong", "fair_share_integral", "fair_share_weight", "strong_guarantee", "limit",
		"burst_guarantee", "resource_flow",
	}
	poolSeries = []string{"volume", "starvation", "operations", "running_operations", "running_jobs", "pending_jobs"}
)

// seriesList names all series.
func seriesList() (list []store.HistorySeries) {
	for _, name := range resourceSeries {
		for _, k := range resource.Kinds {
			list = append(list, store.HistorySeries{Number: int32(len(list)), Resource: k.String(), Name: name})
		}
	}
	for _, name := range poolSeries {
		list = append(list, store.HistorySeries{Number: int32(len(list)), Name: name})
	}
	return list
}

// chronicle records the time series for the charts. The loop records; readers
// query what is not stored yet.
type chronicle struct {
	mutex    sync.Mutex
	recorder *history.Recorder
	values   []float64
	flushed  time.Time
}

// historyFlushPeriod is how often recorded points are stored. A failed leader
// loses less than that.
const historyFlushPeriod = 10 * time.Second

// restore continues the series of an earlier leader.
func (c *chronicle) restore(ctx context.Context, db *store.Store, now time.Time) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.recorder, c.flushed = history.NewRecorder(), now
	return db.RestoreHistory(ctx, c.recorder, now)
}

// sampleHistory records a point of every pool, and stores the points from time to
// time.
func (t *term) sampleHistory() {
	if t.now.Sub(t.lastHistory) < t.server.settings().HistoryPeriod {
		return
	}
	t.lastHistory = t.now
	c := &t.server.chronicle
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, tree := range t.server.View().Picture.Trees {
		for p := range tree.Pools() {
			c.values = pointsOf(tree, p, c.values[:0])
			c.recorder.Record(t.now, tree.Name, p.Name, c.values)
		}
	}
	if t.now.Sub(c.flushed) >= historyFlushPeriod {
		c.flushed = t.now
		t.open.rows.PutHistory(c.recorder.Flush(t.now))
	}
}

// flushHistory stores all recorded points.
func (t *term) flushHistory() {
	c := &t.server.chronicle
	c.mutex.Lock()
	defer c.mutex.Unlock()
	t.open.rows.PutHistory(c.recorder.Flush(t.now))
}

// pointsOf returns the values of all series of a pool, by series number.
func pointsOf(tree *core.Tree, p *core.Pool, into []float64) []float64 {
	var guarantee, limit, burst, flow resource.Partial
	volume := math.NaN()
	if pool, configured := tree.Configured(p); configured {
		own := pool.Config()
		guarantee, limit = own.StrongGuarantee.Value(), own.ResourceLimits.Value()
		burst, flow = own.Integral.Burst.Value(), own.Integral.ResourceFlow.Value()
		if own.Integral.Type.Value() != pooltree.NoIntegral {
			volume = p.VolumeRatio
		}
	}
	shares := func(s resource.Shares) {
		for k, amount := range s.Of(tree.Total) {
			into = append(into, unitsOf(resource.Kind(k), amount))
		}
	}
	amounts := func(a resource.Amounts) {
		for k, amount := range a {
			into = append(into, unitsOf(resource.Kind(k), amount))
		}
	}
	partial := func(p resource.Partial) {
		for _, k := range resource.Kinds {
			amount, given := p.Get(k)
			if !given {
				into = append(into, math.NaN())
				continue
			}
			into = append(into, unitsOf(k, amount))
		}
	}
	amounts(p.Usage)
	amounts(p.Demand)
	shares(p.Share.Strong)
	shares(p.Share.Integral)
	shares(p.Share.WeightProportional)
	partial(guarantee)
	partial(limit)
	partial(burst)
	partial(flow)
	return append(into, volume, float64(p.Starvation), float64(p.Operations), float64(p.RunningOperations),
		float64(p.RunningJobs), float64(p.WaitingJobs))
}

func unitsOf(k resource.Kind, amount int64) float64 {
	var a resource.Amounts
	a[k] = amount
	return a.Float(k)
}

// HistoryQuery selects the charts of a pool.
type HistoryQuery struct {
	Tree, Pool string
	From, To   time.Time
	// Names and Resource select series; empty means all.
	Names    []string
	Resource string
	// MaxPoints determines the resolution of the answer; zero means 600.
	MaxPoints int
}

// History returns the series of a pool, including the last seconds.
func (s *Server) History(ctx context.Context, q HistoryQuery) ([]store.HistoryLine, history.Level, error) {
	if q.MaxPoints <= 0 {
		q.MaxPoints = 600
	}
	level := history.Choose(time.Now(), q.From, q.To, q.MaxPoints)
	lines, err := s.store.History(ctx, store.HistoryQuery{
		Tree: q.Tree, Pool: q.Pool, Level: level, Resource: q.Resource, Names: q.Names, From: q.From, To: q.To,
	})
	if err != nil || !s.Leading() {
		return lines, level, err
	}
	return s.chronicle.complete(lines, &q, level), level, nil
}

// complete adds points that are recorded but not stored to the stored series.
func (c *chronicle) complete(lines []store.HistoryLine, q *HistoryQuery, level history.Level) []store.HistoryLine {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var numbers []int32
	var wanted []store.HistorySeries
	for _, series := range seriesList() {
		if (q.Resource == "" || q.Resource == series.Resource) && (len(q.Names) == 0 || slices.Contains(q.Names, series.Name)) {
			numbers, wanted = append(numbers, series.Number), append(wanted, series)
		}
	}
	recorded := c.recorder.Points(q.Tree, q.Pool, level, numbers, q.From, q.To)
	stored := map[int32][]history.Point{}
	for _, line := range lines {
		stored[line.Series.Number] = line.Points
	}
	merged := lines[:0:0]
	for _, series := range wanted {
		if points := history.Merge(stored[series.Number], recorded[series.Number]); len(points) > 0 {
			merged = append(merged, store.HistoryLine{Series: series, Points: points})
		}
	}
	return merged
}

// retain deletes old rows in the background.
func (t *term) retain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(t.server.settings().RetentionPeriod):
		}
		policy, now := t.server.settings().Retention, time.Now()
		buried := t.catalogue.bury(&policy, now)
		removed, err := t.server.store.Retain(ctx, t.lease, policy, now)
		if err != nil || removed.Operations != buried {
			t.catalogue.forget() // it reads the store again and finds what is left
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.server.alerts.raise(AlertRetention, err.Error())
		default:
			t.server.alerts.clear(AlertRetention)
		}
	}
}
