package agent

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// holder is a scheduler that holds every heartbeat until the test answers it.
type holder struct {
	Caller
	beats chan beat
}

type beat struct {
	request *nodev1.HeartbeatRequest
	gone    <-chan struct{}
	answer  chan *nodev1.HeartbeatResponse
}

func (h *holder) Register(_ context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	return &nodev1.RegisterResponse{Session: &nodev1.SessionId{Epoch: 1, Number: 1}, Sequence: request.GetSequence()}, nil
}

func (h *holder) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	b := beat{request, ctx.Done(), make(chan *nodev1.HeartbeatResponse, 1)}
	h.beats <- b
	select {
	case response := <-b.answer:
		return response, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// respond answers a heartbeat.
func (b beat) respond(orders ...*nodev1.Order) {
	b.answer <- &nodev1.HeartbeatResponse{Session: b.request.GetSession(), Sequence: b.request.GetSequence(), Orders: orders, Holds: true}
}

func TestAResultDoesNotWaitForAHeldHeartbeat(t *testing.T) {
	driver, err := cgroup.NewProcessLimits("weir-hold")
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{beats: make(chan beat, 8)}
	a, err := New(t.Context(), Options{
		Caller: h, Driver: driver, Directory: t.TempDir(), Rules: DefaultRules(), Log: slog.New(slog.DiscardHandler),
		Description: &nodev1.NodeDescription{Name: "n", Resources: &nodev1.Amounts{UserSlots: 1, Cpu: 100, Memory: 1 << 30}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	first := <-h.beats
	if hold := nodeproto.Duration(first.request.GetHoldUs()); hold < 5*time.Second || hold > 6*time.Second {
		t.Errorf("the node allows a hold of %v, want a period with its splay", hold)
	}
	// A job that cannot be described ends at once, with a result.
	first.respond(&nodev1.Order{Number: 1, Order: &nodev1.Order_Start{Start: &nodev1.StartOrder{Identity: &nodev1.JobIdentity{Number: 7, JobId: "7"}}}})
	for {
		next := <-h.beats
		results := next.request.GetReport().GetResults()
		if len(results) == 0 {
			<-next.gone // it was held, and the agent gives it up for the result
			continue
		}
		if results[0].GetNumber() != 7 || next.request.GetOrdersSeen() != 1 {
			t.Fatalf("got %v, want the result of job 7", next.request)
		}
		next.respond()
		break
	}
	// The scheduler holds heartbeats, so the next one comes without waiting for the period.
	if last := <-h.beats; len(last.request.GetReport().GetResults()) != 0 {
		t.Errorf("the result was reported twice: %v", last.request)
	}
}
