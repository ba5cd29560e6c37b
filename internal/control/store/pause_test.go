package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// relay forwards between a store and PostgreSQL. It can lose or delay messages.
type relay struct {
	t        *testing.T
	listener net.Listener
	server   string

	mu sync.Mutex
	// trap is a text to find in the client's messages. When it is found, act is called, once,
	// before the text is forwarded; if act returns false, the connection is closed.
	trap    []byte
	act     func(toServer io.Writer, message []byte, fromServer io.Reader) (goOn bool)
	down    bool         // refuse connections
	silence sync.RWMutex // held by the test while nothing is forwarded
}

// newRelay returns a relay to the server of a URL, and the URL of the relay.
func newRelay(t *testing.T, address string) (*relay, string) {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	dir, err := os.MkdirTemp("", "relay") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &relay{t: t, server: filepath.Join(query.Get("host"), ".s.PGSQL.5432")}
	if r.listener, err = net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.listener.Close() })
	go r.serve()
	query.Set("host", dir)
	parsed.RawQuery = query.Encode()
	return r, parsed.String()
}

func (r *relay) set(text string, act func(toServer io.Writer, message []byte, fromServer io.Reader) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trap, r.act = []byte(text), act
}

func (r *relay) setDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

func (r *relay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		down := r.down
		r.mu.Unlock()
		server, err := net.Dial("unix", r.server)
		if err != nil || down {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		go r.forward(client, server)
	}
}

// forward copies bytes between the two until one of them closes.
func (r *relay) forward(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	hold := make(chan struct{}, 1) // full while answers are held back
	hold <- struct{}{}
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			token, open := <-hold
			if !open {
				return
			}
			if n > 0 {
				if _, err := client.Write(buffer[:n]); err != nil {
					return
				}
			}
			hold <- token
			if err != nil {
				client.Close()
				return
			}
		}
	}()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		act := r.act
		if act == nil || !bytes.Contains(buffer[:n], r.trap) {
			act = nil
		} else {
			r.act = nil
		}
		r.mu.Unlock()
		if act != nil {
			<-hold
			goOn := act(server, buffer[:n], server)
			if !goOn {
				close(hold)
				return
			}
			hold <- struct{}{}
			continue
		}
		r.silence.RLock()
		_, err = server.Write(buffer[:n])
		r.silence.RUnlock()
		if err != nil {
			return
		}
	}
}

// loseRequest closes the connection before the server receives the message.
func loseRequest(io.Writer, []byte, io.Reader) bool { return false }

// loseAnswer lets the server execute the message and closes the connection before the client
// receives the answer. The server notices the closed session only after it has executed the
// message.
func loseAnswer(t *testing.T, admin *store.Store, revision int64) func(io.Writer, []byte, io.Reader) bool {
	return func(toServer io.Writer, message []byte, _ io.Reader) bool {
		if _, err := toServer.Write(message); err != nil {
			t.Error(err)
		}
		for {
			got, err := admin.Revision(context.Background())
			if err != nil {
				t.Error(err)
				return false
			}
			if got >= revision {
				return false
			}
		}
	}
}

func TestACommitWhoseAnswerIsLostCountsOnce(t *testing.T) {
	for _, c := range []struct {
		name      string
		committed bool
	}{{"it was executed", true}, {"it was not executed", false}} {
		t.Run(c.name, func(t *testing.T) {
			direct := postgres.Fresh(t)
			admin := open(t, direct)
			r, through := newRelay(t, direct)
			s := open(t, through)
			lease := lead(t, s)
			if _, err := s.Commit(t.Context(), lease, crashBatch(1)); err != nil {
				t.Fatal(err)
			}
			if c.committed {
				r.set("commit", loseAnswer(t, admin, 2))
			} else {
				r.set("commit", loseRequest)
			}
			receipt, err := s.Commit(t.Context(), lease, crashBatch(2))
			if err != nil {
				t.Fatal(err)
			}
			if receipt.Revision != 2 {
				t.Errorf("the revision is %d", receipt.Revision)
			}
			wholeBatches(t, admin, 2)
			if _, err := s.Commit(t.Context(), lease, crashBatch(3)); err != nil {
				t.Fatal(err)
			}
			wholeBatches(t, admin, 3)
		})
	}
}

func TestACommitWhoseAnswerIsLostIsSettledAfterTheLeaseIsLost(t *testing.T) {
	for _, c := range []struct {
		name      string
		committed bool
	}{{"it was executed", true}, {"it was not executed", false}} {
		t.Run(c.name, func(t *testing.T) {
			direct := postgres.Fresh(t)
			admin := open(t, direct)
			r, through := newRelay(t, direct)
			s := open(t, through)
			lease := lead(t, s)
			batch := crashBatch(1)
			lose := loseAnswer(t, admin, 1)
			r.set("commit", func(w io.Writer, message []byte, from io.Reader) bool {
				if c.committed {
					lose(w, message, from)
				}
				r.setDown(true)
				return false
			})
			if _, err := s.Commit(t.Context(), lease, batch); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("the error is %v", err)
			}
			lead(t, admin) // another process
			r.setDown(false)
			receipt, err := s.Commit(t.Context(), lease, batch)
			if c.committed && (err != nil || receipt.Revision != 1) {
				t.Errorf("%v, %v", receipt, err)
			}
			if !c.committed && !errors.Is(err, store.ErrFenced) {
				t.Errorf("the error is %v", err)
			}
			if _, err := s.Commit(t.Context(), lease, crashBatch(2)); !errors.Is(err, store.ErrFenced) {
				t.Errorf("the next error is %v", err)
			}
		})
	}
}

func TestALeaderThatStopsInTheMiddleOfACommitIsReplaced(t *testing.T) {
	direct := postgres.Fresh(t)
	admin := open(t, direct)
	r, through := newRelay(t, direct)
	s := open(t, through)
	lease := lead(t, s)
	stopped, wake := make(chan struct{}), make(chan struct{})
	r.set("INSERT INTO users", func(w io.Writer, message []byte, _ io.Reader) bool {
		close(stopped)
		<-wake
		_, err := w.Write(message)
		return err == nil
	})
	result := make(chan error)
	go func() {
		_, err := s.Commit(t.Context(), lease, crashBatch(1))
		result <- err
	}()
	<-stopped // it holds the lock that its successor needs
	begin := time.Now()
	successor := lead(t, admin)
	// The server ends the old leader's session after some seconds; the lease lasts an hour.
	if waited := time.Since(begin); waited > time.Minute {
		t.Errorf("the successor waited %v", waited)
	}
	if _, err := admin.Commit(t.Context(), successor, crashBatch(1)); err != nil {
		t.Fatal(err)
	}
	close(wake)
	if err := <-result; !errors.Is(err, store.ErrFenced) {
		t.Errorf("the old leader's error is %v", err)
	}
	wholeBatches(t, admin, 1)
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	url := freshSQLite(t)
	s := open(t, url)
	lease := lead(t, s)
	_, err := s.Commit(t.Context(), lease, &store.Batch{Put: store.Rows{Users: []store.User{{Name: "a\x00"}}}})
	if err == nil || !strings.Contains(err.Error(), "row 0 of users: name: a text with a NUL character") {
		t.Errorf("the error is %q", err)
	}
}
