package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// adviseOperation finds the least changes that let an operation start jobs now.
func adviseOperation(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	v := c.operation
	if err := v.MustLive(); err != nil {
		return yson.Node{}, err
	}
	q, err := c.question()
	if err != nil {
		return yson.Node{}, err
	}
	q.Operation = v.Number
	answer, err := c.Server.AdviseOperation(c.Context, c.Who.User, q)
	if err != nil {
		return yson.Node{}, err
	}
	a, names := answer.Value, c.operationNames(answer.Glass)
	fixes := make([]yson.Node, len(a.Fixes))
	for i := range a.Fixes {
		fixes[i] = c.fixNode(&a.Fixes[i], names)
	}
	tried := make([]yson.Node, len(a.Tried))
	for i := range a.Tried {
		entries := []yson.Entry{yson.Pair("knob", yson.String(a.Tried[i].Change.Knob.String())), yson.Pair("text", yson.String(a.Tried[i].Change.Text(names)))}
		if a.Tried[i].Refused != "" {
			entries = append(entries, yson.Pair("refused", yson.String(a.Tried[i].Refused)))
		}
		tried[i] = yson.Map(entries...)
	}
	notTried := make([]yson.Node, len(a.NotTried))
	for i := range a.NotTried {
		notTried[i] = yson.String(a.NotTried[i].Text(names))
	}
	gates := make([]yson.Node, len(a.Gates))
	for i, g := range a.Gates {
		gates[i] = yson.Map(yson.Pair("code", yson.String(g.Code.String())), yson.Pair("until", wire.Instant(g.Until)))
	}
	byItself := yson.Entity()
	if board := c.Server.Forecasts(); board.Operations[v.Number] != nil {
		byItself = yson.Map(orchid.ForecastEntries(board, board.Operations[v.Number])...)
	}
	return yson.Map(
		yson.Pair("operation_id", yson.String(v.ID.String())),
		yson.Pair("as_of", wire.Instant(answer.Glass.AsOf)), yson.Pair("epoch", yson.Int64(int64(answer.Glass.Epoch))),
		yson.Pair("forecast", byItself),
		yson.Pair("outcome", yson.String(a.Outcome.String())),
		yson.Pair("job_count", yson.Int64(int64(a.Jobs))), yson.Pair("starts_without_change", yson.Int64(int64(a.Starts))),
		yson.Pair("first_start_without_change", instantOrNothing(a.First)),
		yson.Pair("gates", yson.List(gates...)),
		yson.Pair("blockers", blockerNodes(a.Blockers, names)),
		yson.Pair("fixes", yson.List(fixes...)), yson.Pair("further_fix_count", yson.Int64(int64(a.Further))),
		yson.Pair("tried", yson.List(tried...)), yson.Pair("not_tried", yson.List(notTried...)),
		yson.Pair("test_count", yson.Int64(int64(a.Tests)))), nil
}

// question reads the parameters of advice.
func (c *call) question() (q why.Question, err error) {
	jobs, err := c.Parameters.Integer("jobs", 0)
	if err == nil && (jobs < why.AllJobs || jobs > 1<<30) {
		err = wire.Errorf(wire.CodeGeneric, "Error parsing parameter /jobs: it must be a number of jobs, 0 for the default or -1 for all, not %d", jobs)
	}
	if err != nil {
		return q, err
	}
	q.Jobs = int(jobs)
	if q.By, err = c.Parameters.Duration("by", 0); err == nil && (q.By < 0 || q.By > ahead.MaxHorizon) {
		err = wire.Errorf(wire.CodeGeneric, "Error parsing parameter /by: it must be at most %v", ahead.MaxHorizon)
	}
	if err != nil {
		return q, err
	}
	upto, err := c.Parameters.Text("upto", why.Administrator.String())
	if err != nil {
		return q, err
	}
	for q.Upto = why.User; q.Upto.String() != upto; q.Upto++ {
		if q.Upto == why.Administrator {
			return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /upto: there is no %q; there are user, owner and administrator", wire.CutText(upto, 100))
		}
	}
	names, err := c.Parameters.TextList("knobs")
	if err != nil {
		return q, err
	}
	for _, name := range names {
		knob, known := why.ParseKnob(name)
		if !known {
			return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /knobs: there is no %q; there are %s", wire.CutText(name, 100), strings.Join(why.Knobs(), ", "))
		}
		q.Knobs = append(q.Knobs, knob)
	}
	q.MayUse = c.mayUse
	q.Feasible = func(name string, tree *pooltree.Tree) error {
		verdict, err := c.feasibleTree(name, tree)
		if err == nil && verdict != nil && !verdict.OK {
			err = infeasible(verdict)
		}
		return err
	}
	return q, nil
}

// mayUse reports whether the caller may start operations in a pool.
func (c *call) mayUse(tree, pool string) bool {
	config, there := c.Server.Trees().Find(tree)
	if !there {
		return false
	}
	chain, err := orchid.PoolChain(c.Request, config, pool, c.Who.User)
	return err == nil && c.Require(auth.UsePool(chain)) == nil
}

func (c *call) fixNode(f *why.Fix, names namer) yson.Node {
	changes := make([]yson.Node, len(f.Changes))
	var commands []string
	complete := true
	for i := range f.Changes {
		change := &f.Changes[i]
		changes[i] = changeNode(change, names)
		command := c.commandOf(change, names)
		complete = complete && command != ""
		commands = append(commands, command)
	}
	entries := []yson.Entry{
		yson.Pair("text", yson.String(f.Text(names))), yson.Pair("effect", yson.String(f.Effect(names))),
		yson.Pair("who", yson.String(f.Who.String())), yson.Pair("minimal", yson.Boolean(f.Minimal)),
		yson.Pair("starts", startsNode(f.Starts, f.Node)), yson.Pair("changes", yson.List(changes...)),
		yson.Pair("harm", harmNode(&f.Harm, names)), yson.Pair("first_start", instantOrNothing(f.First)),
	}
	if complete {
		entries = append(entries, yson.Pair("commands", wire.Texts(commands)))
	}
	return yson.Map(entries...)
}

func instantOrNothing(at time.Time) yson.Node {
	if at.IsZero() {
		return yson.Entity()
	}
	return wire.Instant(at)
}

func harmNode(h *why.Harm, names namer) yson.Node {
	broken := make([]yson.Node, len(h.Broken))
	for i, b := range h.Broken {
		broken[i] = yson.Map(
			yson.Pair("pool", yson.String(b.Pool)), yson.Pair("resource", yson.String(b.Resource.String())),
			yson.Pair("due", wire.AmountNode(b.Resource, b.Due)), yson.Pair("short", wire.AmountNode(b.Resource, b.Short)))
	}
	delayed := make([]string, len(h.Delayed))
	for i, id := range h.Delayed {
		delayed[i] = names(id)
	}
	return yson.Map(
		yson.Pair("stopped_job_count", yson.Int64(int64(h.Stopped))), yson.Pair("lost_core_seconds", orchid.Number(h.LostSeconds())),
		yson.Pair("own_stopped_job_count", yson.Int64(int64(h.OwnStopped))), yson.Pair("own_lost_core_seconds", orchid.Number(h.OwnLostSeconds())),
		yson.Pair("broken_guarantees", yson.List(broken...)), yson.Pair("delayed_operations", wire.Texts(delayed)))
}

// changeNode writes a change; keys that do not apply to it are left out.
func changeNode(c *why.Change, names namer) yson.Node {
	entries := []yson.Entry{yson.Pair("knob", yson.String(c.Knob.String())), yson.Pair("who", yson.String(c.Who.String()))}
	text := func(key, value string) {
		if value != "" {
			entries = append(entries, yson.Pair(key, yson.String(value)))
		}
	}
	value := func(key string, v document.Value) {
		if !v.IsNull() {
			entries = append(entries, yson.Pair(key, wire.FromDocument(v)))
		}
	}
	text("pool_tree", c.Tree)
	text("pool", c.Pool)
	text("option", c.Option)
	text("task_name", c.Task)
	value("from", c.From)
	value("to", c.To)
	text("node", c.Node)
	if c.Count > 0 {
		entries = append(entries, yson.Pair("count", yson.Int64(int64(c.Count))), yson.Pair("resources", wire.AmountsNode(c.Resources)))
	}
	if c.Knob == why.KnobSuspend || c.Knob == why.KnobAbort || c.Knob == why.KnobWait && len(c.Jobs) == 0 && c.Operation != core.NoOperation {
		text("operation", names(c.Operation))
	}
	if len(c.Jobs) > 0 {
		jobs := make([]yson.Node, len(c.Jobs))
		for i := range c.Jobs {
			j := &c.Jobs[i]
			jobs[i] = yson.Map(
				yson.Pair("operation", yson.String(names(j.Operation))), yson.Pair("task_name", yson.String(j.Task)), yson.Pair("node", yson.String(j.NodeName)),
				yson.Pair("start_time", wire.Instant(j.Started)))
		}
		entries = append(entries, yson.Pair("jobs", yson.List(jobs...)))
	}
	if !c.Until.IsZero() {
		entries = append(entries, yson.Pair("until", wire.Instant(c.Until)))
	}
	return yson.Map(entries...)
}

// commandOf returns the command line that makes a change, empty if there is none.
func (c *call) commandOf(x *why.Change, names namer) string {
	own := shellWord(c.Server.NameOf(c.operation.Number))
	trees := len(c.Server.Trees().List)
	if (x.Knob == why.KnobSuspend || x.Knob == why.KnobAbort) && names(x.Operation) == anotherOperation {
		return "" // the caller must not know its name
	}
	switch x.Knob {
	case why.KnobResume:
		return "weir op resume " + own
	case why.KnobPool:
		if trees == 1 {
			return fmt.Sprintf("weir op update %s --pool %s", own, shellWord(x.Pool))
		}
		return fmt.Sprintf("weir op update %s --parameters %s", own, shellWord(fmt.Sprintf("{scheduling_options_per_pool_tree={%q={pool=%q}}}", x.Tree, x.Pool)))
	case why.KnobFilter:
		if x.Pool == "" {
			return fmt.Sprintf("weir op update %s --parameters '{scheduling_tag_filter=\"\"}'", own)
		}
		return "weir remove " + shellWord(c.poolPath(x)+"/@scheduling_tag_filter")
	case why.KnobSuspend:
		if x.Running {
			return "weir op suspend " + shellWord(names(x.Operation)) + " --abort-running-jobs"
		}
		return "weir op suspend " + shellWord(names(x.Operation))
	case why.KnobAbort:
		return "weir op abort " + shellWord(names(x.Operation))
	case why.KnobReleaseNode:
		return "weir nodes release " + shellWord(x.Node) + " --all"
	case why.KnobNodes, why.KnobNeed, why.KnobTree, why.KnobWait:
		return ""
	}
	switch {
	case x.Pool != "":
		value := x.To.String()
		if _, isText := x.To.Text(); isText {
			value = shellWord(value)
		}
		return fmt.Sprintf("weir set %s %s", shellWord(c.poolPath(x)+"/@"+x.Option), value)
	case x.Knob == why.KnobWeight && trees == 1:
		return fmt.Sprintf("weir op update %s --weight %v", own, x.To)
	case x.Knob == why.KnobWeight:
		return fmt.Sprintf("weir op update %s --parameters %s", own, shellWord(fmt.Sprintf("{scheduling_options_per_pool_tree={%q={weight=%v}}}", x.Tree, x.To)))
	}
	var limits []string
	for _, k := range resource.Kinds {
		if amount, set := x.Limits.Get(k); set {
			limits = append(limits, fmt.Sprintf("%s=%v", k, document.Number(float64(amount)/float64(k.Scale()))))
		}
	}
	return fmt.Sprintf("weir op update %s --parameters %s", own,
		shellWord(fmt.Sprintf("{scheduling_options_per_pool_tree={%q={resource_limits={%s}}}}", x.Tree, strings.Join(limits, ";"))))
}

// poolPath returns the path of the pool, or tree, that a change is about.
func (c *call) poolPath(x *why.Change) string {
	trees := c.Server.Trees()
	path := pathtree.PoolTreesPath + "/" + x.Tree
	if x.Tree == trees.Default && x.Pool != core.RootName {
		path = "//sys/pools"
	}
	if config, there := trees.Find(x.Tree); there {
		if p, there := config.Tree.Pool(x.Pool); there && !p.IsRoot() {
			path += p.Path()
		}
	}
	return path
}

// shellWord quotes a word for a shell, if that is needed.
func shellWord(text string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./@:,+=", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !safe(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
