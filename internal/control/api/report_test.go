package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
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

func TestReportsHaveCostsAndBudgets(t *testing.T) {
	t.Parallel()
	c := withPools(t, "team", "hidden")
	if n := c.node("get_report", "{report=usage}"); !dug(n, "currency").IsEntity() {
		t.Errorf("without prices there is a currency: %v", n)
	}
	price := ledger.PricePeriod{Surplus: document.Some(ledger.Prices{CPU: document.Some(36_000_000.)})}
	settings := c.Server.Settings()
	settings.Prices = ledger.PriceList{Currency: document.Some("EUR"), Periods: document.Some([]ledger.PricePeriod{price})}
	settings.Budgets = []ledger.Budget{
		{Name: document.Some("team"), Pool: document.Some("team"), CPU: document.Some(1e-9)}, {Name: document.Some("secret"), Pool: document.Some("hidden"), Cost: document.Some(5.)},
	}
	c.Configure(settings)
	c.withNodes(1)
	c.start(job("team", "sleep", 1))
	var n yson.Node
	c.eventually("the usage costs something", func() bool {
		n = c.node("get_report", "{report=usage;by=[pool]}")
		total, _ := dug(n, "total_micros").Int64()
		return total > 0
	})
	line := dug(n, "lines").Items()[0]
	if total, cost := dug(n, "total_micros"), dug(line, "cost_micros"); text(n, "currency") != "EUR" || text(line, "line") != "usage" || !total.Equal(cost) {
		t.Errorf("the report is %v", n)
	}
	if n := c.node("get_report", "{report=usage;prices={currency=USD;prices=[{surplus={cpu=0}}]}}"); text(n, "currency") != "USD" {
		t.Errorf("another price list gives %v", n)
	}
	c.refused("get_report", "{report=usage;prices={prices=[{surplus={cpu=cheap}}]}}", "", wire.CodeGeneric, "prices/0/surplus/cpu")

	c.must("create", "{type=user;attributes={name=guard}}", "")
	c.set("//sys/pools/hidden/@acl", "[{action=deny;subjects=[guard];permissions=[read]}]")
	lines := dug(c.node("get_report", "{report=budgets}"), "lines").Items()
	if len(lines) != 2 || text(lines[0], "budget") != "team" || text(lines[0], "level") != "spent" || text(lines[1], "unit") != "EUR" || text(lines[1], "level") != "within" {
		t.Errorf("budgets are %v", lines)
	}
	if a := c.as(c.give("guard"), "get_report", "{report=budgets}", ""); a.status != 200 || strings.Contains(a.body, "secret") || !strings.Contains(a.body, "team") {
		t.Errorf("the user sees %d %s", a.status, a.body)
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
