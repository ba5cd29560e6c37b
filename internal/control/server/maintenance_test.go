package server

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/guid"
)

// After any sequence of changes, a node's flags follow from its table of requests, and settings
// published earlier have not changed.
func TestFlagsOfANodeFollowFromItsRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s NodeSettings
		model := map[guid.ID]MaintenanceRequest{}
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range rapid.IntRange(1, 30).Draw(t, "changes") {
			published := s
			before, err := json.Marshal(published)
			if err != nil {
				t.Fatal(err)
			}
			kind := rapid.SampledFrom(MaintenanceTypes).Draw(t, "type")
			user := rapid.SampledFrom([]string{"anna", "boris"}).Draw(t, "user")
			now := begin.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				r := MaintenanceRequest{ID: guid.New(guid.Object, 1, uint64(i)), Type: kind, Comment: "why", User: user, Time: now}
				if err := s.AddMaintenance(r); err != nil {
					t.Fatal(err)
				}
				model[r.ID] = r
			case 1, 2:
				doomed := func(r MaintenanceRequest) bool { return r.Type == kind && r.User == user }
				want := map[MaintenanceType]int{}
				maps.DeleteFunc(model, func(_ guid.ID, r MaintenanceRequest) bool {
					if doomed(r) {
						want[r.Type]++
					}
					return doomed(r)
				})
				if got := s.RemoveMaintenance(doomed); !maps.Equal(got, want) {
					t.Fatalf("removed %v, want %v", got, want)
				}
			case 3:
				on := rapid.Bool().Draw(t, "on")
				s.SetMaintenanceFlag(kind, on, user, now)
				maps.DeleteFunc(model, func(_ guid.ID, r MaintenanceRequest) bool { return r.Type == kind })
				if on {
					model[FlagRequest(kind)] = MaintenanceRequest{Type: kind, User: user}
				}
			}
			if after, _ := json.Marshal(published); string(after) != string(before) {
				t.Fatalf("published settings changed from %s to %s", before, after)
			}
			checkFlags(t, &s, model)
		}
		var read NodeSettings
		data, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(data, &read)
		}
		if err != nil {
			t.Fatal(err)
		}
		read.restore()
		checkFlags(t, &read, model)
	})
}

func checkFlags(t *rapid.T, s *NodeSettings, model map[guid.ID]MaintenanceRequest) {
	under := map[MaintenanceType]bool{}
	for _, r := range model {
		under[r.Type] = true
	}
	for _, kind := range MaintenanceTypes {
		if s.UnderMaintenance(kind) != under[kind] {
			t.Fatalf("%s: %v, want %v", kind, s.UnderMaintenance(kind), under[kind])
		}
	}
	if s.Banned != under[Ban] || s.DisableJobs != under[DisableSchedulerJobs] || s.Decommissioned != under[Decommission] {
		t.Fatalf("flags %+v, want %v", s, under)
	}
	if len(s.Maintenance) != len(model) {
		t.Fatalf("%d requests, want %d", len(s.Maintenance), len(model))
	}
	if !slices.IsSortedFunc(s.Maintenance, func(a, b MaintenanceRequest) int { return a.Time.Compare(b.Time) }) {
		t.Fatalf("requests are not oldest first: %+v", s.Maintenance)
	}
}

func TestRequestsAboutANodeAreBounded(t *testing.T) {
	var s NodeSettings
	for i := range MostMaintenanceRequests {
		if err := s.AddMaintenance(MaintenanceRequest{ID: guid.New(guid.Object, 1, uint64(i)), Type: Ban}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddMaintenance(MaintenanceRequest{ID: guid.New(guid.Object, 2, 0), Type: Ban}); err == nil || len(s.Maintenance) != MostMaintenanceRequests {
		t.Errorf("one more is taken: %v, %d", err, len(s.Maintenance))
	}
}

func TestFlagsThatOlderVersionsStoredAreRequests(t *testing.T) {
	var s NodeSettings
	if err := json.Unmarshal([]byte(`{"banned":true,"ban_message":"disk","disable_scheduler_jobs":true}`), &s); err != nil {
		t.Fatal(err)
	}
	s.restore()
	if !s.Banned || !s.DisableJobs || s.Decommissioned || s.BanMessage != "disk" || len(s.Maintenance) != 2 ||
		s.Maintenance[0].ID != FlagRequest(Ban) || s.Maintenance[1].ID.String() != "0-0-0-3" {
		t.Errorf("%+v", s)
	}
	s.SetMaintenanceFlag(Ban, false, "root", time.Time{})
	if s.Banned || !s.DisableJobs || len(s.Maintenance) != 1 {
		t.Errorf("%+v", s)
	}
}
