package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
)

// eventsCall is one call of weir events.
type eventsCall struct {
	filter   client.EventFilter
	since    time.Duration
	limit    int64
	follow   bool
	interval time.Duration
}

func newEventsCommand(opts *options) *cobra.Command {
	r, c := newRemote(opts), &eventsCall{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show the scheduler's decisions with their reasons, oldest first",
		Long: `Show the log of decisions: jobs started, ended and preempted, states of operations, starvation,
nodes, changes of pools; each with its reason. The command prints the most recent events, oldest first;
--follow continues with new ones as they happen.`,
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
	flags.StringSliceVarP(&c.filter.Types, "type", "t", nil, "only events of this type, such as job_started, job_preempted, operation_failed; may be repeated")
	flags.StringVar(&c.filter.Operation, "operation", "", "only events of this operation")
	flags.StringVar(&c.filter.JobID, "job", "", "only events of this job")
	flags.StringVar(&c.filter.Tree, "tree", "", "only those of this pool tree")
	flags.StringVarP(&c.filter.Pool, "pool", "p", "", "only those of this pool")
	flags.StringVar(&c.filter.Node, "node", "", "only those of this node")
	flags.DurationVar(&c.since, "since", 0, "only events of the last 30m, or another duration")
	flags.Int64Var(&c.limit, "limit", 100, "show at most this many past events")
	flags.BoolVar(&c.follow, "follow", false, "continue with new events until Ctrl-C")
	flags.DurationVar(&c.interval, "interval", time.Second, "polling interval with --follow")
	r.mustComplete(cmd, "operation", r.completeOperations())
	r.mustComplete(cmd, "pool", r.completePools())
	r.mustComplete(cmd, "node", r.completeNodes())
	r.mustComplete(cmd, "tree", r.completeTrees())
	return r.addTo(cmd)
}

func (c *eventsCall) run(s *session, _ []string) error {
	if c.follow && c.interval < 100*time.Millisecond {
		return usageErrorf("--interval must be at least 100ms, not %v", c.interval)
	}
	if c.since > 0 {
		c.filter.From = time.Now().Add(-c.since)
	}
	var err error
	if c.filter.Operation, err = s.operation(c.filter.Operation); err != nil {
		return err
	}
	events, err := s.LastEvents(s.ctx, c.filter, c.limit)
	if err != nil {
		return err
	}
	if !c.follow {
		raw := make([]client.Value, len(events))
		for i := range events {
			raw[i] = events[i].Raw
		}
		all, err := client.ValueOf(raw)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			fmt.Fprintln(s.errs, "weir: no event matches; without flags weir events shows the last ones of all types")
		}
		return s.print(all, func(w io.Writer) error { return writeEvents(w, events...) })
	}
	last := int64(0)
	for _, e := range events {
		if err := s.printEvent(e); err != nil {
			return err
		}
		last = e.ID
	}
	for e, err := range s.FollowEvents(s.ctx, c.filter, last, c.interval) {
		if err != nil {
			return err
		}
		if err := s.printEvent(*e); err != nil {
			return err
		}
	}
	return nil
}

// printEvent prints an event as it arrives: a line, or a document.
func (s *session) printEvent(e client.Event) error {
	return s.print(e.Raw, func(w io.Writer) error { return writeEvents(w, e) })
}

// placesOfEvent are the keys of the objects that an event concerns; the rest are facts.
var placesOfEvent = []string{"operation_id", "job_id", "pool_tree", "pool", "node"}

// writeEvents prints events, one per line: time, kind, objects, facts.
func writeEvents(w io.Writer, events ...client.Event) error {
	paint := painter(w)
	for _, e := range events {
		at := e.Time.Local().Format("2006-01-02 15:04:05.000")
		var parts []string
		for _, key := range placesOfEvent {
			if value := cell(e.Raw.Get(key)); value != nothing {
				parts = append(parts, strings.TrimSuffix(key, "_id")+"="+value)
			}
		}
		for key, fact := range e.Raw.Entries() {
			if !slices.Contains(placesOfEvent, key) && key != "id" && key != "timestamp" && key != "event_type" && !fact.IsNull() {
				if text := cell(fact); text != "" {
					parts = append(parts, key+"="+text)
				}
			}
		}
		if _, err := fmt.Fprintf(w, "%s  %s  %s\n", paint(styleDim, at), paint(eventStyle(e.Type), fmt.Sprintf("%-20s", e.Type)), strings.Join(parts, " ")); err != nil {
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
