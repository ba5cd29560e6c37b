package document

// Optional is a value that may be unset. The zero Optional is unset.
type Optional[F any] struct {
	value F
	set   bool
}

// Some returns an Optional that is set to value.
func Some[F any](value F) Optional[F] { return Optional[F]{value: value, set: true} }

// Get returns the value and whether it is set.
func (o Optional[F]) Get() (F, bool) { return o.value, o.set }

// IsSet reports whether there is a value.
func (o Optional[F]) IsSet() bool { return o.set }

// Value returns the value, or the zero value of its type if it is unset. Use it
// after defaults have been filled in.
func (o Optional[F]) Value() F { return o.value }

// Or returns the value, or fallback if it is unset.
func (o Optional[F]) Or(fallback F) F {
	if o.set {
		return o.value
	}
	return fallback
}

// OrElse returns o, or other if o is unset.
func (o Optional[F]) OrElse(other Optional[F]) Optional[F] {
	if o.set {
		return o
	}
	return other
}

// Named is a value under a name: an entry of an ordered map.
type Named[F any] struct {
	Name  string
	Value F
}
