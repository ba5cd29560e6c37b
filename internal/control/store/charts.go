package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store/history"
)

// HistoryQuery selects the points of a chart.
type HistoryQuery struct {
	Tree  string
	Pool  string
	Level history.Level // history.Choose finds one
	// Resource and Names select series; empty means all.
	Resource string
	Names    []string
	// From <= time < To.
	From, To time.Time
}

// HistoryLine is one series of a chart.
type HistoryLine struct {
	Series HistorySeries
	Points []history.Point
}

// SeriesList returns all series that have a number, by number.
func (s *Store) SeriesList(ctx context.Context) ([]HistorySeries, error) {
	rows, err := historySeriesTable.list(ctx, reader{s}, historySeriesTable.orderClause())
	return rows, s.wrap(err)
}

// History returns the stored points of a pool, by series number; series without points are
// left out. It does not include what a recorder has not flushed: see history.Merge.
func (s *Store) History(ctx context.Context, q HistoryQuery) ([]HistoryLine, error) {
	all, err := s.SeriesList(ctx)
	if err != nil {
		return nil, err
	}
	var lines []HistoryLine
	var numbers []int32
	for _, series := range all {
		if (q.Resource == "" || q.Resource == series.Resource) && (len(q.Names) == 0 || slices.Contains(q.Names, series.Name)) {
			lines = append(lines, HistoryLine{Series: series})
			numbers = append(numbers, series.Number)
		}
	}
	step := int64(q.Level.Step() / time.Second)
	blocks, err := historyBlocksTable.list(ctx, reader{s},
		"WHERE tree = $1 AND pool = $2 AND level = $3 AND start >= $4 AND start < $5 ORDER BY start",
		q.Tree, q.Pool, step, microseconds(q.Level.BlockStart(q.From)), microseconds(q.To))
	if err != nil {
		return nil, s.wrap(err)
	}
	for i := range blocks {
		block := history.Block{Tree: blocks[i].Tree, Pool: blocks[i].Pool, Level: q.Level, Start: blocks[i].Start, Data: blocks[i].Data}
		points, err := block.Points(numbers, q.From, q.To)
		if err != nil {
			return nil, err
		}
		for n := range lines {
			lines[n].Points = append(lines[n].Points, points[lines[n].Series.Number]...)
		}
	}
	return slices.DeleteFunc(lines, func(l HistoryLine) bool { return len(l.Points) == 0 }), nil
}

// RestoreHistory passes a recorder the stored blocks that contain the current time, so
// that it continues them instead of replacing them.
func (s *Store) RestoreHistory(ctx context.Context, recorder *history.Recorder, now time.Time) error {
	for _, level := range history.Levels {
		blocks, err := historyBlocksTable.list(ctx, reader{s}, "WHERE level = $1 AND start = $2 ORDER BY tree, pool",
			int64(level.Step()/time.Second), microseconds(level.BlockStart(now)))
		if err != nil {
			return s.wrap(err)
		}
		for _, b := range blocks {
			block := history.Block{Tree: b.Tree, Pool: b.Pool, Level: level, Start: b.Start, Data: b.Data}
			if err := recorder.Restore(now, block); err != nil {
				return fmt.Errorf("restore history: %w", err)
			}
		}
	}
	return nil
}

// PutHistory adds flushed blocks to a batch.
func (b *Batch) PutHistory(blocks []history.Block) {
	for _, block := range blocks {
		b.Put.HistoryBlocks = append(b.Put.HistoryBlocks, HistoryBlock{
			Tree: block.Tree, Pool: block.Pool, Level: int32(block.Level.Step() / time.Second), Start: block.Start, Data: block.Data,
		})
	}
}
