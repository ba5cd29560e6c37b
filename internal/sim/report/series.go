package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// seriesHeader names the columns of the time series. Rows without a pool are of
// the cluster. Amounts are averages over the interval that starts at the time,
// in cores, bytes or numbers; volume is in seconds of the tree; preemptions are
// counts.
var seriesHeader = []string{
	"seconds", "date", "tree", "pool", "resource", "capacity", "fair_share", "guaranteed", "demand", "usage",
	"volume", "running_jobs", "pending_jobs", "preemptions",
}

// CSV writes the time series: for each interval a row for every resource of the
// cluster and of every pool.
func CSV(w io.Writer, r *outcome.Result) error {
	out := csv.NewWriter(w)
	if err := out.Write(seriesHeader); err != nil {
		return err
	}
	kinds := r.Kinds()
	points := 0
	for _, k := range kinds {
		points = max(points, len(r.Series.Cluster.Usage[k]))
	}
	for i := range points {
		at := float64(i) * r.Series.Step
		row := make([]string, len(seriesHeader))
		row[0] = strconv.FormatFloat(at, 'f', -1, 64)
		row[1] = r.Start.Add(seconds(at)).UTC().Format(time.RFC3339)
		if err := clusterSeriesRows(out, row, &r.Series.Cluster, kinds, i); err != nil {
			return err
		}
		for p := range r.Series.Pools {
			if err := poolSeriesRows(out, row, &r.Series.Pools[p], kinds, i); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func clusterSeriesRows(out *csv.Writer, row []string, s *outcome.ClusterSeries, kinds []resource.Kind, i int) error {
	copy(row[2:], make([]string, len(row)-2))
	row[11], row[12], row[13] = value(s.RunningJobs, i), value(s.PendingJobs, i), value(s.Preemptions, i)
	for _, k := range kinds {
		row[4], row[5], row[9] = k.String(), value(s.Capacity[k], i), value(s.Usage[k], i)
		if err := out.Write(row); err != nil {
			return err
		}
	}
	return nil
}

func poolSeriesRows(out *csv.Writer, row []string, s *outcome.PoolSeries, kinds []resource.Kind, i int) error {
	copy(row[2:], make([]string, len(row)-2))
	row[2], row[3], row[10], row[13] = s.Tree, s.Name, value(s.Volume, i), value(s.Preemptions, i)
	for _, k := range kinds {
		row[4] = k.String()
		row[6], row[7] = value(s.FairShare[k], i), value(s.Guaranteed[k], i)
		row[8], row[9] = value(s.Demand[k], i), value(s.Usage[k], i)
		if err := out.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// value writes a point of a series; a missing point is empty.
func value(list []float64, i int) string {
	if i >= len(list) {
		return ""
	}
	return strconv.FormatFloat(list[i], 'f', -1, 64)
}
