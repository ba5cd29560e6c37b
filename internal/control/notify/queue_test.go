package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// everything tells a target everything.
var everything = []Rule{{Targets: []string{"chat"}}}

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// ended is the end of an operation in a pool.
func ended(id int64, seconds float64, pool string) Notice {
	return Notice{ID: id, Kind: OperationEnded, Time: at(seconds), Tree: "main", Pool: pool, State: "completed"}
}

// ids are the events of a message.
func ids(m Message) (list []int64) {
	for _, n := range m.Notices {
		list = append(list, n.ID)
	}
	return list
}

func TestOneMessagePerKindAndPoolAndMinute(t *testing.T) {
	q := Queue{Target: "chat"}
	q.Add(everything, ended(1, 0, "a"))
	next := func(seconds float64, want string) (m Message) {
		t.Helper()
		m, ok := q.Next(at(seconds))
		if got := fmt.Sprint(ok, ids(m)); got != want {
			t.Errorf("at %v s: %s, want %s", seconds, got, want)
		}
		return m
	}
	m := next(0, "true [1]")
	q.Sent(at(0), &m)
	q.Add(everything, ended(2, 5, "a"))
	q.Add(everything, ended(3, 6, "b"))
	q.Add(everything, ended(4, 7, "a"))
	m = next(8, "true [3]") // another pool does not wait
	q.Sent(at(8), &m)
	next(59, "false []")
	if got := q.Position(); got != 1 {
		t.Errorf("the position is %d while 2 waits", got)
	}
	m = next(60, "true [2 4]")
	if m.Count != 2 || m.Pool != "a" || m.Tree != "main" {
		t.Errorf("%+v", m)
	}
	q.Sent(at(60), &m)
	if got := q.Position(); got != 4 {
		t.Errorf("the position is %d after all were sent", got)
	}
}

func TestDeliveriesAreRetriedLessAndLessOften(t *testing.T) {
	q := Queue{Target: "chat"}
	q.Add(everything, ended(1, 0, "a"))
	now, attempts := noon, []time.Duration(nil)
	for q.Dropped == 0 {
		if _, ok := q.Next(now); !ok {
			t.Fatalf("nothing is tried at %v", now)
		}
		if q.Dropped > 0 {
			break
		}
		q.Failed(now)
		attempts = append(attempts, q.retry.Sub(now))
		now = q.retry
	}
	if attempts[0] != time.Second || attempts[1] != 2*time.Second || attempts[11] != 2048*time.Second || attempts[12] != time.Hour || attempts[15] != time.Hour {
		t.Errorf("pauses: %v", attempts)
	}
	if now.Sub(noon) < maxAge || now.Sub(noon) > maxAge+2*time.Hour {
		t.Errorf("given up after %v", now.Sub(noon))
	}
	m, ok := q.Next(now)
	if !ok || m.Kind != dropped || m.Count != 1 || q.Lost != 1 {
		t.Fatalf("the target is not told what it missed: %+v", m)
	}
	q.Sent(now, &m)
	if q.Dropped != 0 || q.Position() != 1 {
		t.Errorf("after that %d dropped, position %d", q.Dropped, q.Position())
	}
}

func TestTheOldestGoIfTooManyWait(t *testing.T) {
	q := Queue{Target: "chat"}
	for i := range int64(maxWaiting + 5) {
		q.Add(everything, ended(i+1, 0, fmt.Sprint("pool-", i)))
	}
	if q.Waiting() != maxWaiting || q.Dropped != 5 || q.Position() != 5 {
		t.Errorf("%d wait, %d dropped, position %d", q.Waiting(), q.Dropped, q.Position())
	}
	if m, _ := q.Next(noon); m.Kind != dropped || m.Count != 5 {
		t.Errorf("first comes what was missed, not %+v", m)
	}
}

func TestAStarvationThatEndsInTimeIsNotTold(t *testing.T) {
	rules := []Rule{{Kinds: []Kind{Starvation}, After: time.Minute, Targets: []string{"chat"}}}
	starts := func(id int64, seconds float64, operation int32) Notice {
		return Notice{ID: id, Kind: Starvation, Time: at(seconds), Tree: "main", Pool: "a", number: operation}
	}
	stops := func(id int64, seconds float64, operation int32) Notice {
		n := starts(id, seconds, operation)
		n.Kind, n.over = "", true
		return n
	}
	q := Queue{Target: "chat"}
	q.Add(rules, starts(1, 0, 0))
	q.Add(rules, starts(2, 1, 7))
	q.Add(rules, stops(3, 30, 7)) // the operation is satisfied, the pool is not
	if _, ok := q.Next(at(59)); ok {
		t.Error("it is told too early")
	}
	m, ok := q.Next(at(60))
	if !ok || fmt.Sprint(ids(m)) != "[1]" {
		t.Fatalf("%v %v", ok, ids(m))
	}
	q.Add(rules, stops(4, 61, 0)) // too late to take it back
	if q.Waiting() != 1 {
		t.Error("a starvation that lasted is not told")
	}
	q.Sent(at(60), &m)
	if q.Position() != 4 {
		t.Errorf("position %d", q.Position())
	}
}

func TestRulesSelect(t *testing.T) {
	n := Notice{Kind: OperationEnded, Tree: "main", Pool: "prod", User: "ann", State: "failed", subscribers: []string{"mine"}}
	for _, x := range []struct {
		does   string
		rule   Rule
		target string
		want   bool
	}{
		{"everything", Rule{}, "chat", true},
		{"another target", Rule{}, "pager", false},
		{"its kind", Rule{Kinds: []Kind{Starvation, OperationEnded}}, "chat", true},
		{"another kind", Rule{Kinds: []Kind{Starvation}}, "chat", false},
		{"its state", Rule{States: []string{"failed", "aborted"}}, "chat", true},
		{"another state", Rule{States: []string{"completed"}}, "chat", false},
		{"its pool, tree and user", Rule{Pool: "prod", Tree: "main", User: "ann"}, "chat", true},
		{"another pool", Rule{Pool: "dev"}, "chat", false},
		{"another tree", Rule{Tree: "gpu"}, "chat", false},
		{"another user", Rule{User: "bob"}, "chat", false},
		{"a target that the operation names", Rule{Kinds: []Kind{Starvation}}, "mine", true},
	} {
		x.rule.Targets = []string{"chat"}
		if _, got := Wants([]Rule{x.rule}, x.target, &n); got != x.want {
			t.Errorf("%s: %t", x.does, got)
		}
	}
	n.Kind = OperationStarted
	if _, got := Wants(nil, "mine", &n); got {
		t.Error("an operation tells its targets that it started")
	}
}

func TestEventsAreRead(t *testing.T) {
	n, ok := NoticeOf(&store.Event{
		ID: 9, Time: noon, Type: "operation_failed", Operation: 3, Tree: "main", Pool: "prod",
		Document: []byte(`{"operation":"1-2-3-4","user":"ann","title":"train","notify":["mine"],"error":{"code":1}}`),
	})
	body, err := json.Marshal(n)
	want := `{"id":9,"kind":"operation_ended","time":"2026-11-16T12:00:00Z","tree":"main","pool":"prod","operation":"1-2-3-4","title":"train","user":"ann","state":"failed","details":{"error":{"code":1}}}`
	if !ok || err != nil || string(body) != want {
		t.Errorf("%v %v\n%s\n%s", ok, err, body, want)
	}
	if _, ok := NoticeOf(&store.Event{Type: "job_started"}); ok {
		t.Error("there is a notice of a job's start")
	}
	if n, ok := NoticeOf(&store.Event{Type: "operation_completed", Document: []byte("damaged")}); !ok || n.State != "completed" {
		t.Error("an event with damaged facts is lost")
	}
	for typ := range kindOf {
		found := false
		for _, read := range EventTypes {
			found = found || read == typ
		}
		if !found {
			t.Errorf("events of type %s are not read", typ)
		}
	}
}

func TestAMessageIsBounded(t *testing.T) {
	m := Message{Target: "chat", Kind: OperationEnded, Count: 1000}
	for i := range int64(1000) {
		n := ended(i, 0, "a")
		n.Title = strings.Repeat("x", 500)
		m.Notices = append(m.Notices, n)
	}
	body := m.Body()
	var read Message
	if err := json.Unmarshal(body, &read); err != nil || len(body) > maxMessage || read.Count != 1000 || len(read.Notices) == 0 || read.Notices[0].ID != 0 {
		t.Errorf("%d bytes, %d of %d notices, %v", len(body), len(read.Notices), read.Count, err)
	}
	huge := Message{Notices: []Notice{{ID: 1, Details: map[string]json.RawMessage{"error": json.RawMessage(`"` + strings.Repeat("x", 2*maxMessage) + `"`)}}}}
	if body := huge.Body(); len(body) > maxMessage || !strings.Contains(string(body), `"id":1`) {
		t.Errorf("one notice with a long error: %d bytes", len(body))
	}
}
