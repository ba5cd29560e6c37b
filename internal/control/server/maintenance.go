package server

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/guid"
)

// MaintenanceType is the restriction that a maintenance request puts on a node.
type MaintenanceType string

// Types of maintenance, as YTsaurus names them. The last three concern parts of a node
// that a scheduler does not have: they are stored and shown, and have no other effect.
const (
	// Ban removes a node from its tree; its jobs are aborted.
	Ban MaintenanceType = "ban"
	// Decommission and DisableSchedulerJobs leave a node its jobs and give it no new
	// ones.
	Decommission         MaintenanceType = "decommission"
	DisableSchedulerJobs MaintenanceType = "disable_scheduler_jobs"
	DisableWriteSessions MaintenanceType = "disable_write_sessions"
	DisableTabletCells   MaintenanceType = "disable_tablet_cells"
	PendingRestart       MaintenanceType = "pending_restart"
)

// MaintenanceTypes are all types. Setting a type's flag without a request creates a
// request under [FlagRequest], numbered in this order.
var MaintenanceTypes = []MaintenanceType{Ban, Decommission, DisableSchedulerJobs, DisableWriteSessions, DisableTabletCells, PendingRestart}

// FlagRequest is the identifier of the request that represents a flag which was set
// directly. It equals YTsaurus's and is the same on all nodes.
func FlagRequest(kind MaintenanceType) guid.ID {
	return guid.ID{3: uint32(slices.Index(MaintenanceTypes, kind) + 1)}
}

// flagComment is the comment of requests that represent flags.
const flagComment = "The attribute was set"

// MaintenanceRequest is a user's request to restrict a node. It applies until it is
// removed.
type MaintenanceRequest struct {
	ID      guid.ID         `json:"id"`
	Type    MaintenanceType `json:"type"`
	Comment string          `json:"comment,omitempty"`
	User    string          `json:"user,omitempty"`
	Time    time.Time       `json:"time,omitzero"`
}

// MostMaintenanceRequests limits the requests for one node, which are stored in one
// row.
const MostMaintenanceRequests = 100

// UnderMaintenance reports whether there is a request of this type for the node.
func (s *NodeSettings) UnderMaintenance(kind MaintenanceType) bool {
	return slices.ContainsFunc(s.Maintenance, func(r MaintenanceRequest) bool { return r.Type == kind })
}

// TakesNoJobs reports whether the node keeps its jobs and gets no new ones.
func (s *NodeSettings) TakesNoJobs() bool { return s.DisableJobs || s.Decommissioned }

// AddMaintenance adds a request.
func (s *NodeSettings) AddMaintenance(r MaintenanceRequest) error {
	if len(s.Maintenance) >= MostMaintenanceRequests {
		return fmt.Errorf("the node already has %d maintenance requests, which is the limit", len(s.Maintenance))
	}
	s.setMaintenance(append(slices.Clone(s.Maintenance), r))
	return nil
}

// RemoveMaintenance removes requests and returns how many there were of each type.
func (s *NodeSettings) RemoveMaintenance(doomed func(MaintenanceRequest) bool) map[MaintenanceType]int {
	removed := map[MaintenanceType]int{}
	s.setMaintenance(slices.DeleteFunc(slices.Clone(s.Maintenance), func(r MaintenanceRequest) bool {
		gone := doomed(r)
		if gone {
			removed[r.Type]++
		}
		return gone
	}))
	return removed
}

// SetMaintenanceFlag implements setting an attribute such as @banned: it replaces all
// requests of the type with the caller's setting.
func (s *NodeSettings) SetMaintenanceFlag(kind MaintenanceType, on bool, user string, now time.Time) {
	s.RemoveMaintenance(func(r MaintenanceRequest) bool { return r.Type == kind })
	if on {
		s.setMaintenance(append(s.Maintenance, MaintenanceRequest{ID: FlagRequest(kind), Type: kind, Comment: flagComment, User: user, Time: now}))
	}
}

// setMaintenance sorts requests, oldest first, and sets the flags that follow from
// them. The settings then own the slice. It must not be one that they had before,
// because settings are published.
func (s *NodeSettings) setMaintenance(list []MaintenanceRequest) {
	slices.SortFunc(list, func(a, b MaintenanceRequest) int {
		return cmp.Or(a.Time.Compare(b.Time), slices.Compare(a.ID[:], b.ID[:]))
	})
	s.Maintenance = list
	s.Banned, s.DisableJobs, s.Decommissioned = s.UnderMaintenance(Ban), s.UnderMaintenance(DisableSchedulerJobs), s.UnderMaintenance(Decommission)
}

// restore completes settings that were read from the store, where older versions wrote
// flags without requests.
func (s *NodeSettings) restore() {
	list := slices.Clone(s.Maintenance)
	for _, flag := range []struct {
		kind MaintenanceType
		on   bool
	}{{Ban, s.Banned}, {DisableSchedulerJobs, s.DisableJobs}, {Decommission, s.Decommissioned}} {
		if flag.on && !s.UnderMaintenance(flag.kind) {
			list = append(list, MaintenanceRequest{ID: FlagRequest(flag.kind), Type: flag.kind, Comment: flagComment})
		}
	}
	s.setMaintenance(list)
}
