package api

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// jobQuery is the query of a list of jobs.
type jobQuery struct {
	store.JobFilter
	// running and archived select where to search.
	running, archived bool
	// impossible reports that a filter matches no job of ours.
	impossible bool
	only       guid.ID
	sort       string
	limit      int
	offset     int
}

// maxListedJobs is the length of the longest list; maxJobOffset is the largest offset into one.
const (
	maxListedJobs = 10_000
	maxJobOffset  = 1_000_000
)

// jobSorts maps the orders that clients may request to those of the store.
var jobSorts = map[string]store.JobSort{
	"none": store.SortByNumber, "id": store.SortByNumber, "start_time": store.SortByStartTime, "finish_time": store.SortByFinishTime,
	"duration": store.SortByDuration, "state": store.SortByState, "type": store.SortByType, "address": store.SortByNode,
	"task_name": store.SortByTask, "progress": store.SortByNumber,
}

// jobQuery reads the parameters of a list of jobs.
func (c *call) jobQuery(of core.OperationID) (q jobQuery, err error) {
	p := c.Parameters
	q.Operation = int32(of)
	if err := q.readTexts(p); err != nil {
		return q, err
	}
	if err := q.readFlags(p); err != nil {
		return q, err
	}
	if q.From, err = p.Moment("from_time"); err != nil {
		return q, err
	}
	if q.To, err = p.Moment("to_time"); err != nil {
		return q, err
	}
	if q.only, err = p.ID("job_competition_id"); err != nil {
		return q, err
	}
	return q, q.readPage(p)
}

func (q *jobQuery) readTexts(p wire.Parameters) error {
	for _, t := range []struct {
		into  *string
		names []string
	}{
		{&q.State, []string{"job_state", "state"}}, {&q.Type, []string{"job_type", "type"}}, {&q.Node, []string{"address"}},
		{&q.Task, []string{"task_name"}}, {&q.Tree, []string{"pool_tree"}},
	} {
		for _, name := range t.names {
			text, err := p.Text(name, "")
			if err != nil {
				return err
			}
			if text != "" {
				*t.into = text
				break
			}
		}
	}
	return nil
}

// readFlags reads boolean filters, and where to search. Flags of the form include_… decide only with the data source
// manual: the Python client always sends them, as false, and expects all jobs.
func (q *jobQuery) readFlags(p wire.Parameters) error {
	q.running, q.archived = true, true
	runtime, archive := true, true
	for _, f := range []struct {
		name string
		set  func(bool)
	}{
		{"with_stderr", func(with bool) { q.WithStderr = &with }},
		{"with_spec", func(with bool) { q.impossible = q.impossible || with }},
		{"with_fail_context", func(with bool) { q.impossible = q.impossible || with }},
		{"with_competitors", func(with bool) { q.impossible = q.impossible || with }},
		{"with_monitoring_descriptor", func(with bool) { q.impossible = q.impossible || with }},
		{"include_runtime", func(look bool) { runtime = runtime && look }},
		{"include_scheduler", func(look bool) { runtime = runtime && look }},
		{"include_controller_agent", func(look bool) { runtime = runtime && look }},
		{"include_archive", func(look bool) { archive = look }},
	} {
		if !p.Has(f.name) {
			continue
		}
		value, err := p.Boolean(f.name, false)
		if err != nil {
			return err
		}
		f.set(value)
	}
	source, err := p.Text("data_source", "auto")
	switch {
	case err != nil:
		return err
	case source == "runtime":
		q.archived = false
	case source == "archive":
		q.running = false
	case source == "manual":
		q.running, q.archived = runtime, archive
	case source != "auto":
		return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /data_source: it must be auto, manual, runtime or archive, not %q", wire.CutText(source, 100))
	}
	return nil
}

// readPage reads the order, the limit and the position where a list continues.
func (q *jobQuery) readPage(p wire.Parameters) error {
	sort, err := p.Text("sort_field", "none")
	if err != nil {
		return err
	}
	by, known := jobSorts[sort]
	if !known {
		return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /sort_field: jobs cannot be sorted by %q", wire.CutText(sort, 100))
	}
	order, err := p.Text("sort_order", "ascending")
	if err != nil {
		return err
	}
	q.sort, q.Sort, q.Reverse = sort, by, order == "descending"
	limit, err := p.Integer("limit", 1000)
	if err != nil {
		return err
	}
	offset, err := p.Integer("offset", 0)
	if err != nil {
		return err
	}
	token, err := p.Text("continuation_token", "")
	if err != nil {
		return err
	}
	if token != "" {
		text, found := strings.CutPrefix(token, continuation)
		if offset, err = strconv.ParseInt(text, 10, 64); err != nil || !found {
			return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /continuation_token")
		}
	}
	if limit < 0 || limit > maxListedJobs || offset < 0 || offset > maxJobOffset {
		return wire.Errorf(wire.CodeGeneric, "Error parsing parameters /limit and /offset: they must be from 0 to %d and %d", maxListedJobs, maxJobOffset)
	}
	q.limit, q.offset = int(limit), int(offset)
	return nil
}

// continuation is the prefix of tokens that mark where a list continues.
const continuation = "from:"

// listJobs lists an operation's running and finished jobs as one list.
func listJobs(c *call) (yson.Node, error) {
	v := c.operation
	q, err := c.jobQuery(v.Number)
	if err != nil {
		return yson.Node{}, err
	}
	names, err := c.Parameters.AttributeNamesOf("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	states, types := map[string]int64{}, map[string]int64{}
	jobs := q.runningJobs(c.Server, states, types)
	running := len(jobs)
	archive, err := q.archivedJobs(c, states, types)
	if err != nil {
		return yson.Node{}, err
	}
	archived := int64(0)
	if archive != nil {
		archived = archive.Total
		for i := range archive.Jobs {
			row := &archive.Jobs[i]
			jobs = append(jobs, &orchid.JobView{ID: guid.OfJob(row.Number), Operation: v.Number, Row: row})
		}
	}
	q.order(jobs, c.Now)
	from := min(q.offset, len(jobs))
	page := jobs[from:min(from+q.limit, len(jobs))]
	items := make([]yson.Node, len(page))
	for i, j := range page {
		entries, err := j.Describe(v, names, c.Now)
		if err != nil {
			return yson.Node{}, err
		}
		items[i] = yson.Map(entries...)
	}
	token := yson.Entity()
	if next := from + len(page); int64(next) < int64(running)+archived && len(page) > 0 {
		token = yson.String(continuation + strconv.Itoa(next))
	}
	return yson.Map(
		yson.Pair("jobs", yson.List(items...)),
		yson.Pair("cypress_job_count", yson.Entity()),
		yson.Pair("scheduler_job_count", yson.Int64(int64(running))),
		yson.Pair("controller_agent_job_count", yson.Int64(int64(running))),
		yson.Pair("archive_job_count", yson.Int64(archived)),
		yson.Pair("type_counts", countsNode(types)),
		yson.Pair("state_counts", countsNode(states)),
		yson.Pair("errors", yson.List()),
		yson.Pair("continuation_token", token)), nil
}

// runningJobs are the running jobs that pass the filters.
func (q *jobQuery) runningJobs(s *server.Server, states, types map[string]int64) (jobs []*orchid.JobView) {
	if !q.running || q.impossible || q.WithStderr != nil && *q.WithStderr {
		return nil
	}
	for _, job := range s.Jobs(core.OperationID(q.Operation)) {
		switch {
		case q.Node != "" && job.Node != q.Node, q.Task != "" && job.TaskName != q.Task, q.Tree != "" && job.Tree != q.Tree,
			!q.From.IsZero() && job.Start.Before(q.From), !q.To.IsZero() && !job.Start.Before(q.To),
			!q.only.IsZero() && job.ID != q.only:
			continue
		}
		stateFits, typeFits := q.State == "" || q.State == job.State, q.Type == "" || q.Type == orchid.JobType
		if typeFits {
			states[job.State]++
		}
		if stateFits {
			types[orchid.JobType]++
		}
		if stateFits && typeFits {
			jobs = append(jobs, &orchid.JobView{ID: job.ID, Operation: job.Operation, Live: job})
		}
	}
	return jobs
}

// archivedJobs are the finished jobs that pass the filters: as many as the page may need.
func (q *jobQuery) archivedJobs(c *call, states, types map[string]int64) (*store.JobList, error) {
	if !q.archived || q.impossible || !q.only.IsZero() {
		return nil, nil
	}
	filter, finished := q.JobFilter, true // for the others, our state is newer than the store's
	filter.Finished = &finished
	filter.Limit = max(q.offset+q.limit, 1)
	list, err := c.Server.Store().Jobs(c.Context, filter)
	if err != nil {
		return nil, err
	}
	for state, n := range list.States {
		states[state] += n
	}
	for kind, n := range list.Types {
		types[kind] += n
	}
	return &list, nil
}

// order sorts jobs as the query requests; equal jobs are sorted by number.
func (q *jobQuery) order(jobs []*orchid.JobView, now time.Time) {
	duration := func(j *orchid.JobView) time.Duration {
		if end := j.Finish(); !end.IsZero() {
			return end.Sub(j.Start())
		}
		return now.Sub(j.Start())
	}
	compare := func(a, b *orchid.JobView) int {
		switch q.sort {
		case "start_time":
			return a.Start().Compare(b.Start())
		case "finish_time":
			return a.Finish().Compare(b.Finish())
		case "duration":
			return cmp.Compare(duration(a), duration(b))
		case "state":
			return strings.Compare(a.State(), b.State())
		case "address":
			return strings.Compare(a.Node(), b.Node())
		case "task_name":
			return strings.Compare(a.Task(), b.Task())
		}
		return 0
	}
	slices.SortFunc(jobs, func(a, b *orchid.JobView) int {
		order := cmp.Or(compare(a, b), cmp.Compare(a.Number(), b.Number()))
		if q.Reverse {
			return -order
		}
		return order
	})
}
