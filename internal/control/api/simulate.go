package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/example"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// A server simulates beside its real work, so the input must be small. The command line has none of
// these limits.
const (
	maxScenario           = 1 << 20 // bytes of text
	maxSimulatedNodes     = 5_000
	maxSimulatedSlots     = 10_000 // of one node
	maxSimulatedPools     = 500
	maxSimulatedArrivals  = 50_000  // operations
	maxSimulatedJobs      = 200_000 // running at once
	maxSimulatedSamples   = 500     // points of a time series
	maxReportedOperations = 1_000
	maxSimulation         = 2 * time.Minute
)

// simulationBounds are the limits that only a running simulation can check.
var simulationBounds = sim.Bounds{Operations: maxSimulatedArrivals, RunningJobs: maxSimulatedJobs}

// simulationError explains why a simulation was aborted.
func simulationError(ctx context.Context, err error) error {
	var bound *sim.BoundError
	if errors.As(err, &bound) {
		return wire.Errorf(wire.CodeGeneric, "More than %d %s in the scenario, which is all that a server simulates", bound.Most, bound.What)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// simulations holds a slot for each simulation that may run at once: each uses a core.
var simulations = make(chan struct{}, 1)

// listScenarios lists the examples with their texts.
func listScenarios(c *call) (yson.Node, error) {
	var list []yson.Node
	for _, e := range example.All() {
		s, _, err := scenario.Read(e.Name+".yaml", []byte(e.Text), noFiles)
		if err != nil {
			return yson.Node{}, err
		}
		list = append(list, yson.Map(
			yson.Pair("name", yson.String(e.Name)), yson.Pair("title", yson.String(s.Name)),
			yson.Pair("description", yson.String(s.Description)), yson.Pair("text", yson.String(e.Text))))
	}
	return yson.Map(yson.Pair("scenarios", yson.List(list...))), nil
}

// simulate runs the core on virtual time over an example or a given scenario, and answers with the
// output of weir simulate -o json. It ends with the request.
func simulate(c *call) (yson.Node, error) {
	s, warnings, err := c.scenario()
	if err != nil {
		return yson.Node{}, err
	}
	select {
	case simulations <- struct{}{}:
		defer func() { <-simulations }()
	default:
		e := wire.Errorf(wire.CodeQueueSize, "Another simulation runs here now, and a server runs one at a time: try again later, or use weir simulate")
		e.Status = http.StatusTooManyRequests
		return yson.Node{}, e
	}
	deadline, cancel := context.WithTimeoutCause(c.Context, maxSimulation, wire.Errorf(wire.CodeTimeout,
		"The simulation takes longer than %v, which is all that a server gives it: make it shorter, or use weir simulate", maxSimulation))
	defer cancel()
	result, err := sim.Run(deadline, s, sim.Options{Bounds: simulationBounds, Promises: true})
	if err != nil {
		return yson.Node{}, simulationError(deadline, err)
	}
	text, err := result.JSON()
	if err != nil {
		return yson.Node{}, err
	}
	report, err := orchid.StoredJSON(text)
	if err != nil {
		return yson.Node{}, err
	}
	list := make([]yson.Node, len(warnings))
	for i, w := range warnings {
		list[i] = yson.String(w.String())
	}
	return yson.Map(
		yson.Pair("report", report), yson.Pair("warnings", yson.List(list...)), yson.Pair("wall_time", wire.Milliseconds(result.Wall))), nil
}

// scenario reads the scenario to simulate: the parameter example or scenario, and seed.
func (c *call) scenario() (*scenario.Scenario, document.Problems, error) {
	name, err := c.Parameters.Text("example", "")
	if err != nil {
		return nil, nil, err
	}
	text, err := c.Parameters.Text("scenario", "")
	if err != nil {
		return nil, nil, err
	}
	switch {
	case (name == "") == (text == ""):
		return nil, nil, wire.Errorf(wire.CodeGeneric, "Give either /example, the name of one, or /scenario, the text of one")
	case len(text) > maxScenario:
		return nil, nil, wire.Errorf(wire.CodeGeneric, "The scenario has %d bytes; a server takes %d at most", len(text), maxScenario)
	case name != "":
		if text, err = exampleText(name); err != nil {
			return nil, nil, err
		}
	}
	file := "scenario.yaml"
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		file = "scenario.json"
	}
	s, warnings, err := scenario.Read(file, []byte(text), noFiles)
	if err != nil {
		return nil, nil, err
	}
	seed, err := c.Parameters.Integer("seed", int64(s.Seed))
	if err == nil && seed < 0 {
		err = wire.Errorf(wire.CodeGeneric, "Error parsing parameter /seed: it must not be below zero")
	}
	if err != nil {
		return nil, nil, err
	}
	s.Seed = uint64(seed)
	return s, warnings, boundScenario(s)
}

func exampleText(name string) (string, error) {
	var names []string
	for _, e := range example.All() {
		if e.Name == name {
			return e.Text, nil
		}
		names = append(names, e.Name)
	}
	return "", wire.Errorf(wire.CodeGeneric, "There is no example %q; there are %s", wire.CutText(name, 100), strings.Join(names, ", "))
}

// noFiles refuses files that a scenario names: the server must not read local files for a client
// that sends a text.
func noFiles(name string) (io.ReadCloser, error) {
	return nil, fmt.Errorf("%s cannot be read here: a server takes the whole scenario in one text; weir simulate reads files", wire.CutText(name, 100))
}

// boundScenario refuses a scenario that is too large, with all problems at once, and removes detail
// that no chart could show.
func boundScenario(s *scenario.Scenario) error {
	var refused []*wire.Error
	refuse := func(what string, is, most int64) {
		if is > most {
			refused = append(refused, wire.Errorf(wire.CodeGeneric, "The scenario has %d %s; a server simulates %d at most", is, what, most))
		}
	}
	nodes, slots, pools := 0, int64(0), 0
	for i := range s.Events {
		if resize, ok := s.Events[i].Action.(scenario.ResizeNodes); ok {
			slots = max(slots, resize.Resources[resource.UserSlots])
		}
	}
	for i := range s.Nodes {
		nodes += s.Nodes[i].Count
		slots = max(slots, s.Nodes[i].Resources[resource.UserSlots])
	}
	for i := range s.Trees {
		pools += s.Trees[i].Value.Len()
	}
	refuse("nodes", int64(nodes), maxSimulatedNodes)
	refuse("user slots on one node", slots/resource.UserSlots.Scale(), maxSimulatedSlots)
	refuse("pools", int64(pools), maxSimulatedPools)
	refuse("operations at once (max_operation_count)", int64(s.MaxOperations.Or(0)), maxSimulatedArrivals)
	s.Samples, s.Statistics.Operations = min(s.Samples, maxSimulatedSamples), min(s.Statistics.Operations, maxReportedOperations)
	switch len(refused) {
	case 0:
		return nil
	case 1:
		return refused[0]
	}
	return &wire.Error{Code: wire.CodeGeneric, Message: "The scenario is too large for a server; weir simulate has no such bounds", Inner: refused}
}
