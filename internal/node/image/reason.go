package image

import (
	"errors"
	"fmt"
)

// Reason is why an image cannot be used.
type Reason string

const (
	Unknown       Reason = "unknown_image"
	Mismatch      Reason = "digest_mismatch" // content is not what its digest says
	Unavailable   Reason = "registry_unavailable"
	Denied        Reason = "registry_denied"
	NotAllowed    Reason = "registry_not_allowed"
	NoSpace       Reason = "no_space"
	TooLarge      Reason = "image_too_large"
	WrongPlatform Reason = "wrong_platform"
	Invalid       Reason = "invalid_image" // a layer or the configuration is not acceptable
)

// IsImages reports whether the image itself is at fault, so that no other node could use it.
func (r Reason) IsImages() bool {
	switch r {
	case Unknown, Mismatch, NotAllowed, TooLarge, WrongPlatform, Invalid:
		return true
	}
	return false
}

// Error is why an image cannot be used.
type Error struct {
	Reason Reason
	Image  string
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("image %s: %s: %v", e.Image, e.Reason, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// fault is an error with a reason that does not know yet which image it is about.
type fault struct {
	reason Reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(reason Reason, format string, args ...any) error {
	return &fault{reason, fmt.Errorf(format, args...)}
}

// reasonOf returns the reason of an error, and otherwise the given one.
func reasonOf(err error, otherwise Reason) Reason {
	var f *fault
	if errors.As(err, &f) {
		return f.reason
	}
	return otherwise
}
