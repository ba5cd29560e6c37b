package resource

// Volume is an amount multiplied by seconds, in the units that people write
// (core·seconds, byte·seconds, …). It is what an integral pool saves and spends.
// Volumes are floating point: rounding them to storage units would lose the
// flow of small pools at short update periods.
type Volume [KindCount]float64

// VolumeOf returns total × ratio × seconds.
func VolumeOf(total Amounts, ratio, seconds float64) (v Volume) {
	for k := range v {
		v[k] = total.Float(Kind(k)) * ratio * seconds
	}
	return v
}

// Add returns v+w.
func (v Volume) Add(w Volume) Volume {
	for k := range v {
		v[k] += w[k]
	}
	return v
}

// Sub returns v-w.
func (v Volume) Sub(w Volume) Volume {
	for k := range v {
		v[k] -= w[k]
	}
	return v
}

// Min returns the componentwise minimum.
func (v Volume) Min(w Volume) Volume { return Volume(Shares(v).Min(Shares(w))) }

// Max returns the componentwise maximum.
func (v Volume) Max(w Volume) Volume { return Volume(Shares(v).Max(Shares(w))) }

// Ratio is the volume in seconds of the whole tree: the minimum of v/total over
// the tree's resources, because a pool can spend only what it has of every
// resource. It is zero if the tree has no resources.
func (v Volume) Ratio(total Amounts) float64 {
	ratio, found := 0.0, false
	for k := range v {
		if total[k] <= 0 {
			continue
		}
		r := v[k] / total.Float(Kind(k))
		if !found || r < ratio {
			ratio, found = r, true
		}
	}
	return ratio
}
