package api

import (
	"strings"
	"testing"
)

// A refusal suggests names that are similar to the one given, after the words that clients match
// on.
func TestRefusalsOfferWhatWasMeant(t *testing.T) {
	t.Parallel()
	c := withPools(t, "research")
	for _, test := range []struct{ command, parameters, data, words string }{
		{"get", `{path="//sys/pool_tree"}`, "", `Node //sys has no child with key "pool_tree"; did you mean "pool_trees"?`},
		{"get", `{path="//sys/pools/reserch"}`, "", `has no child with key "reserch"; did you mean "research"?`},
		{"get", `{path="//sys/pools/research/@wieght"}`, "", `Attribute "wieght" is not found: Did you mean "weight"?`},
		{"get", `{path="//sys/pools/research/@weight"}`, "", `Attribute "weight" is not found: It is not set; the effective value is in //sys/scheduler/orchid`},
		{"get", `{path="//sys/pools/research/@mode"}`, "", `Attribute "mode" is not found: It is not set; the default is "fair_share"`},
		{"get", `{path="//sys/pools/research/@fifo-sort-parameters"}`, "", `It is not set; the default is ["weight";"start_time";]`},
		{"get", `{path="//sys/pools/research/weight"}`, "", `has no child with key "weight"; it is an attribute: //sys/pool_trees/default/research/@weight`},
		{"set", `{path="//sys/pools/research/@fifo_sort_parameters"}`, "[weigth]", `Error parsing fifo_sort_parameters value`},
		{"get", `{path="//sys/pools/research/@zzz"}`, "", `Attribute "zzz" is not found`},
		{"set", `{path="//sys/pools/research"}`, "5", `cannot be set; its attributes are below //sys/pool_trees/default/research/@`},
		{"set", `{path="//sys/pools/research/@weight"}`, "-1", `Validation failed at /weight: pools/research/weight: must be a number from 0`},
		{"create", `{type=pool}`, "", `cannot be created without a path; did you mean "scheduler_pool"?`},
		{"create", `{type=usr}`, "", `did you mean "user"?`},
		{"create", `{type=scheduler_pool}`, "", `or a path such as //sys/pools/NAME`},
		{"get_operation", `{operation_id=research}`, "", `by its id or by its alias, which begins with a star`},
		{"list_operations", `{state=runing}`, "", `"runing" is no state of an operation`},
		{"list_nodes", `{state=dead}`, "", `it must be one of online, offline, banned, refused`},
		{"apply_pools", `{document="# nothing\n"}`, "", `The document is empty, which would remove every pool`},
	} {
		a := c.do(test.command, test.parameters, test.data)
		if a.status == 200 {
			t.Errorf("%s %s was not refused", test.command, test.parameters)
			continue
		}
		if e := parseError(t, a); !strings.Contains(e.Error(), test.words) {
			t.Errorf("%s %s: %q is not in %q", test.command, test.parameters, test.words, e.Error())
		}
	}
}

func TestEverythingWrongWithADocumentOfPoolsIsTold(t *testing.T) {
	t.Parallel()
	c := withPools(t, "research")
	const document = `pools:\n  a: {wieght: 3}\n  b: {min_share_resources: {cpu: -1}, mode: lifo}\n`
	e := parseError(t, c.do("plan_pools", `{file="pools.yaml";document="`+document+`"}`, ""))
	for _, words := range []string{
		`pools.yaml:2:7: pools/a/wieght: unknown option; did you mean "weight"?`, "pools.yaml:3:", "amount must not be negative", "must be fair_share or fifo",
	} {
		if !strings.Contains(e.Error(), words) {
			t.Errorf("%q is not in %q", words, e.Error())
		}
	}
	if len(e.Inner) != 3 || strings.Contains(e.Error(), "it is kept") {
		t.Errorf("%d problems: %s", len(e.Inner), e.Error())
	}
	if got := c.get("//sys/pools"); got != `{"research"={};}` {
		t.Error(got)
	}
}
