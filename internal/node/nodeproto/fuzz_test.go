package nodeproto_test

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// pieces splits fuzzed bytes into messages, each preceded by its length.
func pieces(data []byte) (out [][]byte) {
	for len(data) > 0 && len(out) < 50 {
		piece, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return append(out, data)
		}
		out = append(out, piece)
		data = data[n:]
	}
	return out
}

func joined(t testing.TB, messages ...proto.Message) (data []byte) {
	for _, m := range messages {
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		data = protowire.AppendBytes(data, wire)
	}
	return data
}

// FuzzSession feeds arbitrary messages of a node to the scheduler's end. It must never panic, and its
// state and orders must stay consistent. In every other message names and numbers are corrected, so
// that it gets past the first checks.
func FuzzSession(f *testing.F) {
	identity := &nodev1.JobIdentity{Number: 5}
	f.Add(joined(f,
		&nodev1.RegisterRequest{Report: &nodev1.Report{Jobs: []*nodev1.JobStatus{{Number: 5, Phase: 2, Identity: identity}}}},
		&nodev1.HeartbeatRequest{Report: &nodev1.Report{Results: []*nodev1.JobResult{{Number: 5, State: 1}}}},
		&nodev1.HeartbeatRequest{OrdersSeen: 1, Report: &nodev1.Report{Jobs: []*nodev1.JobStatus{{Number: 9, Phase: 1}}}},
		&nodev1.HeartbeatRequest{OrdersSeen: 2, Report: &nodev1.Report{Full: true}},
	))
	f.Add([]byte{0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		messages := pieces(data)
		if len(messages) == 0 {
			return
		}
		registration := &nodev1.RegisterRequest{}
		if proto.Unmarshal(messages[0], registration) != nil {
			return
		}
		_, _ = nodeproto.NewSession(nodeproto.SessionID{Epoch: 1, Number: 1}, registration, 4)
		registration.Node = description()
		registration.Incarnation, registration.Sequence, registration.ProtocolVersion, registration.KnownEpoch = 1, 1, nodeproto.Version, 0
		if registration.Report == nil {
			registration.Report = &nodev1.Report{}
		}
		registration.Report.Full = true
		session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: 1, Number: 1}, registration, 4)
		if err != nil {
			return
		}
		handed := map[uint64]bool{}
		for i, message := range messages[1:] {
			request := &nodev1.HeartbeatRequest{}
			if proto.Unmarshal(message, request) != nil {
				continue
			}
			if i%2 == 0 || request.GetSession() == nil {
				request.Session, request.NodeName, request.Incarnation = &nodev1.SessionId{Epoch: 1, Number: 1}, "n1", 1
				request.Sequence = uint64(i) + 2
			}
			drive(t, session, request, handed)
		}
	})
}

// drive processes one request as a server would and checks the result.
func drive(t *testing.T, session *nodeproto.Session, request *nodev1.HeartbeatRequest, handed map[uint64]bool) {
	report, err := session.Receive(request)
	if err != nil {
		var known bool
		for _, kind := range []any{new(*nodeproto.MustRegisterError), new(*nodeproto.StaleError), new(*nodeproto.RefusedError)} {
			known = known || errors.As(err, kind)
		}
		if !known {
			t.Fatalf("an error of no known kind: %v", err)
		}
		return
	}
	for _, result := range report.Finished {
		if result.GetIdentity() == nil {
			t.Fatalf("a result without identity: %v", result)
		}
		handed[result.GetNumber()] = true
		session.Acknowledge(result.GetNumber())
	}
	for _, status := range report.Jobs {
		if status.GetIdentity().GetNumber() != status.GetNumber() {
			t.Fatalf("job %d has the identity of %d", status.GetNumber(), status.GetIdentity().GetNumber())
		}
		session.Abort(&nodev1.AbortOrder{Number: status.GetNumber()})
	}
	if !slices.IsSorted(session.Running()) || !slices.IsSorted(report.Lost) {
		t.Fatal("numbers out of order")
	}
	_ = session.Start(&nodev1.JobIdentity{Number: request.GetSequence() + 1000}, &nodev1.JobSpec{}, nil, nil)
	response := session.Respond(request.GetSequence(), nodeproto.Answer{})
	for i, order := range response.GetOrders() {
		if i > 0 && order.GetNumber() != response.GetOrders()[i-1].GetNumber()+1 {
			t.Fatalf("order %d follows %d", order.GetNumber(), response.GetOrders()[i-1].GetNumber())
		}
		if s := order.GetStart(); s != nil && int(s.GetSpec()) >= len(response.GetSpecs()) {
			t.Fatal("a start without its specification")
		}
	}
	if _, err := proto.Marshal(response); err != nil {
		t.Fatal(err)
	}
}

// FuzzNodeSession feeds arbitrary messages of a scheduler to the node's end.
func FuzzNodeSession(f *testing.F) {
	f.Add(joined(f,
		&nodev1.RegisterResponse{Settings: &nodev1.Settings{MaxResultsPerReport: 1}},
		&nodev1.HeartbeatResponse{Specs: []*nodev1.JobSpec{{}}, Orders: []*nodev1.Order{
			{Number: 1, Order: &nodev1.Order_Start{Start: &nodev1.StartOrder{Identity: &nodev1.JobIdentity{Number: 3}}}},
			{Number: 2, Order: &nodev1.Order_Interrupt{Interrupt: &nodev1.InterruptOrder{Number: 3, TimeoutUs: 1 << 62}}},
			{Number: 3, Order: &nodev1.Order_Abort{Abort: &nodev1.AbortOrder{Number: 3}}},
		}},
		&nodev1.HeartbeatResponse{NeedFull: true, Orders: []*nodev1.Order{
			{Number: 4, Order: &nodev1.Order_Acknowledge{Acknowledge: &nodev1.AcknowledgeOrder{Numbers: []uint64{3, 3, 0}}}},
		}},
	))
	f.Fuzz(func(t *testing.T, data []byte) {
		node := nodeproto.NewNodeSession(description(), 1, nil)
		begun := map[uint64]bool{}
		for _, message := range pieces(data) {
			request, err := node.Heartbeat()
			if err != nil {
				welcome := &nodev1.RegisterResponse{}
				if proto.Unmarshal(message, welcome) != nil {
					continue
				}
				registration := node.Register()
				if _, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: registration.GetKnownEpoch()}, registration, 0); err != nil {
					t.Fatalf("the node registers with what a scheduler refuses: %v", err)
				}
				welcome.Sequence = registration.GetSequence()
				_ = node.Welcome(welcome) // an old epoch
				continue
			}
			response := &nodev1.HeartbeatResponse{}
			if proto.Unmarshal(message, response) != nil {
				continue
			}
			response.Session, response.Sequence = request.GetSession(), request.GetSequence()
			orders, _ := node.Receive(start, response)
			for i, order := range orders.Start {
				number := order.Identity.GetNumber()
				if begun[number] {
					t.Fatalf("job %d begins twice", number)
				}
				begun[number] = true
				if i%2 == 0 {
					node.JobFinished(completed(number))
				}
			}
			for _, number := range orders.Acknowledged {
				delete(begun, number) // the fuzzer may reuse a number; a scheduler must not
			}
		}
		if !slices.IsSorted(node.Jobs()) {
			t.Fatal("numbers out of order")
		}
	})
}
