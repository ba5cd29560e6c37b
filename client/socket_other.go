//go:build !unix

package client

// isPrivate reports that no directory is: schedulers run on Unix.
func isPrivate(string) bool { return false }
