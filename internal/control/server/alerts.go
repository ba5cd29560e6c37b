package server

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// AlertKind is what an alert is about. There is at most one alert of a kind.
type AlertKind string

// Kinds of alerts.
const (
	AlertStore         AlertKind = "store_unavailable"
	AlertInvariants    AlertKind = "invariants_violated"
	AlertOverload      AlertKind = "overload"
	AlertNodesNoTree   AlertKind = "nodes_without_pool_tree"
	AlertNodesRefused  AlertKind = "update_nodes_failed"
	AlertNodesUnwell   AlertKind = "nodes_unwell"
	AlertRevival       AlertKind = "operations_not_revived"
	AlertFeasibility   AlertKind = "update_fair_share"
	AlertHistory       AlertKind = "history_not_stored"
	AlertRetention     AlertKind = "retention_failed"
	AlertPoolConfig    AlertKind = "update_pools"
	AlertDefaultTree   AlertKind = "unknown_default_pool_tree"
	AlertDefaultParent AlertKind = "unusable_default_parent_pool"
	AlertTokens        AlertKind = "tokens_not_read"
	AlertUnrecognized  AlertKind = "unrecognized_config_options"
	AlertSettings      AlertKind = "update_config"
	AlertOperationWait AlertKind = "operation_pending"
	AlertHeldBack      AlertKind = "nodes_awaited"
	AlertFiles         AlertKind = "files_not_read"
	AlertClock         AlertKind = "clock_was_set"
	AlertLoopback      AlertKind = "loopback_trusted"
	AlertLedger        AlertKind = "ledger_unexplained"
	AlertLedgerDiffers AlertKind = "ledger_differs"
	AlertForecasts     AlertKind = "forecast_uncalibrated"
	AlertBlobs         AlertKind = "blobs_unavailable"
	AlertBlobsApart    AlertKind = "blobs_not_shared"
	AlertKubernetes    AlertKind = "kubernetes_unavailable"
	AlertJournal       AlertKind = "journal_incomplete"
)

// Alert is a condition that administrators should know about.
type Alert struct {
	Kind    AlertKind
	Message string
	Since   time.Time
}

// alertBoard holds the alerts that are raised now.
type alertBoard struct {
	mutex  sync.Mutex
	alerts map[AlertKind]Alert
	// leftOut are the stored pools and trees that this term could not read. Only the
	// loop uses it.
	leftOut []string
	// untemplated are the trees that later templates would have made invalid.
	untemplated []string
}

// raise sets the alert of a kind. If it is already raised, it keeps its start
// time.
func (b *alertBoard) raise(kind AlertKind, message string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.alerts == nil {
		b.alerts = map[AlertKind]Alert{}
	}
	since := time.Now()
	if old, there := b.alerts[kind]; there {
		since = old.Since
	}
	b.alerts[kind] = Alert{Kind: kind, Message: message, Since: since}
}

// clear clears the alert of a kind.
func (b *alertBoard) clear(kind AlertKind) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.alerts, kind)
}

// reset clears all alerts.
func (b *alertBoard) reset() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	clear(b.alerts)
}

// set raises the alert of a kind, or clears it if the message is empty.
func (b *alertBoard) set(kind AlertKind, message string) {
	if message == "" {
		b.clear(kind)
		return
	}
	b.raise(kind, message)
}

// list returns the alerts, sorted by kind.
func (b *alertBoard) list() []Alert {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	list := make([]Alert, 0, len(b.alerts))
	for _, a := range b.alerts {
		list = append(list, a)
	}
	slices.SortFunc(list, func(x, y Alert) int { return strings.Compare(string(x.Kind), string(y.Kind)) })
	return list
}
