package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/notation"
)

// podOperations makes pods of others the jobs of external operations.
type podOperations struct{ s *Scheduler }

// driverCaller is who starts and ends operations of pods.
var driverCaller = server.Caller{User: "root", Command: "kubernetes"}

const (
	// namespacesGroup is the group that the users of all namespaces belong to.
	namespacesGroup = "namespaces"
	// placeAnnotation holds the place of an operation's pods.
	placeAnnotation = "kubernetes_place"
)

// Known returns the external operations that have not ended.
func (o podOperations) Known(ctx context.Context) (known []picture.Known, err error) {
	list, err := o.s.Server.ExternalOperations(ctx)
	if err != nil {
		return nil, err
	}
	for _, record := range list {
		k := picture.Known{ID: record.ID.String(), Alias: record.Alias()}
		if text, there := record.Spec.Annotations.Value().Get(placeAnnotation); !there || json.Unmarshal([]byte(textOf(text)), &k.Place) != nil {
			continue // another driver's
		}
		known = append(known, k)
	}
	return known, nil
}

func textOf(v document.Value) string {
	text, _ := v.Text()
	return text
}

// Open starts an operation, unless its pool is denied.
func (o podOperations) Open(ctx context.Context, opening *picture.Opening) (picture.Opened, error) {
	place := &opening.Place
	denied := func(format string, args ...any) (picture.Opened, error) {
		return picture.Opened{Problem: &workload.Problem{Reason: workload.ReasonPoolDenied, Message: fmt.Sprintf(format, args...)}}, nil
	}
	trees := o.s.Server.Trees()
	name := place.Tree
	if name == "" {
		name = trees.Default
	}
	tree, there := trees.Find(name)
	if !there {
		return denied("there is no pool tree %q", name)
	}
	pool, there := tree.Tree.Pool(place.Pool)
	if !there && place.Given {
		return denied("there is no pool %q in tree %q", place.Pool, name)
	}
	user := workload.User(place.Namespace)
	holder := pool
	if !there {
		config := tree.Tree.Config()
		holder, _ = tree.Tree.Pool(config.DefaultParentPool.Value())
	}
	if patterns, listed := holder.Namespaces(); listed {
		if !pooltree.MatchesNamespace(patterns, place.Namespace) {
			return denied("pool %q of tree %q is for other namespaces: %s", place.Pool, name, strings.Join(patterns, ", "))
		}
	} else if err := o.s.mayUse(ctx, user, namespacesGroup, name, place.Pool); err != nil {
		return denied("pool %q of tree %q: %v", place.Pool, name, err)
	}
	weight := place.Weight
	if there && pool.Effective().Mode == pooltree.FIFO {
		weight = workload.FIFOWeight(opening.Priority)
	}
	spec, err := specOfPods(opening, name, weight)
	if err != nil {
		return denied("%v", err)
	}
	id, err := o.s.Server.StartExternal(ctx, driverCaller, server.Start{User: user, Spec: spec})
	var count *scheduling.CountError
	switch {
	case err == nil:
		return picture.Opened{ID: id.String()}, nil
	case errors.Is(err, server.ErrAliasInUse): // an earlier answer was lost
		if record, there := o.s.Server.Operation(server.OperationKey{Alias: opening.Alias}); there && record.Type == server.ExternalType {
			return picture.Opened{ID: record.ID.String()}, nil
		}
		return denied("%v", err)
	case errors.As(err, &count):
		return picture.Opened{Problem: &workload.Problem{Reason: workload.ReasonOperationLimit, Message: fmt.Sprintf("pool %q of tree %q has as many operations as it may: %v", place.Pool, name, err)}}, nil
	case ctx.Err() != nil, errors.Is(err, server.ErrNotLeading):
		return picture.Opened{}, err
	}
	return denied("pool %q of tree %q: %v", place.Pool, name, err)
}

// specOfPods returns the specification of an operation of pods.
func specOfPods(opening *picture.Opening, tree string, weight float64) (*operation.Specification, error) {
	place := &opening.Place
	kept, err := json.Marshal(place)
	if err != nil {
		return nil, err
	}
	external := map[string]any{}
	if place.GangSize > 1 {
		external["gang_size"], external["gang_whole"] = place.GangSize, place.GangWhole
	}
	if place.FreeRoomOnly {
		external["free_room_only"] = true
	}
	spec := map[string]any{
		"pool": place.Pool, "pool_trees": []string{tree}, "alias": opening.Alias, "external": external,
		"title": fmt.Sprintf("%s %s/%s", place.Kind, place.Namespace, place.Name), "annotations": map[string]any{placeAnnotation: string(kept)},
	}
	if weight > 0 {
		spec["weight"] = weight
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	v, err := notation.ParseJSON("", text)
	if err != nil {
		return nil, err
	}
	return operation.Read(v, operation.ReadOptions{External: true})
}

// Offer adds pods that wait.
func (o podOperations) Offer(ctx context.Context, offers []picture.Offer) (gone []string, err error) {
	list := make([]server.Offer, len(offers))
	for i := range offers {
		f := &offers[i]
		id, err := guid.Parse(f.Operation)
		if err != nil {
			return nil, err
		}
		list[i] = server.Offer{Operation: id, Offered: operation.Offered{
			Task: f.Task, Resources: f.Amounts, Class: operation.Class(f.Class), Alone: f.Alone, Priority: f.Priority, Cookies: f.Cookies,
		}}
	}
	refused, err := o.s.Server.Offer(ctx, list)
	for i := range refused {
		var state *operation.StateError
		switch {
		case refused[i] == nil:
		case errors.Is(refused[i], server.ErrNoSuchOperation), errors.As(refused[i], &state):
			gone = append(gone, offers[i].Operation)
		default:
			o.s.log.Warn("pods cannot be offered", "operation", offers[i].Operation, "task", offers[i].Task, "error", refused[i])
		}
	}
	return gone, err
}

// Withdraw removes pods that wait.
func (o podOperations) Withdraw(ctx context.Context, list []picture.Withdrawal) error {
	withdrawals := make([]server.Withdrawal, len(list))
	for i, w := range list {
		id, err := guid.Parse(w.Operation)
		if err != nil {
			return err
		}
		withdrawals[i] = server.Withdrawal{Operation: id, Task: w.Task, Cookies: w.Cookies}
	}
	return o.s.Server.Withdraw(ctx, withdrawals)
}

// End ends an operation.
func (o podOperations) End(ctx context.Context, id string) error {
	parsed, err := guid.Parse(id)
	if err != nil {
		return err
	}
	err = o.s.Server.EndExternal(ctx, driverCaller, parsed)
	if errors.Is(err, server.ErrNoSuchOperation) || errors.Is(err, server.ErrOperationEnded) {
		return nil
	}
	return err
}

// Why returns why the pods of an operation wait.
func (o podOperations) Why(ctx context.Context, id string) (*workload.Problem, error) {
	parsed, err := guid.Parse(id)
	if err != nil {
		return nil, err
	}
	record, there := o.s.Server.Operation(server.OperationKey{ID: parsed})
	if !there {
		return nil, nil
	}
	answer, err := o.s.Server.ExplainOperation(ctx, "root", record.Number, false, time.Time{})
	if err != nil {
		return nil, err
	}
	return reasonOf(answer.Value), nil
}

// SectionsVersion changes whenever the answer of Sections does.
func (o podOperations) SectionsVersion() uint64 { return o.s.Server.SectionsVersion() }

// Sections returns the tasks of ordinary operations that say something about their pods.
func (o podOperations) Sections(ctx context.Context) (list []picture.TaskSection, err error) {
	sections, err := o.s.Server.ListSections(ctx)
	for i := range sections {
		s := &sections[i]
		list = append(list, picture.TaskSection{Operation: s.Operation.String(), Task: s.Task, Extra: s.Extra})
	}
	return list, err
}

// Classify sets the constraint classes of tasks.
func (o podOperations) Classify(ctx context.Context, list []picture.Classification) error {
	classes := make([]server.Classification, len(list))
	for i, c := range list {
		id, err := guid.Parse(c.Operation)
		if err != nil {
			return err
		}
		classes[i] = server.Classification{Operation: id, Task: c.Task, Class: operation.Class(c.Class), Alone: c.Alone}
	}
	return o.s.Server.Classify(ctx, classes)
}

// reasonOf translates what the operation of pods waits for. Unschedulable means that a new node would help: autoscalers add
// nodes for it, and for nothing else.
func reasonOf(x *why.Operation) *workload.Problem {
	blockers := x.Blockers
	if len(blockers) == 0 {
		blockers = x.Then
	}
	if len(blockers) == 0 || len(x.Facts.Trees) == 0 {
		return nil
	}
	tree := &x.Facts.Trees[0]
	say := func(reason, format string, args ...any) *workload.Problem {
		return &workload.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch b := &blockers[0]; b.Code {
	case why.SchedulerReviving, why.SchedulerOverloaded, why.StoreUnavailable, why.NoWaitingJobs:
		return nil
	case why.CountLimit:
		return say(workload.ReasonOperationLimit, "pool %q of tree %q runs as many operations as it may", b.Pool, tree.Tree)
	case why.OperationNotRunning, why.OperationSuspended, why.OperationFailing, why.OperationBacksOff:
		return say(workload.ReasonOperationLimit, "the operation of the pod starts no pods now (%s)", b.Code)
	case why.Limit, why.JobLargerThanLimit:
		where := fmt.Sprintf("pool %q of tree %q", b.Pool, tree.Tree)
		if b.Pool == "" {
			where = "the operation of the pod"
		}
		return say(workload.ReasonPoolLimit, "%s has reached its limit of %s (%s)", where, b.Resource, b.Option)
	case why.Gang:
		if b.Gang.Aside.After(x.AsOf) {
			return say(workload.ReasonGang, "the gang found no room for all of its pods and steps aside for a while")
		}
	}
	return say(workload.ReasonUnschedulable, "%s; pool %q of tree %q may have more", nodesWithoutRoom(tree.Nodes, blockers), tree.Pool, tree.Tree)
}

// nodesWithoutRoom counts nodes by what keeps pods away from them.
func nodesWithoutRoom(all int, blockers []why.Blocker) string {
	var causes []string
	for i := range blockers {
		b := &blockers[i]
		if b.Nodes == 0 {
			continue
		}
		switch b.Code {
		case why.NodeResources, why.JobLargerThanAnyNode:
			causes = append(causes, fmt.Sprintf("%d had insufficient %s", b.Nodes, b.Resource))
		case why.NodeConstraints, why.NoNodeMatches, why.NodeFilter:
			causes = append(causes, fmt.Sprintf("%d didn't match what the pod demands of its node", b.Nodes))
		case why.NodeGated, why.NodeBan:
			causes = append(causes, fmt.Sprintf("%d take no pods now", b.Nodes))
		}
	}
	if len(causes) == 0 {
		return fmt.Sprintf("0/%d nodes are available: their room is given to others first", all)
	}
	return fmt.Sprintf("0/%d nodes are available: %s", all, strings.Join(causes, ", "))
}
