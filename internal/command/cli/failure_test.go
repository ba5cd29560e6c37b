package cli

import (
	"errors"
	"testing"

	"github.com/weirhq/weir/client"
)

func TestAFailureByMemoryHasItsFigures(t *testing.T) {
	exceeded := &client.Error{Code: 1200, Message: "Memory limit exceeded", Attributes: map[string]any{"usage": int64(300 << 20), "limit": int64(256 << 20)}}
	failed := &client.Error{Code: 1205, Message: "User job failed", Inner: []*client.Error{exceeded}}
	const want = "User job failed (code 1205)\n  Memory limit exceeded (code 1200)\n" +
		"  A job used 300 MiB; its memory limit is 256 MiB (memory_limit of the task, --memory of weir run)."
	if got := withFigures(failed).Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, other := range []error{errors.New("else"), &client.Error{Code: 1205, Message: "User job failed"}, &client.Error{Code: 1200, Message: "Memory limit exceeded"}} {
		if got := withFigures(other); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}
