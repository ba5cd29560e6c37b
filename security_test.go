package weir_test

import "testing"

// TestSentencesOfSecurityHaveTests holds docs/security.md to the code: every sentence names tests that are there.
func TestSentencesOfSecurityHaveTests(t *testing.T) {
	checkPromises(t, "docs/security.md", 35)
}
