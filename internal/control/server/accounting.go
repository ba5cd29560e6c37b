package server

import (
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// accountOf returns the account of an operation in a pool. Its labels are those with which it was first
// accounted.
func (t *term) accountOf(op *activeOperation, tree, pool string) ledger.Account {
	if op.labels == nil {
		labels := ledger.LabelsOf(t.server.settings().AccountingLabels, func(key string) (string, bool) {
			value, there := op.record.Spec.Annotations.Value().Get(key)
			if !there {
				return "", false
			}
			return labelText(value)
		})
		labels = t.server.books.usage.Admit(t.now, ledger.Account{Labels: labels}).Labels
		op.labels = &labels
	}
	return ledger.Account{Tree: tree, Pool: pool, User: op.record.User, Labels: *op.labels}
}

// labelText returns an annotation as a label. Lists and maps are no labels.
func labelText(value document.Value) (string, bool) {
	if text, ok := value.Text(); ok {
		return text, true
	}
	switch value.Kind() {
	case document.ListKind, document.MapKind, document.NullKind:
		return "", false
	}
	return value.String(), true
}

// spend enters the usage of an operation. The books are locked.
func (t *term) spend(s *core.Spent) {
	op := t.operations[s.Operation]
	if op == nil {
		return
	}
	t.server.books.usage.Spend(t.now, ledger.Seat{Operation: int32(s.Operation), Tree: s.Tree}, t.accountOf(op, s.Tree, s.Name), s.Usage)
}

// enterDeparture enters that an operation has ended and uses nothing.
func (t *term) enterDeparture(id core.OperationID) {
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, tree := range t.slots.names {
		b.usage.Spend(t.now, ledger.Seat{Operation: int32(id), Tree: tree}, ledger.Account{}, resource.Amounts{})
	}
}

// enterCover enters which part of the usage of pools their guarantees cover, as of the last update. The
// books are locked.
func (t *term) enterCover() {
	picture := t.server.View().Picture
	t.server.books.usage.Cover(t.now, func(name, pool string) (guaranteed, usage resource.Amounts) {
		tree, there := picture.Tree(name)
		if !there {
			return guaranteed, usage
		}
		if p, there := tree.Pool(pool); there {
			return p.Share.Strong.Add(p.Share.Integral).Of(tree.Total), p.Usage
		}
		return guaranteed, usage
	})
}

// enterFirstStart enters how long an operation waited for its first job.
func (t *term) enterFirstStart(op *activeOperation, tree string) {
	if op.waited {
		return
	}
	op.waited = true
	b := &t.server.books
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.usage.Wait(t.now, t.accountOf(op, tree, op.pool(tree)), t.now.Sub(op.record.Start))
}

// outcomeOf returns what became of a job.
func outcomeOf(state core.JobState, reason operation.AbortReason) ledger.Outcome {
	switch {
	case state == core.JobFailed:
		return ledger.Failed
	case state != core.JobAborted:
		return ledger.Completed
	case reason == operation.AbortPreemption, reason == operation.AbortNodeResourceOvercommit:
		return ledger.Preemption
	}
	return ledger.Aborted
}

// sizingOf compares what a job was given with what it used.
func sizingOf(job *Job, ran time.Duration, usage *operation.Usage, overdrafted bool) (s ledger.Sizing) {
	s.Given.Add(&job.Resources, ran)
	limit := job.Resources[resource.Memory]
	if r := job.Reserve; r != nil {
		limit += saved(r.User, r.UserFactor) + saved(r.Proxy, r.ProxyFactor)
	}
	s.Limit.AddAmount(limit, ran)
	if overdrafted {
		s.Overdrafts = 1
		s.OverdraftLost.Add(&job.Usage, ran)
	}
	if usage == nil {
		return s
	}
	s.Measured = 1
	var used resource.Amounts
	if usage.CPU != nil {
		used[resource.CPU] = usage.CPU.AggregatedSmoothedUsageX100 // hundredths of core·s
	}
	used[resource.Memory] = (usage.UserMemoryTime + usage.ProxyMemoryTime) << 20
	used = used.Max(resource.Amounts{})
	s.Used.Add(&used, time.Second)
	s.Peak.AddAmount(max(usage.UserMaxMemory+usage.ProxyMaxMemory, 0), ran)
	return s
}

// shadow returns what learning would do for the jobs of a task, nil if the task learns. It is forgotten with the term.
func (o *activeOperation) shadow(config *operation.MemoryConfig, task int32) *operation.Shadow {
	spec := o.record.Spec
	if config == nil || spec.IsExternal() {
		return nil
	}
	if o.shadows == nil {
		o.shadows = make([]*operation.Shadow, len(spec.Tasks))
		for i := range o.shadows {
			o.shadows[i] = operation.ShadowOf(&spec.Tasks[i].Value, config)
		}
	}
	return o.shadows[task]
}

// saved returns what a reserve is below the limit of which it is a part.
func saved(reserve int64, factor float64) int64 {
	if factor <= 0 || factor >= 1 {
		return 0
	}
	return max(int64(float64(reserve)/factor)-reserve, 0)
}
