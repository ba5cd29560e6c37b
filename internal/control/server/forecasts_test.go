package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/forecast"
)

// foretelling returns settings under which forecasts may use a whole core.
func foretelling() Settings {
	s := quickSettings()
	s.ForecastCPU = 1
	return s
}

func forecastOf(s *scheduler, id core.OperationID) *OperationForecast {
	s.t.Helper()
	var found *OperationForecast
	s.eventually("there is a forecast", func() bool {
		_, f, err := s.Forecast(s.t.Context(), id)
		if err != nil {
			s.t.Fatal(err)
		}
		found = f
		return f != nil
	})
	return found
}

func storedForecasts(s *scheduler, q store.ForecastQuery) []store.Forecast {
	s.t.Helper()
	rows, err := s.Store().Forecasts(s.t.Context(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	return rows
}

func TestForecastsAreMadeStoredAndSettled(t *testing.T) {
	directory := t.TempDir()
	s := leadWith(t, directory, Options{Settings: foretelling()})
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 1)
	m.beat(s)
	runs := s.number(fmt.Sprintf(small, "p", 1))
	s.eventually("the first operation runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	waits := s.number(fmt.Sprintf(small, "p", 1))
	// On a slow machine the first forecast may be older than its first job.
	s.eventually("an operation that runs has a forecast of its finish alone", func() bool {
		first := forecastOf(s, runs)
		return first.Targets[forecast.Start] == nil && first.Targets[forecast.Finish] != nil
	})
	second := forecastOf(s, waits)
	start, finish := second.Targets[forecast.Start], second.Targets[forecast.Finish]
	if start == nil || finish == nil || start.Shown()[1] > finish.Shown()[1] || start.Calibrated || second.Pool != "p" {
		t.Fatalf("an operation that waits starts %+v and finishes %+v", start, finish)
	}
	s.eventually("the forecasts are stored", func() bool { return len(storedForecasts(s, store.ForecastQuery{Open: true})) >= 3 })

	// A new leader knows them.
	s.stop()
	s = leadWith(t, directory, Options{Settings: foretelling()})
	s.eventually("the node is back", func() bool { m.beat(s); return len(m.jobs) == 1 && s.Leading() })
	if again := forecastOf(s, waits).Targets[forecast.Start]; again == nil || again.Age < 0 {
		t.Errorf("after a restart the operation starts %+v", again)
	}
	m.finish(m.some(), nil)
	s.eventually("the second operation runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	s.eventually("the start of the second and the finish of the first are settled", func() bool {
		m.beat(s)
		return len(storedForecasts(s, store.ForecastQuery{Settled: true})) >= 2
	})
	m.finish(m.some(), nil)
	s.eventually("all outcomes are known", func() bool { m.beat(s); return len(storedForecasts(s, store.ForecastQuery{Open: true})) == 0 })
	for _, row := range storedForecasts(s, store.ForecastQuery{}) {
		_, outcome, known, err := forecast.ReadForecast(row.Tree, row.Pool, forecast.Target(row.Target), row.Made, row.Data)
		if err != nil || !known || outcome < 0 || outcome > time.Hour.Seconds() {
			t.Errorf("operation %d: outcome %v, %v, %v", row.Operation, outcome, known, err)
		}
	}
	s.eventually("the record has them", func() bool {
		_, tallies := s.Forecasts(), s.ForecastTallies()
		return len(tallies) == 2 && tallies[0].Scored[forecast.ByEnsemble] > 0 && tallies[0].Settled == 0 // none was calibrated
	})
	s.eventually("an operation that has ended has no forecast", func() bool {
		_, f, err := s.Forecast(t.Context(), waits)
		return f == nil && err == nil
	})
	s.stop()
}

func TestWithoutAPartOfACoreThereAreNoForecasts(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	id := s.number(fmt.Sprintf(small, "p", 1))
	began := time.Now()
	if _, f, err := s.Forecast(t.Context(), id); f != nil || err != nil || time.Since(began) > forecastWait {
		t.Errorf("got %+v, %v", f, err)
	}
	s.stop()
}
