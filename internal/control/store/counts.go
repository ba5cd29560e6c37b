package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// OperationCounts are the counts for the choices of each filter. A choice is counted among the
// operations that pass the filters before it, in the order tree, pool, user, state, type,
// failed jobs. Text and times filter all counts; the cursor does not.
type OperationCounts struct {
	Trees      map[string]int64
	Pools      map[string]int64
	Users      map[string]int64
	States     map[string]int64
	Types      map[string]int64
	FailedJobs int64
	// Total is the number of operations that pass all filters.
	Total int64
}

// CountOperations counts operations for the choices of each filter. It scans all operations
// that pass text and times, unless an earlier call has done so since the last commit.
func (s *Store) CountOperations(ctx context.Context, f OperationFilter) (OperationCounts, error) {
	counts := OperationCounts{
		Trees: map[string]int64{}, Pools: map[string]int64{}, Users: map[string]int64{},
		States: map[string]int64{}, Types: map[string]int64{},
	}
	groups, err := s.operationGroups(ctx, &f)
	if err != nil {
		return OperationCounts{}, fmt.Errorf("count operations: %w", s.wrap(err))
	}
	for i := range groups {
		counts.add(&f, &groups[i])
	}
	return counts, nil
}

// operationGroup is the number of operations with the same values.
type operationGroup struct {
	pools, user, state, typ string
	failed, count           int64
}

func (n *OperationCounts) add(f *OperationFilter, g *operationGroup) {
	pools := poolsOf(g.pools)
	for _, p := range pools {
		n.Trees[p.Tree] += g.count
	}
	if f.Tree != "" && !strings.Contains(g.pools, poolPattern(f.Tree, "")) {
		return
	}
	seen := make([]string, 0, 4)
	for _, p := range pools {
		if (f.Tree == "" || p.Tree == f.Tree) && !slices.Contains(seen, p.Pool) {
			n.Pools[p.Pool] += g.count
			seen = append(seen, p.Pool)
		}
	}
	if f.Pool != "" && !strings.Contains(g.pools, poolPattern(f.Tree, f.Pool)) {
		return
	}
	n.Users[g.user] += g.count
	if f.User != "" && f.User != g.user {
		return
	}
	n.States[g.state] += g.count
	if f.State != "" && f.State != g.state {
		return
	}
	n.Types[g.typ] += g.count
	if f.Type != "" && f.Type != g.typ {
		return
	}
	if g.failed != 0 {
		n.FailedJobs += g.count
	}
	if f.WithFailedJobs == nil || *f.WithFailedJobs == (g.failed != 0) {
		n.Total += g.count
	}
}

// groupKey is what groups of operations depend on beside the revision.
type groupKey struct {
	text     string
	from, to int64
	live     int8 // as a filter: 0 is any, 1 live, 2 archived
}

func (f *OperationFilter) groupKey() groupKey {
	key := groupKey{text: f.Text, from: microseconds(f.From), to: microseconds(f.To)}
	if f.Live != nil {
		key.live = 2
		if *f.Live {
			key.live = 1
		}
	}
	return key
}

// mostGroupings is the maximum number of groupings that are kept for one revision.
const mostGroupings = 8

// groupings are the groups of operations as of one revision, shared by all calls between two
// commits.
type groupings struct {
	mutex    sync.Mutex
	revision int64
	table    map[groupKey]*grouping
}

// grouping is one of them. The first caller that needs it computes it while the others wait.
type grouping struct {
	mutex  sync.Mutex
	made   bool
	groups []operationGroup
}

// at returns the slot of a grouping at a revision.
func (g *groupings) at(revision int64, key groupKey) *grouping {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.table == nil || revision != g.revision || len(g.table) >= mostGroupings && g.table[key] == nil {
		g.revision, g.table = revision, map[groupKey]*grouping{}
	}
	if g.table[key] == nil {
		g.table[key] = &grouping{}
	}
	return g.table[key]
}

func (g *groupings) forget() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.table = nil
	g.revision = 0
}

// operationGroups returns the operations that pass text and times, grouped by equal values. It
// reads the revision first: what is kept under it may be newer, never older.
func (s *Store) operationGroups(ctx context.Context, f *OperationFilter) ([]operationGroup, error) {
	revision, err := s.Revision(ctx)
	if err != nil {
		return nil, err
	}
	g := s.groupings.at(revision, f.groupKey())
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.made {
		return g.groups, nil
	}
	c := &conditions{}
	f.base(&s.engine, c)
	query := "SELECT pools, user_name, state, type, has_failed_jobs, count(*) FROM operations" + c.where() + " GROUP BY 1, 2, 3, 4, 5"
	var groups []operationGroup
	err = scanAll(ctx, reader{s}, query, c.args, func(scan func(...any) error) error {
		var group operationGroup
		if err := scan(&group.pools, &group.user, &group.state, &group.typ, &group.failed, &group.count); err != nil {
			return err
		}
		groups = append(groups, group)
		return nil
	})
	if err == nil {
		g.made, g.groups = true, groups
	}
	return groups, err
}
