//go:build !smallprograms

package programs

// embedded returns nothing: this weir was built without the programs.
func embedded() (supervisor, init, pod []byte) { return nil, nil, nil }
