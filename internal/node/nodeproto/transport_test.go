package nodeproto_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/test/fakescheduler"
)

// authority issues certificates for a test.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue issues a certificate for a server on loopback and for the client of this name.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial + 1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve serves a service on loopback, with TLS if there is a configuration. It records the protocol of
// every request.
func serve(t *testing.T, service nodeproto.Service, auth nodeproto.Authenticator, config *tls.Config) (address string, protocols func() []string) {
	t.Helper()
	var (
		mu   sync.Mutex
		seen []string
	)
	path, handler := nodeproto.NewHandler(service, auth, nodeproto.Unmetered)
	mux := http.NewServeMux()
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Proto)
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = nodeproto.Protocols()
	if config != nil {
		server.TLS = config
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

func newScheduler(jobs int) *fakescheduler.Scheduler {
	store := &fakescheduler.Store{}
	scheduler := fakescheduler.New(store, nodeproto.DefaultSettings())
	store.Submit(jobs)
	return scheduler
}

func client(t *testing.T, config *tls.Config, token string, addresses ...string) *nodeproto.Client {
	t.Helper()
	c, err := nodeproto.NewClient(addresses, config, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// join registers a node and sends its first heartbeat.
func join(ctx context.Context, c *nodeproto.Client, name string) (*nodeproto.NodeSession, error) {
	node := nodeproto.NewNodeSession(&nodev1.NodeDescription{Name: name, Resources: &nodev1.Amounts{UserSlots: 2}}, 1, nil)
	node.NodeChanged(&nodev1.NodeStatus{Limits: &nodev1.Amounts{UserSlots: 2}})
	welcome, err := c.Register(ctx, node.Register())
	if err != nil {
		return nil, err
	}
	if err := node.Welcome(welcome); err != nil {
		return nil, err
	}
	request, err := node.Heartbeat()
	if err != nil {
		return nil, err
	}
	response, err := c.Heartbeat(ctx, request)
	if err != nil {
		return nil, err
	}
	orders, err := node.Receive(time.Now(), response)
	if err == nil && len(orders.Start) != 2 {
		err = errors.New("no jobs came")
	}
	return node, err
}

func TestANodeJoinsOverEveryTransport(t *testing.T) {
	authority := newAuthority(t)
	tokens := &nodeproto.Tokens{}
	if err := tokens.Add("secret of n1", "n1"); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Add("secret of all", nodeproto.AnyNode); err != nil {
		t.Fatal(err)
	}
	auth := nodeproto.EitherOf{tokens, nodeproto.Certificates{}}
	server := &tls.Config{Certificates: []tls.Certificate{authority.issue("scheduler")}, ClientCAs: authority.pool(), ClientAuth: tls.VerifyClientCertIfGiven}
	trusting := &tls.Config{RootCAs: authority.pool()}
	certified := &tls.Config{RootCAs: authority.pool(), Certificates: []tls.Certificate{authority.issue("n1")}}
	foreign := &tls.Config{RootCAs: authority.pool(), Certificates: []tls.Certificate{newAuthority(t).issue("n1")}}

	refused := func(reason nodev1.RefusalReason) func(error) bool {
		return func(err error) bool {
			var refusal *nodeproto.RefusedError
			return errors.As(err, &refusal) && refusal.Reason == reason
		}
	}
	fine := func(err error) bool { return err == nil }
	for _, c := range []struct {
		name   string
		secure bool
		client *tls.Config
		token  string
		node   string
		want   func(error) bool
	}{
		{"in clear text with its token", false, nil, "secret of n1", "n1", fine},
		{"in clear text with the token of all", false, nil, "secret of all", "n7", fine},
		{"in clear text without a token", false, nil, "", "n1", refused(nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN)},
		{"with a wrong token", false, nil, "secret of n", "n1", refused(nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN)},
		{"with the token of another node", false, nil, "secret of n1", "n2", refused(nodev1.RefusalReason_REFUSAL_REASON_WRONG_NAME)},
		{"without a name", false, nil, "secret of all", "", refused(nodev1.RefusalReason_REFUSAL_REASON_INVALID)},
		{"over TLS with its token", true, trusting, "secret of n1", "n1", fine},
		{"over TLS with a wrong token", true, trusting, "guess", "n1", refused(nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN)},
		{"over TLS with its certificate", true, certified, "", "n1", fine},
		{"over TLS with the certificate of another node", true, certified, "", "n2", refused(nodev1.RefusalReason_REFUSAL_REASON_WRONG_NAME)},
		{"over TLS with a certificate of a foreign authority", true, foreign, "", "n1", func(err error) bool { return err != nil && !refused(0)(err) }},
		{"over TLS without trusting the scheduler", true, &tls.Config{RootCAs: x509.NewCertPool()}, "secret of n1", "n1",
			func(err error) bool { return err != nil && strings.Contains(err.Error(), "certificate") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var config *tls.Config
			if c.secure {
				config = server.Clone()
			}
			address, protocols := serve(t, newScheduler(2), auth, config)
			if _, err := join(t.Context(), client(t, c.client, c.token, address), c.node); !c.want(err) {
				t.Errorf("the answer is %v", err)
			}
			for _, protocol := range protocols() {
				if protocol != "HTTP/2.0" {
					t.Errorf("a request came by %s", protocol)
				}
			}
		})
	}
}

func TestTokensAreNotTakenEmpty(t *testing.T) {
	tokens := &nodeproto.Tokens{}
	if tokens.Add("", "n1") == nil || tokens.Add("x", "") == nil {
		t.Error("an empty token, or one of nobody, is taken")
	}
	if _, err := tokens.Authenticate(t.Context(), nodeproto.Credentials{}); !errors.Is(err, nodeproto.ErrUnknownCredentials) {
		t.Errorf("no token at all: %v", err)
	}
	certificate := &x509.Certificate{Subject: pkix.Name{CommonName: nodeproto.AnyNode}}
	if peer, err := (nodeproto.Certificates{}).Authenticate(t.Context(), nodeproto.Credentials{Certificate: certificate}); err == nil {
		t.Errorf("a certificate of every node makes %v", peer)
	}
}

// brokenAuthenticator fails to authenticate every peer.
type brokenAuthenticator struct{}

func (brokenAuthenticator) Authenticate(context.Context, nodeproto.Credentials) (nodeproto.Peer, error) {
	return nodeproto.Peer{}, errors.New("the store is away")
}

func TestAnAuthenticatorThatFailsIsNoRefusal(t *testing.T) {
	address, _ := serve(t, newScheduler(0), brokenAuthenticator{}, nil)
	_, err := join(t.Context(), client(t, nil, "x", address), "n1")
	if connect.CodeOf(err) != connect.CodeUnavailable || errors.As(err, new(*nodeproto.RefusedError)) {
		t.Errorf("the answer is %v, want that the scheduler is not available", err)
	}
}

func TestErrorsKeepTheirDetailsOverTheWire(t *testing.T) {
	for name, want := range map[string]error{
		"not leader":    &nodeproto.NotLeaderError{Epoch: 7},
		"must register": &nodeproto.MustRegisterError{Reason: "why"},
		"stale":         &nodeproto.StaleError{Sequence: 9},
		"two trees": &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_TWO_TREES, Message: "both want it",
			Trees: []string{"a", "b"}, RetryAfter: time.Minute},
		"version":  &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_VERSION},
		"banned":   &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_BANNED},
		"overload": &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD},
	} {
		address, _ := serve(t, failing{err: want}, nodeproto.Insecure{}, nil)
		_, err := client(t, nil, "", address).Upload(t.Context(), &nodev1.UploadRequest{NodeName: "n1"})
		if err == nil || !strings.HasSuffix(err.Error(), want.Error()) {
			t.Errorf("%s came as %v", name, err)
		}
		var got, sent *nodeproto.RefusedError
		if errors.As(want, &sent) && (!errors.As(err, &got) || got.RetryAfter != sent.RetryAfter || len(got.Trees) != len(sent.Trees)) {
			t.Errorf("%s came with %+v, want %+v", name, got, sent)
		}
	}
}

// failing answers every request with the same error.
type failing struct {
	nodeproto.NoFiles
	err error
}

func (f failing) Register(context.Context, nodeproto.Peer, *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	return nil, f.err
}

func (f failing) Heartbeat(context.Context, nodeproto.Peer, *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	return nil, f.err
}

func (f failing) Upload(context.Context, nodeproto.Peer, *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	return nil, f.err
}

func (f failing) Stream(context.Context, nodeproto.Peer, *nodev1.NodeFrame, nodeproto.SchedulerStream) error {
	return f.err
}

// closedAddress returns an address that refuses connections. The port stays reserved until the test
// ends, so that no other process can listen on it.
func closedAddress(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
}

func TestAClientFindsTheLeader(t *testing.T) {
	leader, _ := serve(t, newScheduler(2), nodeproto.Insecure{}, nil)
	pointing, _ := serve(t, failing{err: &nodeproto.NotLeaderError{Leader: leader}}, nodeproto.Insecure{}, nil)
	clueless, _ := serve(t, failing{err: &nodeproto.NotLeaderError{}}, nodeproto.Insecure{}, nil)
	wrong, _ := serve(t, failing{err: &nodeproto.NotLeaderError{Leader: "http://not an address/"}}, nodeproto.Insecure{}, nil)
	for name, addresses := range map[string][]string{
		"directly":                         {leader},
		"by a standby's hint":              {pointing},
		"after one that is down":           {closedAddress(t), leader},
		"after one that knows nothing":     {clueless, leader},
		"after a senseless hint":           {wrong, leader},
		"after all of these and by a hint": {closedAddress(t), clueless, wrong, pointing},
	} {
		c := client(t, nil, "", addresses...)
		if _, err := c.Upload(t.Context(), &nodev1.UploadRequest{NodeName: "n1"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.Current() != leader {
			t.Errorf("%s: the client stays with %s, the leader is %s", name, c.Current(), leader)
		}
	}
	for name, addresses := range map[string][]string{
		"when all are down":     {closedAddress(t), closedAddress(t)},
		"when nobody leads":     {clueless, clueless, wrong},
		"when hints go nowhere": {wrong},
	} {
		if _, err := client(t, nil, "", addresses...).Upload(t.Context(), &nodev1.UploadRequest{NodeName: "n1"}); err == nil {
			t.Errorf("%s the call succeeds", name)
		}
	}
}

func TestAClientLeavesASchedulerThatDoesNotAnswer(t *testing.T) {
	leader, _ := serve(t, newScheduler(2), nodeproto.Insecure{}, nil)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing, like a stopped process
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	c := client(t, nil, "", silent.Addr().String(), leader)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Upload(short, &nodev1.UploadRequest{NodeName: "n1"}); err == nil {
		t.Fatal("a silent scheduler answers")
	}
	if _, err := c.Upload(t.Context(), &nodev1.UploadRequest{NodeName: "n1"}); err != nil || c.Current() != leader {
		t.Errorf("the next call: %v, by %s; want the leader %s", err, c.Current(), leader)
	}
}

func TestAddressesOfSchedulersAreChecked(t *testing.T) {
	for _, addresses := range [][]string{nil, {""}, {"host"}, {"http://host:1"}, {"a:1", "b"}, {"user@host:1"}} {
		if _, err := nodeproto.NewClient(addresses, nil, ""); err == nil {
			t.Errorf("addresses %q are taken", addresses)
		}
	}
}
