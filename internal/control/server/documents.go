package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/jsontext"
	"github.com/weirhq/weir/internal/value/resource"
)

// mustJSON encodes one of our values, for which encoding never fails.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a value of %T cannot be written: %v", v, err))
	}
	return data
}

// amountsDocument returns a vector as documents have it: by resource name, in order of
// names, in units that people use, without zeros.
func amountsDocument(a resource.Amounts) []byte {
	document := append(make([]byte, 0, 64), '{')
	for _, k := range kindsByName {
		if a[k] == 0 {
			continue
		}
		if len(document) > 1 {
			document = append(document, ',')
		}
		document = append(jsontext.AppendQuote(document, k.String()), ':')
		document = strconv.AppendFloat(document, a.Float(k), 'f', -1, 64)
	}
	return append(document, '}')
}

var kindsByName = slices.SortedFunc(slices.Values(resource.Kinds[:]), func(a, b resource.Kind) int {
	return strings.Compare(a.String(), b.String())
})

// amountsFact is amountsDocument as the value of a fact.
func amountsFact(a resource.Amounts) json.RawMessage { return amountsDocument(a) }

// errorDocument returns an error in the form that clients know.
func errorDocument(e *nodev1.Error) []byte { return mustJSON(errorTree(e)) }

func errorTree(e *nodev1.Error) map[string]any {
	attributes := map[string]any{}
	for _, a := range e.GetAttributes() {
		attributes[a.GetName()] = attributeValue(a.GetValue())
	}
	inner := []any{}
	for _, i := range e.GetInnerErrors() {
		inner = append(inner, errorTree(i))
	}
	return map[string]any{"code": e.GetCode(), "message": e.GetMessage(), "attributes": attributes, "inner_errors": inner}
}

// attributeValue returns an attribute of an error: nodes send values as JSON, and
// anything else is text.
func attributeValue(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// failureOf returns an error in the form that controllers use.
func failureOf(e *nodev1.Error, node string) operation.Failure {
	return operation.Failure{Error: operationError(e), Fatal: e.GetFatal(), Node: node}
}

func operationError(e *nodev1.Error) operation.Error {
	out := operation.Error{Code: operation.ErrorCode(e.GetCode()), Message: e.GetMessage()}
	if out.Code == 0 {
		out.Code = operation.CodeGeneric
	}
	for _, i := range e.GetInnerErrors() {
		out.Inner = append(out.Inner, operationError(i))
	}
	return out
}

// outputText returns what is kept of a stream, with a note where something is
// missing.
func outputText(o *nodev1.Output) []byte {
	if len(o.GetTail()) == 0 {
		return o.GetHead()
	}
	text := append([]byte(nil), o.GetHead()...)
	text = fmt.Appendf(text, "\n… %d bytes are not kept …\n", o.GetSkipped())
	return append(text, o.GetTail()...)
}

// fact is a key of an event's document.
type fact struct {
	name  string
	value any
}

// event adds an entry to the decision log.
func (t *term) event(e store.Event, facts ...fact) {
	e.Time, e.Document = t.now, factsDocument(facts)
	t.open.rows.Put.Events = append(t.open.rows.Put.Events, e)
}

// factsDocument returns the facts that are not empty as an object, in order of names;
// nil if there are none. It sorts the facts.
func factsDocument(facts []fact) []byte {
	slices.SortFunc(facts, func(a, b fact) int { return strings.Compare(a.name, b.name) })
	var document []byte
	for _, f := range facts {
		if f.value == "" || f.value == nil {
			continue
		}
		if document == nil {
			document = append(make([]byte, 0, 128), '{')
		} else {
			document = append(document, ',')
		}
		document = append(jsontext.AppendQuote(document, f.name), ':')
		switch v := f.value.(type) {
		case string:
			document = jsontext.AppendQuote(document, v)
		case int64:
			document = strconv.AppendInt(document, v, 10)
		case json.RawMessage:
			document = append(document, v...)
		default:
			document = append(document, mustJSON(v)...)
		}
	}
	if document != nil {
		document = append(document, '}')
	}
	return document
}

// audit adds an audit record.
func (t *term) audit(who Caller, before, after []byte) {
	t.open.rows.Put.Audit = append(t.open.rows.Put.Audit, store.AuditRecord{
		Time: t.now, User: who.User, Command: who.Command, Object: who.Object, Request: who.Request, Before: before, After: after,
	})
}

// remember stores the answer to a mutation, so that the mutation is not carried
// out twice.
func (t *term) remember(who Caller, response []byte) {
	if who.Mutation == "" {
		return
	}
	t.open.rows.Put.Mutations = append(t.open.rows.Put.Mutations, store.Mutation{
		ID: who.Mutation, Expires: t.now.Add(t.server.settings().MutationTTL), Response: response,
	})
}

// jobCounts returns the "jobs" part of an operation's progress, as clients know
// it.
func jobCounts(s *operation.Statistics) document.Value {
	scheduled, unscheduled := []document.Entry{}, []document.Entry{}
	total, beforeStart := s.AbortedTotal()
	for reason, n := range s.Aborted {
		if n == 0 {
			continue
		}
		e := document.Pair(operation.AbortReason(reason).String(), document.Int(n))
		if operation.AbortReason(reason).BeforeStart() {
			unscheduled = append(unscheduled, e)
		} else {
			scheduled = append(scheduled, e)
		}
	}
	number := func(n int) document.Value { return document.Int(int64(n)) }
	group := func(total int64, entries []document.Entry) document.Value {
		return document.Map(append(entries, document.Pair("total", document.Int(total)))...)
	}
	return document.Map(
		document.Pair("total", number(s.Total)),
		document.Pair("pending", number(s.Pending)),
		document.Pair("running", number(s.Running)),
		document.Pair("completed", document.Map(
			document.Pair("total", document.Int(s.Completed-s.Lost)),
			document.Pair("interrupted", document.Map(document.Pair("total", document.Int(s.Interrupted)))),
			document.Pair("non-interrupted", document.Int(s.Completed-s.Lost)))),
		document.Pair("failed", document.Int(s.Failed)),
		document.Pair("aborted", document.Map(
			document.Pair("total", document.Int(total)),
			document.Pair("scheduled", group(total-beforeStart, scheduled)),
			document.Pair("non_scheduled", group(beforeStart, unscheduled)))),
		document.Pair("lost", document.Int(s.Lost)),
		document.Pair("invalidated", document.Int(0)),
		document.Pair("suspended", document.Int(0)),
		document.Pair("blocked", document.Int(0)),
		document.Pair("uncategorized", document.Int(0)),
	)
}

// BriefProgress returns the progress that lists of operations show.
func (o *Operation) BriefProgress() document.Value {
	return document.Map(
		document.Pair("state", document.Text(o.State.String())),
		document.Pair("build_time", document.Text(o.Built.UTC().Format(timeLayout))),
		document.Pair("jobs", jobCounts(&o.Jobs)),
	)
}

// FullProgress is BriefProgress with tasks and statistics.
func (o *Operation) FullProgress() document.Value {
	tasks := make([]document.Value, len(o.Tasks))
	for i := range o.Tasks {
		tasks[i] = document.Map(
			document.Pair("task_name", document.Text(o.Tasks[i].Name)),
			document.Pair("job_type", document.Text("vanilla")),
			document.Pair("job_counter", jobCounts(&o.Tasks[i].Value)),
		)
	}
	full := o.BriefProgress().With("tasks", document.List(tasks...))
	for _, e := range o.Progress.Entries() {
		full = full.With(e.Key, e.Value)
	}
	return full
}

// timeLayout is the format of times in documents.
const timeLayout = "2006-01-02T15:04:05.000000Z"
