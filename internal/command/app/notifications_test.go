package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/notify"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// webhook records the messages that it gets, unless it is broken.
type webhook struct {
	*httptest.Server
	mutex    sync.Mutex
	broken   bool
	messages []notify.Message
	signed   bool
}

func newWebhook(t *testing.T, secret string) *webhook {
	h := &webhook{signed: true}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		body, err := io.ReadAll(r.Body)
		var m notify.Message
		if err != nil || json.Unmarshal(body, &m) != nil {
			t.Errorf("%v: %s", err, body)
		}
		if h.broken {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		var seconds int64
		fmt.Sscan(r.Header.Get(notify.TimeHeader), &seconds)
		h.signed = h.signed && r.Header.Get(notify.SignatureHeader) == notify.Sign([]byte(secret), seconds, body)
		h.messages = append(h.messages, m)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *webhook) breakDown(broken bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.broken = broken
}

// told returns the operations and states that it was told of, in order of their events.
func (h *webhook) told(kind notify.Kind) (list []string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, m := range h.messages {
		for _, n := range m.Notices {
			if n.Kind == kind {
				list = append(list, strings.TrimSpace(n.Title+" "+n.State))
			}
		}
	}
	return list
}

// Targets are told what their rules say and what operations ask for, also after the scheduler that did it is gone.
func TestTargetsAreToldWhatHappened(t *testing.T) {
	chat, pager := newWebhook(t, "s3cret"), newWebhook(t, "")
	directory := t.TempDir()
	secret := filepath.Join(directory, "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf(`
scheduler:
  listen: 127.0.0.1:0
  data_dir: %s
  trust_loopback: true
  notifications:
    targets:
      chat: {url: %q, secret_file: %s, allow: [127.0.0.1]}
      pager: {url: %q, allow: [127.0.0.1]}
    rules:
      - {kinds: [operation_ended], pool: a, targets: [chat]}
`, filepath.Join(directory, "scheduler"), chat.URL, secret, pager.URL)
	c := &cluster{t: t, directory: directory}
	start := func() (*Scheduler, *client.Client, func()) {
		t.Helper()
		loaded, _, err := config.Load(config.Sources{File: "weir.yaml", Data: []byte(file)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewScheduler(t.Context(), &loaded.Config.Scheduler, "test", newTestLog(t))
		if err != nil {
			t.Fatal(err)
		}
		stop := c.run(s.Run)
		t.Cleanup(stop)
		<-s.Server.Led()
		asks, err := client.New(client.Options{Address: s.Address})
		if err != nil {
			t.Fatal(err)
		}
		return s, asks, stop
	}
	s, asks, stop := start()
	c.scheduler = s
	c.pools("{pools: {a: {}, b: {}, c: {}}}")
	// A target begins when it gets its position; what happens before is not told.
	begun := func() bool {
		_, _, known, err := s.Server.Notified(t.Context(), "pager")
		_, _, too, _ := s.Server.Notified(t.Context(), "chat")
		return err == nil && known && too
	}
	if !expected.Soon(begun) {
		t.Fatal("the targets get no positions")
	}
	run := func(title, pool string, targets ...string) string {
		t.Helper()
		id, err := asks.StartOperation(t.Context(), client.Vanilla, map[string]any{
			"title": title, "pool": pool, "notify": targets, "tasks": map[string]any{"t": map[string]any{"job_count": 1, "command": "true"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	end := func(id string) {
		t.Helper()
		if err := asks.AbortOperation(t.Context(), id, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	end(run("one", "a"))
	end(run("two", "b", "pager"))
	end(run("three", "b"))
	if !expected.Soon(func() bool {
		return len(chat.told(notify.OperationEnded)) == 1 && len(pager.told(notify.OperationEnded)) == 1
	}) {
		t.Fatalf("chat was told %v, pager %v", chat.told(notify.OperationEnded), pager.told(notify.OperationEnded))
	}
	if !chat.signed {
		t.Error("the messages are not signed with the secret")
	}

	// While the webhook is away, notifications wait, and the next leader delivers them.
	pager.breakDown(true)
	end(run("four", "c", "pager")) // what happens in pool b again is told a minute later
	failed := func() bool {
		list, err := asks.NotificationTargets(t.Context())
		return err == nil && list.Targets[1].Failed > 0 && list.Targets[1].Waiting == 1 && strings.Contains(list.Targets[1].Error, "502")
	}
	if !expected.Soon(failed) {
		list, err := asks.NotificationTargets(t.Context())
		t.Errorf("%+v, %v", list, err)
	}
	if err := asks.TestNotification(t.Context(), "pager"); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("a test of a broken target: %v", err)
	}
	stop()
	pager.breakDown(false)
	_, asks, _ = start()
	if !expected.Soon(func() bool { return len(pager.told(notify.OperationEnded)) == 2 }) {
		t.Errorf("the next leader told %v", pager.told(notify.OperationEnded))
	}
	if got := pager.told(notify.OperationEnded); !slices.Equal(got, []string{"two aborted", "four aborted"}) {
		t.Errorf("pager was told %v", got)
	}
	if got := chat.told(notify.OperationEnded); !slices.Equal(got, []string{"one aborted"}) {
		t.Errorf("chat was told %v", got)
	}
	if err := asks.TestNotification(t.Context(), "chat"); err != nil {
		t.Error(err)
	}
	for target, says := range map[string]string{"chta": "did you mean chat?", "nobody-knows": "there are chat, pager"} {
		if err := asks.TestNotification(t.Context(), target); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", target, err)
		}
	}
	if _, err := asks.StartOperation(t.Context(), client.Vanilla, map[string]any{
		"notify": []string{"pagre"}, "tasks": map[string]any{"t": map[string]any{"job_count": 1, "command": "true"}},
	}); err == nil || !strings.Contains(err.Error(), "did you mean pager?") {
		t.Errorf("an operation that names an unknown target: %v", err)
	}
}

func TestTargetsThatCannotWorkAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		`targets: {a: {}}`: "needs a url or a command",
		`targets: {a: {url: "http://x", command: [x]}}`:                   "needs a url or a command",
		`targets: {a: {command: [/bin/true]}}`:                            "needs notifications/allow_commands",
		`targets: {a: {url: "ftp://x"}}`:                                  "an address like https://",
		`targets: {a: {url: "http://u:p@x"}}`:                             "an address like https://",
		`targets: {a: {url: "http://x", allow: [home]}}`:                  "an address or a network",
		`targets: {"a b": {url: "http://x"}}`:                             "a name has letters",
		`targets: {a: {url: "http://x"}}, rules: [{targets: [b]}]`:        `there is no target "b"`,
		`targets: {a: {url: "http://x"}}, rules: [{kinds: [any]}]`:        "operation_ended",
		`targets: {a: {url: "http://x"}}, rules: [{kinds: [starvation]}]`: "a rule needs targets",
	} {
		_, _, err := config.Load(config.Sources{File: "weir.yaml", Data: []byte("scheduler: {notifications: {" + text + "}}")})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	settings := config.Default()
	target := config.NotificationTarget{URL: document.Some("http://x.example"), SecretFile: document.Some(filepath.Join(t.TempDir(), "none"))}
	settings.Scheduler.Notifications.Targets = document.Some([]document.Named[config.NotificationTarget]{{Name: "a", Value: target}})
	if _, err := targetsOf(&settings.Scheduler.Notifications); err == nil || !strings.Contains(err.Error(), "targets/a/secret_file") {
		t.Errorf("a secret that is not there: %v", err)
	}
}
