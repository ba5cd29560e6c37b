package server

import (
	"errors"
	"testing"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

func TestAnAnswerToASignalSaysWhetherItWasSent(t *testing.T) {
	stream, err := new(liveBoard).add("s", "n", 1)
	if err != nil {
		t.Fatal(err)
	}
	ended := func(reason nodev1.StreamEndReason) *nodev1.NodeFrame {
		return &nodev1.NodeFrame{Frame: &nodev1.NodeFrame_End{End: &nodev1.StreamEnd{Reason: reason}}}
	}
	if err := stream.signalled(ended(nodev1.StreamEndReason_STREAM_END_REASON_SIGNALLED), true); err != nil {
		t.Error(err)
	}
	for want, answer := range map[LiveReason]*nodev1.NodeFrame{
		LiveJobEnded:   ended(nodev1.StreamEndReason_STREAM_END_REASON_NO_JOB),
		LiveNotStarted: ended(nodev1.StreamEndReason_STREAM_END_REASON_NOT_STARTED),
		// A node of an earlier version takes the order for one that follows output.
		LiveUnsupported: {Frame: &nodev1.NodeFrame_Piece{Piece: &nodev1.OutputPiece{}}},
		LiveNodeAway:    nil,
	} {
		var refused *LiveError
		if err := stream.signalled(answer, answer != nil); !errors.As(err, &refused) || refused.Reason != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
