package digest

import "fmt"

// Snapshot is a digest as a value that encoding/json and encoding/gob can store.
type Snapshot struct {
	LowerBound   float64 `json:"lower_bound"`
	UpperBound   float64 `json:"upper_bound"`
	DefaultValue float64 `json:"default_value"`
	Precision    float64 `json:"relative_precision"`
	// Buckets are the index and count of each nonempty bucket, by index.
	Buckets [][2]int64 `json:"buckets,omitempty"`
}

// maxCount keeps counts exact as floating-point numbers.
const maxCount = 1 << 53

// Snapshot returns the state of the digest. It shares no memory with it.
func (d *Digest) Snapshot() Snapshot {
	s := Snapshot{
		LowerBound: d.options.LowerBound, UpperBound: d.options.UpperBound,
		DefaultValue: d.options.DefaultValue, Precision: d.options.Precision,
	}
	for i, n := range d.buckets {
		if n > 0 {
			s.Buckets = append(s.Buckets, [2]int64{int64(i), n})
		}
	}
	return s
}

// Restore returns the digest of a snapshot.
func Restore(s Snapshot) (Digest, error) {
	d, err := New(Options{LowerBound: s.LowerBound, UpperBound: s.UpperBound, DefaultValue: s.DefaultValue, Precision: s.Precision})
	if err != nil {
		return Digest{}, err
	}
	if len(s.Buckets) == 0 {
		return d, nil
	}
	d.buckets = make([]int64, d.size)
	last := int64(-1)
	for _, b := range s.Buckets {
		index, n := b[0], b[1]
		switch {
		case index <= last:
			return Digest{}, fmt.Errorf("digest: bucket %d after bucket %d", index, last)
		case index >= int64(d.size):
			return Digest{}, fmt.Errorf("digest: bucket %d of %d", index, d.size)
		case n <= 0 || n > maxCount-d.count:
			return Digest{}, fmt.Errorf("digest: bucket %d has %d samples", index, n)
		}
		last = index
		d.buckets[index] = n
		d.count += n
	}
	return d, nil
}
