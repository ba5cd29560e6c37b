package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/wire"
)

func TestAReportStatesWhichGuaranteesWereKept(t *testing.T) {
	t.Parallel()
	c := withPools(t, "team", "hidden", "free")
	c.set("//sys/pools/team/@strong_guarantee_resources", "{cpu=1000}") // more than there is
	c.set("//sys/pools/hidden/@strong_guarantee_resources", "{cpu=1}")
	c.start(job("team", "sleep", 1))
	var report string
	c.eventually("something was due", func() bool {
		report = c.must("get_report", "{report=guarantees;pool=team}", "")
		return strings.Contains(report, `"kept"=`) && !strings.Contains(report, `"due"=0.;`)
	})
	n := c.node("get_report", "{report=guarantees}")
	pools := dug(n, "pools").Items()
	if len(pools) != 2 || text(pools[0], "pool") != "hidden" || text(pools[1], "pool") != "team" || text(pools[1], "resource") == "" {
		t.Errorf("the report is %v", n)
	}
	if !dug(pools[0], "kept").IsEntity() {
		t.Errorf("a pool without demand has kept %v", dug(pools[0], "kept"))
	}

	c.must("create", "{type=user;attributes={name=guard}}", "")
	c.set("//sys/pools/hidden/@acl", "[{action=deny;subjects=[guard];permissions=[read]}]")
	token := c.give("guard")
	if a := c.as(token, "get_report", "{report=guarantees;pool=hidden}", ""); a.status == 200 {
		t.Errorf("a pool that the user must not read is reported: %s", a.body)
	}
	if a := c.as(token, "get_report", "{report=guarantees}", ""); a.status != 200 || strings.Contains(a.body, "hidden") || !strings.Contains(a.body, "team") {
		t.Errorf("of all pools the user sees %d %s", a.status, a.body)
	}
}

func TestReportsOfWrongTimesAreRefused(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	for parameters, word := range map[string]string{
		"{}": "report", "{report=horoscope}": "horoscope", `{report=guarantees;from_time="2026-01-02";to_time="2026-01-01"}`: "from_time",
		`{report=guarantees;to_time="2999-01-01"}`: "to_time", `{report=guarantees;from_time=soon}`: "from_time", "{report=guarantees;pool_tree=moon}": "moon", "{report=guarantees;pool=nobody}": "nobody",
	} {
		a := c.do("get_report", parameters, "")
		if a.status == 200 || !strings.Contains(a.body, word) {
			t.Errorf("%s: %d %s", parameters, a.status, a.body)
		}
	}
	c.refused("get_report", fmt.Sprintf("{report=%q}", "horoscope"), "", wire.CodeGeneric, "guarantees")
}
