package server

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
)

// Recorder returns what keeps the journals of this server, nil if none is written.
func (s *Server) Recorder() *recorder.Recorder { return s.recorder }

// record starts the journal of the term. The core is new.
func (t *term) record() {
	if t.server.recorder == nil {
		return
	}
	settings := t.server.settings()
	t.recording = t.server.recorder.Record(t.now, recorder.Term{
		Epoch: t.epoch, Core: t.core, UpdatePeriod: settings.UpdatePeriod, HeartbeatPeriod: settings.HeartbeatPeriod, Names: t.journalNames,
		Gates: func() *journal.Gates { return recorder.ToJournal(t.gates()) },
	})
}

// journalNames returns the names of all operations that have not ended, by number.
func (t *term) journalNames() []journal.Name {
	names := make([]journal.Name, 0, len(t.operations))
	for id, op := range t.operations {
		names = append(names, journalName(id, op.record))
	}
	slices.SortFunc(names, func(a, b journal.Name) int { return cmp.Compare(a.Operation, b.Operation) })
	return names
}

func journalName(id core.OperationID, op *Operation) journal.Name {
	return journal.Name{Operation: id, ID: op.ID.String(), Alias: op.Alias()}
}
