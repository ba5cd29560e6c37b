package history

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pointsOf collects a series from blocks; later blocks replace earlier ones.
func pointsOf(t testing.TB, blocks map[time.Time]Block, series int32) []Point {
	t.Helper()
	var all []Point
	starts := make([]time.Time, 0, len(blocks))
	for start := range blocks {
		starts = append(starts, start)
	}
	for range starts { // few: select the earliest each time
		least := -1
		for i, s := range starts {
			if !s.IsZero() && (least < 0 || s.Before(starts[least])) {
				least = i
			}
		}
		b := blocks[starts[least]]
		points, err := b.Points([]int32{series}, time.Time{}, noon.Add(1000*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, points[series]...)
		starts[least] = time.Time{}
	}
	return all
}

// stored keeps the last version of each block, by level.
type stored [levelCount]map[time.Time]Block

func (s *stored) put(blocks []Block) {
	for _, b := range blocks {
		if s[b.Level] == nil {
			s[b.Level] = map[time.Time]Block{}
		}
		s[b.Level][b.Start] = b
	}
}

func TestAConstantSeriesIsKeptExactly(t *testing.T) {
	r := NewRecorder()
	for i := range 10 {
		r.Record(noon.Add(time.Duration(i)*time.Second), "main", "prod", []float64{1.0 / 3, 0, math.Pi * 1e12})
	}
	var s stored
	s.put(r.Flush(noon.Add(10 * time.Second)))
	for n, want := range []float64{1.0 / 3, 0, math.Pi * 1e12} {
		points := pointsOf(t, s[Seconds], int32(n))
		if len(points) != 10 || points[9].Average != want {
			t.Errorf("series %d: %v", n, points)
		}
	}
}

func TestShortDecimalNumbersComeBackAsTheyWere(t *testing.T) {
	r := NewRecorder()
	want := []float64{0.1, 0.25, 0.3, 0.7, 0.99, 0}
	for i, v := range want {
		r.Record(noon.Add(time.Duration(i)*time.Second), "main", "prod", []float64{v, v * 1000})
	}
	var s stored
	s.put(r.Flush(noon.Add(time.Minute)))
	for i, p := range pointsOf(t, s[Seconds], 0) {
		if float32(p.Average) != float32(want[i]) {
			t.Errorf("point %d is %v, want %v", i, p.Average, want[i])
		}
	}
}

func TestMinutesAndHoursHaveTheAverageAndTheMaximum(t *testing.T) {
	r := NewRecorder()
	var s stored
	for i := range 7300 {
		v := float64(i % 60)
		r.Record(noon.Add(time.Duration(i)*time.Second), "main", "prod", []float64{v})
		if i%61 == 0 {
			s.put(r.Flush(noon.Add(time.Duration(i) * time.Second)))
		}
	}
	s.put(r.Flush(noon.Add(7300 * time.Second)))
	minutes := pointsOf(t, s[Minutes], 0)
	if len(minutes) != 121 {
		t.Fatalf("%d minutes", len(minutes))
	}
	for i, p := range minutes {
		if want := noon.Add(time.Duration(i) * time.Minute); !p.Time.Equal(want) || p.Average != 29.5 || p.Max != 59 {
			t.Fatalf("minute %d: %v", i, p)
		}
	}
	hours := pointsOf(t, s[Hours], 0)
	if len(hours) != 2 || hours[0].Average != 29.5 || hours[1].Max != 59 || !hours[1].Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("hours: %v", hours)
	}
	if got := len(pointsOf(t, s[Seconds], 0)); got != 7300 {
		t.Errorf("%d seconds", got)
	}
}

func TestARecorderContinuesWhereAnotherStopped(t *testing.T) {
	values := func(i int) []float64 { return []float64{float64(i*i%101) / 10, 5} }
	run := func(restarts bool) stored {
		r := NewRecorder()
		var s stored
		for i := range 5000 {
			now := noon.Add(time.Duration(i) * time.Second)
			r.Record(now, "main", "prod", values(i))
			if i%7 == 6 {
				s.put(r.Flush(now))
			}
			if restarts && i%497 == 496 {
				s.put(r.Flush(now))
				r = NewRecorder()
				for _, l := range Levels {
					if b, ok := s[l][l.BlockStart(now)]; ok {
						if err := r.Restore(now, b); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
		s.put(r.Flush(noon.Add(5000 * time.Second)))
		return s
	}
	once, often := run(false), run(true)
	for _, l := range Levels {
		a, b := pointsOf(t, once[l], 0), pointsOf(t, often[l], 0)
		near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 0.05 })
		if diff := cmp.Diff(a, b, near); diff != "" {
			t.Errorf("%v differ after restarts:\n%s", l, diff)
		}
	}
}

func TestGapsStayGaps(t *testing.T) {
	r := NewRecorder()
	nan := math.NaN()
	r.Record(noon, "main", "prod", []float64{1, nan})
	r.Record(noon.Add(time.Second), "main", "prod", []float64{nan, 7})
	r.Record(noon.Add(5*time.Second), "main", "prod", []float64{2})
	r.Record(noon.Add(5*time.Second), "main", "prod", []float64{3}) // the same second
	r.Record(noon.Add(4*time.Second), "main", "prod", []float64{4}) // earlier
	got := r.Points("main", "prod", Seconds, []int32{0, 1}, noon, noon.Add(time.Minute))
	var s stored
	s.put(r.Flush(noon.Add(6 * time.Second)))
	want := []Point{{noon, 1, 1}, {noon.Add(5 * time.Second), 2, 2}}
	if diff := cmp.Diff(want, pointsOf(t, s[Seconds], 0)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Point{{noon.Add(time.Second), 7, 7}}, pointsOf(t, s[Seconds], 1)); diff != "" {
		t.Error(diff)
	}
}

func TestASilentPoolIsForgotten(t *testing.T) {
	r := NewRecorder()
	r.Record(noon, "main", "gone", []float64{1})
	later := noon.Add(400 * time.Hour)
	var s stored
	s.put(r.Flush(noon))
	s.put(r.Flush(later))
	s.put(r.Flush(later.Add(time.Second)))
	if len(r.pools) != 0 {
		t.Errorf("%d pools are still held", len(r.pools))
	}
	if got := pointsOf(t, s[Hours], 0); len(got) != 1 || got[0].Average != 1 {
		t.Errorf("hours: %v", got)
	}
}

// A pool that is removed and comes back continues its blocks as if the recorder had held them all the time, and in
// between it is held packed.
func TestAPoolThatComesBackContinuesItsBlocks(t *testing.T) {
	r := NewRecorder()
	var s stored
	second := func(i int) time.Time { return noon.Add(time.Duration(i) * time.Second) }
	record := func(from, to int) {
		for i := from; i < to; i++ {
			r.Record(second(i), "main", "prod", []float64{float64(i % 60)})
		}
		s.put(r.Flush(second(to)))
	}
	record(0, 600)
	for i := 600; i < 7200; i += 10 {
		s.put(r.Flush(second(i)))
	}
	p := r.pools[poolName{"main", "prod"}]
	if p == nil || len(p.asleep) == 0 {
		t.Fatal("the silent pool is not asleep")
	}
	for l := range p.open {
		if len(p.open[l].columns) > 0 {
			t.Errorf("%v of the silent pool are unpacked", Level(l))
		}
	}
	record(7200, 7800)
	s.put(r.Flush(second(12000)))
	if got := len(pointsOf(t, s[Minutes], 0)); got != 20 {
		t.Errorf("%d minutes, want 10 before and 10 after the pause", got)
	}
	hours := pointsOf(t, s[Hours], 0)
	if len(hours) != 2 || math.Abs(hours[0].Average-29.5) > 0.1 || math.Abs(hours[1].Average-29.5) > 0.1 {
		t.Errorf("hours: %v", hours)
	}
}

func TestTheRecordersPointsReplaceStoredOnes(t *testing.T) {
	at := func(s int, v float64) Point { return Point{noon.Add(time.Duration(s) * time.Second), v, v} }
	got := Merge([]Point{at(0, 1), at(1, 1), at(2, 1)}, []Point{at(2, 9), at(3, 9)})
	if diff := cmp.Diff([]Point{at(0, 1), at(1, 1), at(2, 9), at(3, 9)}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheFinestLevelThatFitsIsChosen(t *testing.T) {
	for _, c := range []struct {
		name   string
		from   time.Duration
		points int
		want   Level
	}{
		{"the last minutes by the second", -10 * time.Minute, 0, Seconds},
		{"an hour in a narrow chart by the minute", -time.Hour, 500, Minutes},
		{"half a day by the minute", -12 * time.Hour, 1000, Minutes},
		{"a week by the hour", -7 * 24 * time.Hour, 1000, Hours},
	} {
		if got := Choose(noon, noon.Add(c.from), noon, c.points); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Any series survives within the error that the package guarantees.
func TestValuesAreKeptWithinTheQuantum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(
			rapid.Float64Range(-1, 1), rapid.Float64Range(0, 1e13), rapid.Just(0.0), rapid.Just(math.NaN()),
			rapid.Map(rapid.IntRange(0, 100000), func(i int) float64 { return float64(i) }),
			rapid.Float64(),
		), 1, 300).Draw(t, "values")
		r := NewRecorder()
		low, high := math.Inf(1), math.Inf(-1)
		start := Seconds.BlockStart(noon)
		for i, v := range values {
			if math.Abs(v) > 1e30 || v != 0 && math.Abs(v) < 1e-30 {
				v = 0
				values[i] = 0
			}
			if v == v {
				low, high = min(low, v), max(high, v)
			}
			r.Record(start.Add(time.Duration(i)*time.Second), "t", "p", []float64{v})
		}
		allowed := max((high-low)/500, max(math.Abs(low), math.Abs(high))/1e5)*0.5 + max(math.Abs(low), math.Abs(high))*1.3e-7
		for _, b := range r.Flush(start.Add(300 * time.Second)) {
			if b.Level != Seconds {
				continue
			}
			points, err := b.Points([]int32{0}, time.Time{}, noon.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for i, v := range values {
				if v != v {
					continue
				}
				p := points[0][n]
				n++
				if !p.Time.Equal(start.Add(time.Duration(i)*time.Second)) || math.Abs(p.Average-v) > allowed {
					t.Fatalf("value %d was %v, is %v (at %v); allowed %v", i, v, p.Average, p.Time, allowed)
				}
			}
			if n != len(points[0]) {
				t.Fatalf("%d points of %d", len(points[0]), n)
			}
		}
	})
}

func FuzzBlocksAreNotTrusted(f *testing.F) {
	r := NewRecorder()
	for i := range 100 {
		r.Record(noon.Add(time.Duration(i)*time.Second), "t", "p", []float64{float64(i), 3, 0, math.Sin(float64(i))})
	}
	for _, b := range r.Flush(noon.Add(time.Hour)) {
		f.Add(int(b.Level), b.Data)
	}
	f.Fuzz(func(t *testing.T, level int, data []byte) {
		b := Block{Level: Level(uint(level) % uint(levelCount)), Start: noon, Data: data}
		points, err := b.Points([]int32{0, 1, 2, 3}, time.Time{}, noon.Add(10000*time.Hour))
		if err == nil && len(points) > 4 {
			t.Errorf("%d series of four", len(points))
		}
		if err := NewRecorder().Restore(noon, b); err != nil && points != nil {
			t.Logf("restore: %v", err)
		}
	})
}

// cluster generates the values of pools in a busy cluster: 5 resources with 12 series each. A
// fraction of the pools is active: their jobs start and end at random, so usage, demand and fair
// shares change every second. Guarantees and limits are constant, and two of the resources are
// hardly used.
type cluster struct {
	random *rand.Rand
	active int
	jobs   []float64
	demand []float64
	volume []float64
	size   [][clusterResources]float64 // of the average job
}

const (
	clusterResources = 5
	clusterSeries    = 12
)

func newCluster(pools, active int) *cluster {
	c := &cluster{random: rand.New(rand.NewPCG(1, 2)), active: active}
	for range pools {
		c.jobs = append(c.jobs, 200+c.random.Float64()*800)
		c.demand = append(c.demand, 1000)
		c.volume = append(c.volume, 1e5)
		c.size = append(c.size, [clusterResources]float64{1, 1, 1, 1, 1})
	}
	return c
}

// step advances time by some seconds and fills in the values of a pool.
func (c *cluster) step(pool int, seconds float64, values []float64) {
	if pool < c.active {
		// Jobs run for 100 seconds: each second a hundredth of them ends and as many start.
		spread := math.Sqrt(c.jobs[pool] * 0.02 * min(seconds, 50))
		c.jobs[pool] = max(0, math.Round(c.jobs[pool]+c.random.NormFloat64()*spread+(500-c.jobs[pool])*0.001*min(seconds, 50)))
		c.demand[pool] = max(c.jobs[pool], math.Round(c.demand[pool]+c.random.NormFloat64()*5))
		c.volume[pool] += seconds * (c.random.Float64() - 0.5)
		for r := range c.size[pool] {
			c.size[pool][r] += c.random.NormFloat64()*0.003*math.Sqrt(min(seconds, 50)) + (1-c.size[pool][r])*0.001*min(seconds, 50)
		}
	}
	perJob := [clusterResources]float64{1, 2.5e9, 1, 0, 0.1} // cpu, memory, slots, gpu, network
	total := [clusterResources]float64{1e5, 2.5e14, 1e5, 1e3, 1e5}
	for r := range clusterResources {
		v := values[r*clusterSeries : (r+1)*clusterSeries]
		jobs, demand := c.jobs[pool], c.demand[pool]
		if pool >= c.active {
			jobs, demand = 0, 0
		}
		if r == 1 || r == 4 { // jobs differ in memory and network usage
			jobs *= c.size[pool][r]
			demand *= 1 + (c.size[pool][r]-1)/2
		}
		share := jobs * perJob[r] / total[r]
		guarantee := 400 * perJob[r] / total[r]
		v[0] = jobs * perJob[r]               // usage
		v[1] = demand * perJob[r]             // demand
		v[2] = min(share, guarantee)          // fair share by strong guarantee
		v[3] = 0                              // by integral guarantee
		v[4] = max(0, share-guarantee)        // by weight
		v[5] = v[2] + v[4]                    // in total
		v[6] = 400 * perJob[r]                // guarantee
		v[7] = total[r]                       // limit
		v[8] = 0                              // flow
		v[9] = 0                              // burst
		v[10] = 0                             // accumulated volume
		v[11] = demand * perJob[r] / total[r] // demand share
		if pool%4 == 0 && r == 0 {
			v[8], v[9], v[10] = 100, 500, c.volume[pool]
		}
	}
}

// recordMinute is Record without the level of seconds.
func (r *Recorder) recordMinute(now time.Time, tree, pool string, values []float64) {
	name := poolName{tree, pool}
	if r.pools[name] == nil {
		r.pools[name] = &poolRecord{}
	}
	p := r.pools[name]
	p.advance(name, now.Unix())
	p.raise(Minutes, now.Unix(), len(values), func(n int) (float64, float64) { return values[n], values[n] })
}

// day records a day and returns the bytes of all its blocks: the last hour by the second, the
// time before by the minute, since its seconds are not kept.
func day(pools, active int) (bytes, blocks int) {
	c := newCluster(pools, active)
	r := NewRecorder()
	values := make([]float64, clusterResources*clusterSeries)
	start := noon.Truncate(24 * time.Hour)
	kept := map[poolName]map[Level]map[time.Time]Block{}
	put := func(list []Block) {
		for _, b := range list {
			name := poolName{b.Tree, b.Pool}
			if kept[name] == nil {
				kept[name] = map[Level]map[time.Time]Block{Seconds: {}, Minutes: {}, Hours: {}}
			}
			kept[name][b.Level][b.Start] = b
		}
	}
	names := make([]string, pools)
	for i := range names {
		names[i] = string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	for s := int64(0); s < 86400; {
		step := int64(60)
		if s >= 82800 {
			step = 1
		}
		now := start.Add(time.Duration(s) * time.Second)
		for p := range pools {
			c.step(p, float64(step), values)
			if step == 1 {
				r.Record(now, "main", names[p], values)
			} else {
				r.recordMinute(now, "main", names[p], values)
			}
		}
		s += step
		if s%3600 == 0 {
			put(r.Flush(now))
		}
	}
	for _, byLevel := range kept {
		for _, byStart := range byLevel {
			for _, b := range byStart {
				bytes += len(b.Data)
				blocks++
			}
		}
	}
	return bytes, blocks
}

func TestADayOfTwoHundredPoolsIsSmall(t *testing.T) {
	// Record a tenth of the pools: pools do not share blocks, so ten times as many need ten times
	// the space.
	bytes, blocks := day(20, 6)
	t.Logf("20 pools, 6 of them active: %.2f MB in %d blocks", float64(bytes)/1e6, blocks)
	if bytes > 1e6 {
		t.Errorf("a day of 200 pools takes %d bytes", 10*bytes)
	}
}

func BenchmarkDay(b *testing.B) {
	for _, c := range []struct {
		name   string
		active int
	}{{"60_of_200_pools_active", 60}, {"all_of_200_pools_active", 200}} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				bytes, blocks := day(200, c.active)
				b.ReportMetric(float64(bytes)/1e6, "MB/day")
				b.ReportMetric(float64(blocks), "blocks/day")
			}
		})
	}
}

func BenchmarkRecord200Pools(b *testing.B) {
	c := newCluster(200, 60)
	r := NewRecorder()
	values := make([]float64, clusterResources*clusterSeries)
	for i := range b.N {
		now := noon.Add(time.Duration(i) * time.Second)
		for p := range 200 {
			c.step(p, 1, values)
			r.Record(now, "main", string(rune('a'+p)), values)
		}
		if i%60 == 59 {
			r.Flush(now)
		}
	}
}
