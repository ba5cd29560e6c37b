package nodeproto_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// benchPair is both ends of a session with twenty running jobs.
type benchPair struct {
	node    *nodeproto.NodeSession
	session *nodeproto.Session
	next    uint64
	spec    *nodev1.JobSpec
}

func newBenchPair(b *testing.B) *benchPair {
	b.Helper()
	p := &benchPair{node: nodeproto.NewNodeSession(description(), 10, nil), spec: &nodev1.JobSpec{Command: "true"}}
	session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: 1, Number: 1}, p.node.Register(), 0)
	if err != nil {
		b.Fatal(err)
	}
	p.session = session
	if err := p.node.Welcome(session.Registered(nodeproto.DefaultSettings(), "default")); err != nil {
		b.Fatal(err)
	}
	p.exchange(b)
	p.startJobs(b, 20)
	p.exchange(b)
	p.exchange(b)
	return p
}

func (p *benchPair) startJobs(b *testing.B, count int) {
	for range count {
		p.next++
		if err := p.session.Start(&nodev1.JobIdentity{
			Number: nodeproto.JobNumber(3, p.next), Operation: 17, OperationId: "3f1c2d4e-5a6b7c8d-3fe0384-9", TaskName: "map", Cookie: int32(p.next),
			TreeName: "physical", StartTimeUs: 1_800_000_000_000_000, Resources: &nodev1.Amounts{UserSlots: 1, Cpu: 100, Memory: 1 << 30},
			Reserve: &nodev1.MemoryReserve{UserJob: 1 << 29, Footprint: 128 << 20, UserJobFactor: 0.5},
		}, p.spec, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// exchange is a heartbeat with encoding and decoding at both ends. It returns the sizes of both
// messages.
func (p *benchPair) exchange(b *testing.B) (up, down int) {
	request, err := p.node.Heartbeat()
	if err != nil {
		b.Fatal(err)
	}
	wire, err := proto.Marshal(request)
	if err != nil {
		b.Fatal(err)
	}
	received := &nodev1.HeartbeatRequest{}
	if err := proto.Unmarshal(wire, received); err != nil {
		b.Fatal(err)
	}
	report, err := p.session.Receive(received)
	if err != nil {
		b.Fatal(err)
	}
	for _, result := range report.Finished {
		p.session.Acknowledge(result.GetNumber())
	}
	answer, err := proto.Marshal(p.session.Respond(received.GetSequence(), nodeproto.Answer{}))
	if err != nil {
		b.Fatal(err)
	}
	response := &nodev1.HeartbeatResponse{}
	if err := proto.Unmarshal(answer, response); err != nil {
		b.Fatal(err)
	}
	if _, err := p.node.Receive(start, response); err != nil {
		b.Fatal(err)
	}
	return len(wire), len(answer)
}

func BenchmarkIdleHeartbeat(b *testing.B) {
	p := newBenchPair(b)
	b.ReportAllocs()
	var up, down int
	for b.Loop() {
		up, down = p.exchange(b)
	}
	b.ReportMetric(float64(up), "B/request")
	b.ReportMetric(float64(down), "B/response")
}

// BenchmarkHeartbeatWithTenResults measures two exchanges: one with ten results, which are acknowledged
// and followed by ten starts, and one that reports the new jobs.
func BenchmarkHeartbeatWithTenResults(b *testing.B) {
	p := newBenchPair(b)
	var statistics []*nodev1.Statistic
	for _, path := range []string{
		"job_proxy/cumulative_memory_mb_sec", "job_proxy/max_memory", "time/exec", "time/prepare", "time/total", "user_job/cpu/system",
		"user_job/cpu/user", "user_job/cumulative_memory_mb_sec", "user_job/max_memory", "user_job/memory_limit", "user_job/memory_reserve", "user_job/tmpfs_max_usage",
	} {
		statistics = append(statistics, &nodev1.Statistic{Path: path, Sum: 123456789, Count: 1, Min: 123456789, Max: 123456789, Last: 123456789})
	}
	b.ReportAllocs()
	var up, down int
	for b.Loop() {
		for _, number := range p.node.Jobs()[:10] {
			result := completed(number)
			result.Statistics = statistics
			result.Timings = &nodev1.Timings{AcceptedUs: 1_800_000_000_000_000, ExecStartedUs: 1_800_000_000_000_000, FinishedUs: 1_800_000_000_000_000}
			p.node.JobFinished(result)
		}
		p.startJobs(b, 10)
		up, down = p.exchange(b)
		p.exchange(b)
	}
	b.ReportMetric(float64(up), "B/request")
	b.ReportMetric(float64(down), "B/response")
}

// BenchmarkHeartbeatOverHTTP measures an idle heartbeat through a server on loopback, with client and
// server in one process.
func BenchmarkHeartbeatOverHTTP(b *testing.B) {
	p := newBenchPair(b)
	path, handler := nodeproto.NewHandler(answering{session: p.session}, nodeproto.Insecure{}, nodeproto.Unmetered)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = nodeproto.Protocols()
	server.Start()
	defer server.Close()
	client, err := nodeproto.NewClient([]string{server.Listener.Addr().String()}, nil, "a token")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		request, err := p.node.Heartbeat()
		if err != nil {
			b.Fatal(err)
		}
		response, err := client.Heartbeat(b.Context(), request)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.node.Receive(start, response); err != nil {
			b.Fatal(err)
		}
	}
}

// answering is a service with one session.
type answering struct {
	nodeproto.NoFiles
	session *nodeproto.Session
}

func (a answering) Register(context.Context, nodeproto.Peer, *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	return nil, &nodeproto.NotLeaderError{}
}

func (a answering) Heartbeat(_ context.Context, _ nodeproto.Peer, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	if _, err := a.session.Receive(request); err != nil {
		return nil, err
	}
	return a.session.Respond(request.GetSequence(), nodeproto.Answer{}), nil
}

func (a answering) Upload(context.Context, nodeproto.Peer, *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	return nil, &nodeproto.NotLeaderError{}
}

func (a answering) Stream(context.Context, nodeproto.Peer, *nodev1.NodeFrame, nodeproto.SchedulerStream) error {
	return &nodeproto.NotLeaderError{}
}
