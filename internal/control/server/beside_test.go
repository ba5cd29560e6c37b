package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim/ahead"
)

// BenchmarkBeside measures what a journal and questions cost a cluster that is busy and not overloaded (2,000 jobs a
// second on 500 nodes). Each iteration runs the cluster without them and with them; the figures are medians of
// the ratios, with over without. "questions" asks what the cluster waits for, and what an hour would bring, all
// the time.
func BenchmarkBeside(b *testing.B) {
	for _, beside := range []string{"journal", "questions"} {
		b.Run(beside, func(b *testing.B) {
			var cpu, p99 []float64
			answers := 0
			for i := range b.N {
				order := []string{"", beside}
				if i%2 == 1 { // what the machine does meanwhile must not favour one of them
					slices.Reverse(order)
				}
				by := map[string]figures{}
				for _, what := range order {
					by[what] = loadCluster(b, 500, 1000, 100, time.Second, 50, what)
				}
				b.Logf("heartbeat p99 %.1f ms without, %.1f ms with; %.0f and %.0f µs of CPU a job", by[""].p99, by[beside].p99, by[""].cpu, by[beside].cpu)
				cpu, p99 = append(cpu, by[beside].cpu/by[""].cpu), append(p99, by[beside].p99/by[""].p99)
				answers += by[beside].answers
			}
			slices.Sort(cpu)
			slices.Sort(p99)
			b.ReportMetric(cpu[len(cpu)/2], "cpu-ratio")
			b.ReportMetric(p99[len(p99)/2], "heartbeat-p99-ratio")
			if beside == "questions" {
				b.ReportMetric(float64(answers)/float64(b.N), "answers")
				if answers == 0 {
					b.Error("no question was answered")
				}
			}
		})
	}
}

// askAlways asks questions, one after the other, until the context ends. It returns how many were answered.
func askAlways(ctx context.Context, b *testing.B, s *Server) (answered int) {
	plan, err := readPlan(ahead.Names{}, "for: 1h")
	if err != nil {
		b.Error(err)
		return 0
	}
	<-s.Led()
	count := func(err error) {
		if err == nil {
			answered++
			return
		}
		select { // it is too busy to answer
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	for ctx.Err() == nil {
		_, err := s.ExplainCluster(ctx, "anna", time.Time{})
		count(err)
		_, err = s.WhatIf(ctx, "boris", plan)
		count(err)
	}
	return answered
}
