package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/example"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
)

// smallScenario runs in a moment.
const smallScenario = `
name: small
duration: 1h
nodes: [{name: n, resources: {cpu: 4, memory: 16GiB}}]
pools: {p: {}}
operations: [{name: op, pool: p, arrival: 0s, job_count: 9, duration: 1m}]
`

// simulate sends a scenario as the web page does.
func (c *cluster) simulate(parameters map[string]any) answer {
	c.t.Helper()
	body, err := json.Marshal(parameters)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.send(http.MethodPost, "/api/v4/simulate", http.Header{"Content-Type": {"application/json"}}, body)
}

func TestAServerAnswersWhatTheSimulatorFound(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.simulate(map[string]any{"example": "starvation", "seed": 5})
	if a.status != http.StatusOK {
		t.Fatal(a.body)
	}
	var got struct {
		Report json.RawMessage `json:"report"`
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err)
	}
	answered, err := outcome.Parse("answer", got.Report)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := scenario.Read("x.yaml", []byte(exampleNamed(t, "starvation")), noFiles)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed, s.Samples, s.Statistics.Operations = 5, min(s.Samples, maxSimulatedSamples), maxReportedOperations
	direct, err := sim.Run(t.Context(), s, sim.Options{Promises: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*outcome.Result{answered, direct} {
		for i := range r.Expectations {
			r.Expectations[i].Where = "" // contains the file name
		}
	}
	want, err := direct.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := answered.JSON(); err != nil || string(again) != string(want) {
		t.Errorf("%v: the server found\n%.2000s\nand the simulator\n%.2000s", err, again, want)
	}
	if len(answered.Failed()) > 0 || len(answered.Expectations) == 0 {
		t.Errorf("expectations: %v", answered.Expectations)
	}
}

func exampleNamed(t *testing.T, name string) string {
	t.Helper()
	text, err := exampleText(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestExamplesAreListedWithTheirTextsAndEachRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	list := dug(c.node("list_scenarios", "{}"), "scenarios").Items()
	if len(list) != len(example.All()) || len(list) < 3 {
		t.Fatal(list)
	}
	for _, n := range list {
		if text(n, "title") == "" || text(n, "description") == "" || !strings.Contains(text(n, "text"), "nodes:") {
			t.Error(n)
		}
	}
}

func TestScenariosThatAServerDoesNotRunAreRefusedInWords(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	with := func(from, to string) string { return strings.Replace(smallScenario, from, to, 1) }
	for name, test := range map[string]struct {
		parameters map[string]any
		words      []string
	}{
		"nothing":                 {map[string]any{}, []string{"either /example"}},
		"both":                    {map[string]any{"example": "starvation", "scenario": smallScenario}, []string{"either /example"}},
		"an unknown example":      {map[string]any{"example": "nothing"}, []string{`no example "nothing"`, "node-loss, production-research, starvation"}},
		"no text":                 {map[string]any{"scenario": 5}, []string{"/scenario", "expected string"}},
		"no number":               {map[string]any{"scenario": smallScenario, "seed": "x"}, []string{"/seed"}},
		"a seed below zero":       {map[string]any{"scenario": smallScenario, "seed": -1}, []string{"/seed", "below zero"}},
		"two mistakes":            {map[string]any{"scenario": with("pool: p", "pool: q, colour: red")}, []string{"colour", "unknown option"}},
		"a text that is no YAML":  {map[string]any{"scenario": "{"}, []string{"scenario.json:1"}},
		"a file of this machine":  {map[string]any{"scenario": smallScenario + "traces: [{file: /etc/passwd, format: swf}]\n"}, []string{"whole scenario in one text"}},
		"a long text":             {map[string]any{"scenario": strings.Repeat("# x\n", maxScenario/4+1)}, []string{"bytes; a server takes 1048576"}},
		"nodes and slots":         {map[string]any{"scenario": with("name: n, resources: {cpu: 4", "name: n, count: 900000, resources: {cpu: 4000000")}, []string{"900000 nodes", "4000000 user slots"}},
		"operations":              {map[string]any{"scenario": smallScenario + "scheduler: {max_operation_count: 900000}\n"}, []string{"900000 operations at once"}},
		"an event that cannot be": {map[string]any{"scenario": smallScenario + "events: [{at: 1m, lose_nodes: {group: nobody}}]\n"}, []string{"nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.simulate(test.parameters)
			if a.status == http.StatusOK {
				t.Fatalf("it was not refused: %.500s", a.body)
			}
			e := parseError(t, a)
			for _, word := range test.words {
				if !strings.Contains(e.Error(), word) {
					t.Errorf("%q is not in %s", word, e.Error())
				}
			}
		})
	}
}

func TestARunThatGrowsTooLargeIsGivenUp(t *testing.T) {
	t.Parallel()
	many := strings.Replace(smallScenario, "arrival: 0s", "arrival: {every: 1s}", 1)
	for words, bounds := range map[string]sim.Bounds{
		"More than 5 operations come in the scenario": {Operations: 5}, "More than 2 jobs run at once in the scenario": {RunningJobs: 2},
	} {
		s, _, err := scenario.Read("x.yaml", []byte(many), noFiles)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sim.Run(t.Context(), s, sim.Options{Bounds: bounds})
		if err = simulationError(t.Context(), err); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want %q", err, words)
		}
	}
}

func TestAServerSimulatesOneScenarioAtATime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	simulations <- struct{}{}
	a := c.simulate(map[string]any{"scenario": smallScenario})
	<-simulations
	if e := parseError(t, a); a.status != http.StatusTooManyRequests || !strings.Contains(e.Error(), "one at a time") {
		t.Errorf("%d %s", a.status, e)
	}
	if a := c.simulate(map[string]any{"scenario": smallScenario}); a.status != http.StatusOK {
		t.Error(a.body)
	}
}

func TestASimulationEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	endless := strings.Replace(smallScenario, "duration: 1h", "duration: 300000h", 1) + "scheduler: {fair_share_update_period: 100ms}\n"
	body, err := json.Marshal(map[string]any{"scenario": endless})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/api/v4/simulate", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	ended := make(chan error, 1)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			err = fmt.Errorf("an answer: %s", response.Status)
			response.Body.Close()
		}
		ended <- err
	}()
	// The slot is occupied once the simulation runs, and free once it has ended.
	enough, look := time.After(patience), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for len(simulations) == 0 {
		select {
		case <-look.C:
		case err := <-ended:
			t.Fatal(err)
		case <-enough:
			t.Fatal("it does not begin")
		}
	}
	cancel()
	<-ended
	select {
	case simulations <- struct{}{}:
		<-simulations
	case <-time.After(patience):
		t.Error("it goes on without its request")
	}
}

func TestWhoMayNotReadMayNotSimulate(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.must("create", "{type=user;attributes={name=anna}}", "")
	c.set("//sys/scheduler/@acl", "[{action=deny;subjects=[anna];permissions=[read]}]")
	c.headers.Set("X-YT-User-Name", "anna")
	for _, command := range []string{"simulate", "list_scenarios"} {
		if a := c.do(command, `{example=starvation}`, ""); a.status == http.StatusOK {
			t.Errorf("%s: %.200s", command, a.body)
		} else if e := parseError(t, a); !e.HasCode(auth.CodeAuthorization) {
			t.Errorf("%s: %s", command, e)
		}
	}
}
