package resource

import "math"

// Shares is a vector of fractions of a tree's total resources.
type Shares [KindCount]float64

// Ones is the whole tree.
func Ones() Shares { return Shares{1, 1, 1, 1, 1} }

// Uniform has the same fraction of every resource.
func Uniform(v float64) Shares { return Shares{v, v, v, v, v} }

// Add returns s+t.
func (s Shares) Add(t Shares) Shares {
	for k := range s {
		s[k] += t[k]
	}
	return s
}

// Sub returns s-t.
func (s Shares) Sub(t Shares) Shares {
	for k := range s {
		s[k] -= t[k]
	}
	return s
}

// Times returns s multiplied by factor.
func (s Shares) Times(factor float64) Shares {
	for k := range s {
		s[k] *= factor
	}
	return s
}

// Min returns the componentwise minimum.
func (s Shares) Min(t Shares) Shares {
	for k := range s {
		if t[k] < s[k] {
			s[k] = t[k]
		}
	}
	return s
}

// Max returns the componentwise maximum.
func (s Shares) Max(t Shares) Shares {
	for k := range s {
		if t[k] > s[k] {
			s[k] = t[k]
		}
	}
	return s
}

// Dominates reports whether s >= t in every component.
func (s Shares) Dominates(t Shares) bool {
	for k := range s {
		if s[k] < t[k] {
			return false
		}
	}
	return true
}

// Near reports whether no component of s and t differs by more than
// tolerance.
func (s Shares) Near(t Shares, tolerance float64) bool {
	for k := range s {
		if !(math.Abs(s[k]-t[k]) <= tolerance) {
			return false
		}
	}
	return true
}

// Largest is the value of the dominant component: the "ratio" of a share.
func (s Shares) Largest() float64 {
	m := s[0]
	for _, v := range s[1:] {
		if v > m {
			m = v
		}
	}
	return m
}

// Smallest is the value of the smallest component.
func (s Shares) Smallest() float64 {
	m := s[0]
	for _, v := range s[1:] {
		if v < m {
			m = v
		}
	}
	return m
}

// IsZero reports whether every component is zero.
func (s Shares) IsZero() bool { return s == Shares{} }

// Of returns the amounts that are the fraction s of total, rounded to storage
// units.
func (s Shares) Of(total Amounts) (a Amounts) {
	for k := range s {
		a[k] = roundToInt(float64(total[k]) * s[k])
	}
	return a
}
