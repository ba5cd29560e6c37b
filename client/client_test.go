package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// exchange is a request as the server received it.
type exchange struct {
	method, command, parameters, input string
	header                             http.Header
}

// serve starts a server that gives the answers in turn, the last one repeatedly, and
// records the requests.
func serve(t *testing.T, answers ...func(w http.ResponseWriter)) (address string, seen *[]exchange) {
	t.Helper()
	seen = &[]exchange{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		e := exchange{method: r.Method, command: strings.TrimPrefix(r.URL.Path, "/api/v4/"), parameters: string(body), header: r.Header}
		if r.Method == http.MethodPut {
			e.parameters, e.input = r.Header.Get("X-YT-Parameters"), string(body)
		}
		if r.URL.RawQuery != "" {
			t.Errorf("the address of a request has parameters: %s", r.URL)
		}
		*seen = append(*seen, e)
		answers[min(len(*seen), len(answers))-1](w)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), seen
}

func value(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }
}

func refusal(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARequestCarriesWhoAsks(t *testing.T) {
	address, seen := serve(t, value(`{a=1}`))
	c := newClient(t, Options{Address: address, Token: "secret", User: "ann", Agent: "test"})
	answer, err := c.Get(t.Context(), "//sys", ReadOptions{Attributes: []string{"type", "id"}})
	if err != nil || answer.String() != `{"a"=1;}` {
		t.Fatalf("%v, %v", answer, err)
	}
	r := (*seen)[0]
	want := `{"path"="//sys";"return_only_value"=%true;"attributes"=["type";"id";];"output_format"=<"format"="binary";>"yson";"mutation_id"="`
	if r.method != "POST" || r.command != "get" || !strings.HasPrefix(r.parameters, want) {
		t.Errorf("%s %s %s", r.method, r.command, r.parameters)
	}
	for name, want := range map[string]string{"Authorization": "OAuth secret", "X-YT-User-Name": "ann", "User-Agent": "test"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestAnInputTravelsInTheBody(t *testing.T) {
	address, seen := serve(t, value(""))
	if err := newClient(t, Options{Address: address}).Set(t.Context(), "//a", true, WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if r := (*seen)[0]; r.method != "PUT" || r.input != "\x05" || !strings.Contains(r.parameters, `{"path"="//a";"force"=%true;`) || r.header.Get("Authorization") != "" {
		t.Errorf("%+v", r)
	}
}

const unavailable = `{"code":105,"message":"no leader","attributes":{},"inner_errors":[]}`

func TestAMutationIsRepeatedUnderItsName(t *testing.T) {
	address, seen := serve(t, refusal(http.StatusServiceUnavailable, unavailable), value(`{node_id="1-2-3-4"}`))
	_, err := newClient(t, Options{Address: address}).Do(t.Context(), "create", nil)
	if err != nil || len(*seen) != 2 {
		t.Fatalf("%d requests, %v", len(*seen), err)
	}
	id := func(parameters string) string {
		n, err := ParseValue(parameters)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := n.Get("mutation_id").Text()
		return text
	}
	first, second := (*seen)[0].parameters, (*seen)[1].parameters
	if id(first) == "" || id(first) != id(second) || strings.Contains(first, `"retry"=%true`) || !strings.Contains(second, `"retry"=%true`) {
		t.Errorf("first %s, then %s", first, second)
	}
}

func TestRefusalsAreNotRepeated(t *testing.T) {
	address, seen := serve(t, refusal(http.StatusBadRequest,
		`{"code":500,"message":"Error resolving path //a","attributes":{"path":"//a"},"inner_errors":[{"code":1,"message":"two\nlines","attributes":{},"inner_errors":[{"code":901,"message":"deep","attributes":{},"inner_errors":[]}]}]}`))
	_, err := newClient(t, Options{Address: address}).Get(t.Context(), "//a", ReadOptions{})
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, CodeResolve) || !errors.Is(err, CodeAuthorization) || errors.Is(err, CodeUnavailable) ||
		e.Attributes["path"] != "//a" || len(*seen) != 1 {
		t.Fatalf("%d requests, %+v", len(*seen), err)
	}
	if want := "Error resolving path //a (code 500)\n  two\n  lines\n    deep (code 901)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestAnswersOfSomethingElse(t *testing.T) {
	address, _ := serve(t, refusal(http.StatusNotFound, "<html>"+strings.Repeat("x", 1000)))
	_, err := newClient(t, Options{Address: address}).Get(t.Context(), "//a", ReadOptions{})
	if err == nil || !strings.HasPrefix(err.Error(), "404 Not Found: <html>xxx") || len(err.Error()) > 400 {
		t.Errorf("%v", err)
	}
	address, _ = serve(t, value("{broken"))
	if _, err := newClient(t, Options{Address: address}).Get(t.Context(), "//a", ReadOptions{}); err == nil || !strings.Contains(err.Error(), "the answer to get cannot be read") {
		t.Errorf("%v", err)
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	_, err := newClient(t, Options{Address: "127.0.0.1:1"}).Get(t.Context(), "//a", ReadOptions{})
	var away *Unreachable
	if !errors.As(err, &away) || away.Address != "http://127.0.0.1:1" || strings.Contains(err.Error(), "Post") {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newClient(t, Options{Address: "127.0.0.1:1"}).Get(ended, "//a", ReadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for _, wrong := range []string{"unix:", "unix:a", "ftp://a", "http://", "a b:1", "a:1,", "a:1,ftp://b"} {
		if _, err := New(Options{Address: wrong}); err == nil {
			t.Errorf("%q was taken for an address", wrong)
		}
	}
	if _, err := New(Options{Address: "a:1", Authority: "client_test.go"}); err == nil || !strings.Contains(err.Error(), "has no certificates") {
		t.Errorf("%v", err)
	}
}

func TestWarningsAreToldAndAnswersStreamed(t *testing.T) {
	address, _ := serve(t, func(w http.ResponseWriter) {
		w.Header().Set("X-Weir-Warnings", `["one","\u0434\u0432\u0430"]`)
		_, _ = io.WriteString(w, "bytes")
	})
	var told []string
	c := newClient(t, Options{Address: address, Warn: func(w string) { told = append(told, w) }})
	body, err := c.Stream(t.Context(), Request{Command: "backup"})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil || string(data) != "bytes" || strings.Join(told, ",") != "one,два" {
		t.Errorf("%q, %v, told %q", data, err, told)
	}
}

func TestServersAreTriedInTurn(t *testing.T) {
	follower, seenByFollower := serve(t, refusal(http.StatusServiceUnavailable, unavailable))
	leader, seenByLeader := serve(t, value("1"))
	c := newClient(t, Options{Address: "127.0.0.1:1, " + follower + "," + leader})
	for range 3 {
		if answer, err := c.Do(t.Context(), "set", nil); err != nil || answer.String() != "1" {
			t.Fatalf("%v, %v", answer, err)
		}
	}
	if len(*seenByFollower) != 1 || len(*seenByLeader) != 3 {
		t.Errorf("%d requests went to one that does not lead, %d to one that does; want 1 and 3", len(*seenByFollower), len(*seenByLeader))
	}
	if first := (*seenByLeader)[0].parameters; !strings.Contains(first, `"retry"=%true`) {
		t.Errorf("a request that others have seen is not marked: %s", first)
	}
	body, err := newClient(t, Options{Address: "127.0.0.1:1," + leader}).Stream(t.Context(), Request{Command: "backup"})
	if err != nil {
		t.Fatal(err)
	}
	_ = body.Close()
	refusing, seen := serve(t, refusal(http.StatusBadRequest, `{"code":1,"message":"no"}`))
	if _, err := newClient(t, Options{Address: refusing + "," + leader}).Do(t.Context(), "set", nil); !errors.Is(err, CodeGeneric) || len(*seen) != 1 {
		t.Errorf("a refusal was not the answer: %v", err)
	}
}
