package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/value/yson"
)

// eventsCall is one call of weir events.
type eventsCall struct {
	types                      []string
	operation, job, tree, pool string
	node                       string
	since                      time.Duration
	limit                      int64
	follow                     bool
	interval                   time.Duration
}

func newEventsCommand(opts *options) *cobra.Command {
	r, c := newRemote(opts), &eventsCall{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what the scheduler decided and why, oldest first",
		Long: `Show the log of decisions: jobs started, ended and preempted, operations and their states, starvation,
nodes, changes of pools; each with its reason. The last ones are shown, oldest first; --follow goes
on with new ones as they come.`,
		Example: `  weir events
  weir events --type job_preempted --since 1h
  weir events --operation '*nightly' --limit 20
  weir events --pool research -o json

  # As it happens
  weir events --follow &`,
		Args: noArgs,
		RunE: r.do(c.run),
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&c.types, "type", "t", nil, "only events of this type, such as job_started, job_preempted, operation_failed; may be repeated")
	flags.StringVar(&c.operation, "operation", "", "only those of an operation")
	flags.StringVar(&c.job, "job", "", "only those of a job")
	flags.StringVar(&c.tree, "tree", "", "only those of a pool tree")
	flags.StringVarP(&c.pool, "pool", "p", "", "only those of a pool")
	flags.StringVar(&c.node, "node", "", "only those of a node")
	flags.DurationVar(&c.since, "since", 0, "only those of so long ago or later, such as 30m")
	flags.Int64Var(&c.limit, "limit", 100, "at most so many of the past")
	flags.BoolVar(&c.follow, "follow", false, "go on with new ones, until Ctrl-C")
	flags.DurationVar(&c.interval, "interval", time.Second, "how often to look, with --follow")
	r.mustComplete(cmd, "operation", r.completeOperations())
	r.mustComplete(cmd, "pool", r.completePools())
	r.mustComplete(cmd, "node", r.completeNodes())
	r.mustComplete(cmd, "tree", r.completeTrees())
	return r.addTo(cmd)
}

func (c *eventsCall) filter() []yson.Entry {
	filter := []yson.Entry{wordsIf("types", c.types), textIf("job_id", c.job), textIf("pool_tree", c.tree), textIf("pool", c.pool), textIf("node", c.node)}
	if c.operation != "" {
		filter = append(filter, operationKey(c.operation))
	}
	if c.since > 0 {
		filter = append(filter, textIf("from_time", time.Now().Add(-c.since).UTC().Format("2006-01-02T15:04:05.000000Z")))
	}
	return filter
}

func (c *eventsCall) run(s *session, _ []string) error {
	if c.follow && c.interval < 100*time.Millisecond {
		return usageErrorf("--interval must be at least 100ms, not %v", c.interval)
	}
	answer, err := s.ask("list_events", append(c.filter(), countIf("limit", c.limit))...)
	if err != nil {
		return err
	}
	events := slices.Clone(field(answer, "events").Items())
	slices.Reverse(events) // the newest came first
	last := int64(0)
	if len(events) > 0 {
		last = whole(events[len(events)-1], "id")
	}
	if !c.follow {
		return s.print(yson.List(events...), func(w io.Writer) error { return writeEvents(w, events) })
	}
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for {
		if err := s.printEach(events); err != nil {
			return err
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-ticker.C:
		}
		if events, err = c.after(s, &last); err != nil {
			return err
		}
	}
}

// after returns what has happened after the last event that was seen.
func (c *eventsCall) after(s *session, last *int64) ([]yson.Node, error) {
	answer, err := s.ask("list_events", append(c.filter(), countIf("limit", 1000), countIf("cursor", *last), flagIf("oldest_first", true))...)
	if err != nil {
		return nil, err
	}
	events := field(answer, "events").Items()
	if len(events) > 0 {
		*last = whole(events[len(events)-1], "id")
	}
	return events, nil
}

// printEach prints events as they come: a line each, or a document each.
func (s *session) printEach(events []yson.Node) error {
	for _, e := range events {
		if err := s.print(e, func(w io.Writer) error { return writeEvents(w, []yson.Node{e}) }); err != nil {
			return err
		}
	}
	return nil
}

// placesOfEvent are the keys that say whom an event concerns; the rest are facts.
var placesOfEvent = []string{"operation_id", "job_id", "pool_tree", "pool", "node"}

// writeEvents prints events, a line each: when, what, whom it concerns, facts.
func writeEvents(w io.Writer, events []yson.Node) error {
	paint := painter(w)
	for _, e := range events {
		at := moment(field(e, "timestamp")).Local().Format("2006-01-02 15:04:05.000")
		var parts []string
		for _, key := range placesOfEvent {
			if value := cell(field(e, key)); value != nothing {
				parts = append(parts, strings.TrimSuffix(key, "_id")+"="+value)
			}
		}
		for _, fact := range e.Entries() {
			if !slices.Contains(placesOfEvent, fact.Key) && fact.Key != "id" && fact.Key != "timestamp" && fact.Key != "event_type" && !fact.Value.IsEntity() {
				if text := cell(fact.Value); text != "" {
					parts = append(parts, fact.Key+"="+text)
				}
			}
		}
		kind := cell(field(e, "event_type"))
		if _, err := fmt.Fprintf(w, "%s  %s  %s\n", paint(styleDim, at), paint(eventStyle(kind), fmt.Sprintf("%-20s", kind)), strings.Join(parts, " ")); err != nil {
			return err
		}
	}
	return nil
}

func eventStyle(kind string) style {
	switch {
	case strings.HasSuffix(kind, "failed"), strings.Contains(kind, "violated"), strings.HasSuffix(kind, "offline"):
		return styleRed
	case strings.HasSuffix(kind, "preempted"), strings.HasSuffix(kind, "aborted"), strings.HasPrefix(kind, "starvation"):
		return styleYellow
	case strings.HasSuffix(kind, "completed"):
		return styleGreen
	}
	return styleCyan
}
