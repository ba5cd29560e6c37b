// Package outcome is the result of a simulation: figures of the cluster, of
// every pool and operation, time series, and which expectations held. It is a
// value that is written as JSON and read back. Reports are made from it, and two
// runs are compared by it.
//
// Everything in it follows from the scenario and its seed; the wall time of the
// run is kept separately. The package imports document and resource.
package outcome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Format is the version of the JSON form. Results of other versions are
// rejected.
const Format = 1

// Result is the result of a run.
type Result struct {
	Format      int       `json:"format"`
	Scenario    string    `json:"scenario"`
	Description string    `json:"description,omitempty"`
	Seed        uint64    `json:"seed"`
	Start       time.Time `json:"start"`
	// Dated reports whether Start is the date of what is simulated, and not an
	// arbitrary one.
	Dated bool `json:"dated,omitempty"`
	// GPUThousandths reports whether amounts of GPUs are in thousandths.
	GPUThousandths bool `json:"gpu_thousandths,omitempty"`
	// Seconds is how much virtual time has passed.
	Seconds float64 `json:"seconds"`
	// Stalled reports whether the run ended because nothing more could happen
	// although operations were unfinished.
	Stalled bool `json:"stalled,omitempty"`

	Cluster    Cluster     `json:"cluster"`
	Pools      []Pool      `json:"pools"`
	Operations []Operation `json:"operations"`
	// OperationsOmitted is how many operations are not listed.
	OperationsOmitted int           `json:"operations_omitted,omitempty"`
	Series            Series        `json:"series"`
	Expectations      []Expectation `json:"expectations,omitempty"`
	// Promises are the books of pools with guarantees, by tree and pool, if the run kept them.
	Promises []Promise `json:"promises,omitempty"`

	// Wall is how long the run took. It differs from run to run, so outputs that
	// must be equal do not contain it.
	Wall time.Duration `json:"-"`
}

// Vector has a figure for each resource, in the units that users write, in the
// order of kinds.
type Vector [resource.KindCount]float64

// MarshalJSON writes the components that are not zero under their names.
func (v Vector) MarshalJSON() ([]byte, error) {
	return marshalByKind(v[:], func(x float64) bool { return x != 0 })
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Vector) UnmarshalJSON(data []byte) error { return unmarshalByKind(data, v[:]) }

// marshalByKind writes the components that are there under the names of their resources.
func marshalByKind[T any](components []T, there func(T) bool) ([]byte, error) {
	b := []byte{'{'}
	for _, k := range resource.Kinds {
		if !there(components[k]) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		text, err := json.Marshal(components[k])
		if err != nil {
			return nil, err
		}
		b = fmt.Appendf(b, "%q:%s", k.String(), text)
	}
	return append(b, '}'), nil
}

func unmarshalByKind[T any](data []byte, into []T) error {
	var byName map[string]T
	if err := json.Unmarshal(data, &byName); err != nil {
		return err
	}
	clear(into)
	for name, component := range byName {
		k, ok := resource.ParseKind(name)
		if !ok {
			return fmt.Errorf("unknown resource %q", name)
		}
		into[k] = component
	}
	return nil
}

// Cluster has figures of the whole run.
type Cluster struct {
	Nodes int `json:"nodes"`
	// Capacity is what all nodes have together, averaged over time.
	Capacity Vector `json:"capacity"`
	// Utilisation is the used part of the capacity.
	Utilisation Vector `json:"utilisation"`
	// Used is resources × seconds.
	Used  Vector `json:"used"`
	Lost  Vector `json:"lost"`
	Jobs  Jobs   `json:"jobs"`
	Waits Waits  `json:"waits"`
	// OperationWaits are from arrival to the first job.
	OperationWaits Waits             `json:"operation_waits"`
	Operations     OperationCounts   `json:"operations"`
	Stages         []Count           `json:"starts_by_stage,omitempty"`
	Reasons        []Count           `json:"stops_by_reason,omitempty"`
	Work           Work              `json:"work"`
	Histogram      []HistogramBucket `json:"wait_histogram,omitempty"`
}

// Work counts what the scheduler did.
type Work struct {
	Heartbeats int64 `json:"heartbeats"`
	Updates    int64 `json:"updates"`
	// Decisions are starts and stops of jobs.
	Decisions int64 `json:"decisions"`
	Events    int64 `json:"events"`
}

// Jobs counts jobs.
type Jobs struct {
	Started   int64 `json:"started"`
	Completed int64 `json:"completed"`
	// Preempted and LostWithNodes had to restart; Ended were running when their
	// operation ended.
	Preempted     int64 `json:"preempted"`
	LostWithNodes int64 `json:"lost_with_nodes"`
	Ended         int64 `json:"ended_with_operation"`
}

// OperationCounts counts operations by how they ended.
type OperationCounts struct {
	Arrived   int64 `json:"arrived"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Aborted   int64 `json:"aborted"`
	Rejected  int64 `json:"rejected"`
	// Unfinished operations had not ended at the end of the run.
	Unfinished int64 `json:"unfinished"`
}

// Count is a number under a name.
type Count struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// Waits has the distribution of waiting times in seconds.
type Waits struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Get returns a figure by its name: mean, p50, p90, p99 or max.
func (w Waits) Get(name string) (float64, bool) {
	switch name {
	case "mean":
		return w.Mean, true
	case "p50":
		return w.P50, true
	case "p90":
		return w.P90, true
	case "p99":
		return w.P99, true
	case "max":
		return w.Max, true
	}
	return 0, false
}

// HistogramBucket counts waits up to a bound that the bucket before does not
// reach.
type HistogramBucket struct {
	UpTo  float64 `json:"up_to"` // seconds
	Count int64   `json:"count"`
}

// Pool has the figures of a pool, everything below it included.
type Pool struct {
	Tree      string `json:"tree"`
	Name      string `json:"name"`
	Parent    string `json:"parent,omitempty"` // empty: this is the root
	Depth     int    `json:"depth"`
	Ephemeral bool   `json:"ephemeral,omitempty"`

	// Entitled, Asked and Got are integrals of fair share, demand and usage over
	// time, in resources × seconds; Guaranteed is the part of Entitled that
	// guarantees cover.
	Entitled   Vector `json:"entitled"`
	Guaranteed Vector `json:"guaranteed"`
	Asked      Vector `json:"asked"`
	Got        Vector `json:"got"`
	Lost       Vector `json:"lost"`

	Jobs              Jobs  `json:"jobs"`
	PreemptionsCaused int64 `json:"preemptions_caused"`
	Waits             Waits `json:"waits"`
	OperationWaits    Waits `json:"operation_waits"`
	Operations        int64 `json:"operations"`

	Guarantee Compliance `json:"guarantee"`
	// StarvingSeconds is how long the pool starved; Volume is what it has saved
	// at the end, in seconds of its tree.
	StarvingSeconds float64 `json:"starving_seconds"`
	Volume          float64 `json:"volume"`
	Integral        bool    `json:"integral,omitempty"`
}

// Promise is the ledger of a pool with a guarantee, as a daemon's report has it, in the resource that
// dominated its demand. Amounts are in units × seconds.
type Promise struct {
	Tree     string `json:"tree"`
	Pool     string `json:"pool"`
	Resource string `json:"resource"`
	// Due is the part of Promised that was asked for. Due + Surplus = Got + Short.
	Promised float64 `json:"promised"`
	Asked    float64 `json:"asked"`
	Due      float64 `json:"due"`
	Got      float64 `json:"got"`
	Surplus  float64 `json:"surplus"`
	Short    float64 `json:"short"`
	// Broken is the part of Short that does not follow from the pool's own settings; Kept is one
	// minus its part of Due, nil if nothing was due.
	Broken float64  `json:"broken"`
	Kept   *float64 `json:"kept"`
	Causes []Cause  `json:"causes,omitempty"`
}

// Cause is a reason why a pool got less than was due.
type Cause struct {
	Name   string  `json:"cause"`
	Amount float64 `json:"amount"`
	Own    bool    `json:"own,omitempty"`
}

// Compliance is how well a guarantee was kept.
type Compliance struct {
	// DemandingSeconds is how long the pool demanded something that it was
	// guaranteed; BelowSeconds is how long of that it had less than 99 % of it,
	// and LongestSeconds the longest such time without a pause.
	DemandingSeconds float64 `json:"demanding_seconds"`
	BelowSeconds     float64 `json:"below_seconds"`
	LongestSeconds   float64 `json:"longest_seconds"`
	// Missing is how much it lacked, in resources × seconds.
	Missing Vector `json:"missing"`
}

// Ratio is the part of the time in which the guarantee was kept; one if it was
// never demanded.
func (c Compliance) Ratio() float64 {
	if c.DemandingSeconds == 0 {
		return 1
	}
	return 1 - c.BelowSeconds/c.DemandingSeconds
}

// Operation has the figures of an operation. Times are seconds since the start;
// negative means never.
type Operation struct {
	Name     string  `json:"name"`
	Template string  `json:"template,omitempty"`
	Pool     string  `json:"pool"`
	State    string  `json:"state"`
	Reason   string  `json:"reason,omitempty"`
	Arrived  float64 `json:"arrived"`
	Started  float64 `json:"started"`
	Finished float64 `json:"finished"`
	// JobCount is zero for operations with demand over time.
	JobCount int    `json:"job_count"`
	Entitled Vector `json:"entitled"`
	Asked    Vector `json:"asked"`
	Got      Vector `json:"got"`
	Lost     Vector `json:"lost"`
	Jobs     Jobs   `json:"jobs"`

	PreemptionsCaused int64   `json:"preemptions_caused"`
	StarvingSeconds   float64 `json:"starving_seconds"`
	// MeanWait and MaxWait are of its jobs, in seconds.
	MeanWait float64 `json:"mean_wait"`
	MaxWait  float64 `json:"max_wait"`
}

// Series are values over time. Each point is the average over one interval; the
// last interval may be cut short.
type Series struct {
	// Step is the length of an interval in seconds.
	Step    float64       `json:"step"`
	Cluster ClusterSeries `json:"cluster"`
	Pools   []PoolSeries  `json:"pools"`
}

// ClusterSeries are of the whole cluster.
type ClusterSeries struct {
	Capacity    Curves    `json:"capacity"`
	Usage       Curves    `json:"usage"`
	RunningJobs []float64 `json:"running_jobs"`
	// PendingJobs could run now if there were room.
	PendingJobs []float64 `json:"pending_jobs"`
	// Preemptions are numbers in each interval, not averages.
	Preemptions []float64 `json:"preemptions"`
}

// PoolSeries are of one pool, in the order of Result.Pools.
type PoolSeries struct {
	Tree        string    `json:"tree"`
	Name        string    `json:"name"`
	FairShare   Curves    `json:"fair_share"`
	Guaranteed  Curves    `json:"guaranteed"`
	Usage       Curves    `json:"usage"`
	Demand      Curves    `json:"demand"`
	Volume      []float64 `json:"volume,omitempty"`
	Preemptions []float64 `json:"preemptions"`
}

// Curves has a series for each resource that the cluster has.
type Curves [resource.KindCount][]float64

// MarshalJSON writes the existing series under their names.
func (c Curves) MarshalJSON() ([]byte, error) {
	return marshalByKind(c[:], func(series []float64) bool { return series != nil })
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Curves) UnmarshalJSON(data []byte) error { return unmarshalByKind(data, c[:]) }

// Expectation is whether an expectation of the scenario held.
type Expectation struct {
	Where string `json:"where"`
	// Subject and Figure are what was expected: "pool production" and
	// "fair_share/cpu at 6h".
	Subject string `json:"subject"`
	Figure  string `json:"figure"`
	Want    string `json:"want"`
	Got     string `json:"got"`
	Held    bool   `json:"held"`
}

// String returns the expectation in one line.
func (e Expectation) String() string {
	if e.Held {
		return fmt.Sprintf("%s: %s of %s is %s", e.Where, e.Figure, e.Subject, e.Got)
	}
	return fmt.Sprintf("%s: %s of %s is %s, expected %s", e.Where, e.Figure, e.Subject, e.Got, e.Want)
}

// Failed returns the expectations that did not hold.
func (r *Result) Failed() (failed []Expectation) {
	for _, e := range r.Expectations {
		if !e.Held {
			failed = append(failed, e)
		}
	}
	return failed
}

// Kinds returns the resources that the cluster has.
func (r *Result) Kinds() (kinds []resource.Kind) {
	for _, k := range resource.Kinds {
		if r.Cluster.Capacity[k] > 0 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// JSON writes the result in one line. Equal results have equal bytes.
func (r *Result) JSON() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return b.Bytes(), nil
}

// Parse reads what JSON wrote. The name is for messages.
func Parse(name string, data []byte) (*Result, error) {
	var r Result
	var version struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("%s: not the result of a simulation: %w", name, err)
	}
	if version.Format == nil {
		return nil, fmt.Errorf("%s: not the result of a simulation: it has no format", name)
	}
	if *version.Format != Format {
		return nil, fmt.Errorf("%s: the result has the format %d; known is %d", name, *version.Format, Format)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, fmt.Errorf("%s: not the result of a simulation: %w", name, err)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &r, nil
}

// check rejects results that reports could not draw.
func (r *Result) check() error {
	if len(r.Series.Pools) != len(r.Pools) {
		return fmt.Errorf("the result has %d pools and series of %d", len(r.Pools), len(r.Series.Pools))
	}
	for i, p := range r.Pools {
		if s := &r.Series.Pools[i]; s.Name != p.Name || s.Tree != p.Tree {
			return fmt.Errorf("the series of pool %q are those of %q", p.Name, s.Name)
		}
	}
	if !(r.Seconds >= 0) || !(r.Series.Step >= 0) || slices.Contains([]float64{r.Seconds, r.Series.Step}, math.Inf(1)) {
		return fmt.Errorf("the result has no duration")
	}
	return nil
}

// Round keeps six significant digits, which is more precise than any figure and
// keeps results short.
func Round(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	digits := 5 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits > 300 {
		return 0
	}
	scale := math.Pow(10, float64(digits))
	if digits < 0 {
		scale = math.Pow(10, float64(-digits))
		return math.Round(v/scale) * scale
	}
	return math.Round(v*scale) / scale
}

// Rounded returns the vector with each component rounded.
func (v Vector) Rounded() Vector {
	for k := range v {
		v[k] = Round(v[k])
	}
	return v
}
