package distribution

import "math/rand/v2"

// Seed is the start of a sequence of draws. Seeds are derived from each other by
// names and numbers, so that each part of a simulation has a separate sequence
// that does not change when parts are added or removed.
type Seed uint64

// Named returns the seed of the part with this name.
func (s Seed) Named(name string) Seed {
	const (
		offset = 14695981039346656037
		prime  = 1099511628211
	)
	hash := uint64(offset)
	for _, c := range []byte(name) {
		hash = (hash ^ uint64(c)) * prime
	}
	return mix(uint64(s) ^ mixBits(hash))
}

// At returns the seed of the part with this number.
func (s Seed) At(index int) Seed { return mix(uint64(s) + (uint64(index)+1)*golden) }

const golden = 0x9e3779b97f4a7c15

func mix(x uint64) Seed { return Seed(mixBits(x)) }

// mixBits is the last step of SplitMix64: similar inputs get unrelated outputs.
func mixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Stream returns the draws that start at the seed.
func (s Seed) Stream() Stream {
	var stream Stream
	stream.pcg.Seed(uint64(s), mixBits(uint64(s)^golden))
	return stream
}

// Stream is a sequence of uniform draws. Copies continue independently.
type Stream struct {
	pcg rand.PCG
}

// Float64 returns the next number of the sequence, from 0 to below 1.
func (s *Stream) Float64() float64 { return float64(s.pcg.Uint64()>>11) / (1 << 53) }
