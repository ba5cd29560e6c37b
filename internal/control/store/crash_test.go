package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// Variables that turn the test binary into the process to kill.
const (
	crashURL  = "WEIR_STORE_CRASH_URL"
	crashFrom = "WEIR_STORE_CRASH_FROM"
)

// crashHolder is the holder of the lease; a process with the same name need not wait until it
// expires.
const crashHolder = "child"

// crashBatch returns a batch with rows in many tables that all carry its number.
func crashBatch(n int) *store.Batch {
	text := strconv.Itoa(n)
	now := time.Unix(int64(n), 0)
	batch := &store.Batch{Put: store.Rows{
		Users:      []store.User{{Name: text}},
		Pools:      []store.Pool{{Tree: "t", Name: text}},
		Operations: []store.Operation{{Number: int32(n), ID: text, StartTime: now}},
		Jobs:       []store.Job{{Number: uint64(n), Operation: int32(n), Sequence: 1, FinishTime: now}},
		Settings:   []store.Setting{{Name: "last", Document: []byte(text)}},
	}}
	for range 3 {
		batch.Put.Events = append(batch.Put.Events, store.Event{Time: now, Type: "crash", Operation: int32(n)})
	}
	if n > 1 { // delete something, too
		batch.Delete.Settings = []store.Setting{{Name: "only " + strconv.Itoa(n-1)}}
	}
	batch.Put.Settings = append(batch.Put.Settings, store.Setting{Name: "only " + text})
	return batch
}

// commitUntilKilled commits batch after batch and prints the number of each acknowledged one.
func commitUntilKilled(url string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	ctx := context.Background()
	s, err := store.Open(ctx, url)
	fail(err)
	lease, err := s.Acquire(ctx, crashHolder, "child:1", time.Hour)
	fail(err)
	n, err := strconv.Atoi(os.Getenv(crashFrom))
	fail(err)
	for ; ; n++ {
		_, err := s.Commit(ctx, lease, crashBatch(n))
		fail(err)
		fmt.Println(n)
	}
}

// killAfter starts a child, kills it without warning after some acknowledgements, and returns the
// number of the last one.
func killAfter(t *testing.T, url string, from, acknowledgements int) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), crashURL+"="+url, crashFrom+"="+strconv.Itoa(from))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	last := from - 1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Errorf("the child printed %q", lines.Text())
			break
		}
		last = n
		if acknowledgements--; acknowledgements == 0 {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
			// Batches that it printed before it died were acknowledged too.
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err := child.Wait(); child.ProcessState.ExitCode() == 3 {
		t.Fatalf("the child ended: %v", err)
	}
	return last
}

func TestNothingAcknowledgedIsLostWhenTheProcessIsKilled(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url := e.fresh(t)
			s, err := store.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			random := rand.New(rand.NewPCG(1, 1))
			next, kills := 1, 20
			for range kills {
				acknowledged := killAfter(t, url, next, 1+random.IntN(25))
				// The database server may still execute the last commit of the killed process.
				// Acquiring the lease waits for it, as every successor does, and shuts out later
				// ones.
				if _, err := s.Acquire(t.Context(), crashHolder, "parent:1", time.Hour); err != nil {
					t.Fatal(err)
				}
				next = wholeBatches(t, s, acknowledged) + 1
			}
			t.Logf("%d kills, %d commits", kills, next-1)
		})
	}
}

// wholeBatches checks that all batches up to the acknowledged one exist and that every batch is
// complete or absent. It returns the number of the last one.
func wholeBatches(t *testing.T, s *store.Store, acknowledged int) int {
	t.Helper()
	state, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := len(state.Rows.Users)
	if last < acknowledged || last > acknowledged+1 {
		t.Fatalf("%d batches are there, %d were acknowledged", last, acknowledged)
	}
	if int(state.Revision) != last || int(state.LastEvent) != 3*last || len(state.Rows.Pools) != last ||
		len(state.Rows.Operations) != last || len(state.Rows.Jobs) != last || int(state.LastOperation) != last {
		t.Fatalf("of %d batches: revision %d, %d events, %d pools, %d operations, %d jobs",
			last, state.Revision, state.LastEvent, len(state.Rows.Pools), len(state.Rows.Operations), len(state.Rows.Jobs))
	}
	settings := map[string]string{}
	for _, s := range state.Rows.Settings {
		settings[s.Name] = string(s.Document)
	}
	if _, ok := settings["only "+strconv.Itoa(last)]; !ok || len(settings) != 2 || settings["last"] != strconv.Itoa(last) {
		t.Fatalf("settings after batch %d: %v", last, settings)
	}
	events, _, err := s.Events(t.Context(), store.EventFilter{Operation: int32(last)})
	if err != nil || len(events) != 3 {
		t.Fatalf("%d events of batch %d, %v", len(events), last, err)
	}
	return last
}

// retryUntilCommitted retries a batch until it is committed. After every failure that is not
// final, it waits for a signal.
func retryUntilCommitted(t *testing.T, s *store.Store, lease store.Lease, batch *store.Batch, again <-chan struct{}) {
	t.Helper()
	for {
		_, err := s.Commit(t.Context(), lease, batch)
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("the error is %v", err)
		}
		<-again
	}
}

func TestPostgresMayRestartBetweenAndDuringCommits(t *testing.T) {
	url := postgres.Fresh(t)
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lease, err := s.Acquire(t.Context(), "leader", "l", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, mode := range []string{"fast", "immediate"} {
		n++
		if _, err := s.Commit(t.Context(), lease, crashBatch(n)); err != nil {
			t.Fatal(err)
		}
		postgres.Restart(t, mode)
		if _, err := s.Renew(t.Context(), lease, time.Hour); err != nil {
			t.Fatalf("the first renewal after a %s restart: %v", mode, err)
		}
		if _, err := s.Load(t.Context()); err != nil {
			t.Fatalf("the first read after a %s restart: %v", mode, err)
		}
		n++
		if _, err := s.Commit(t.Context(), lease, crashBatch(n)); err != nil {
			t.Fatalf("the first commit after a %s restart: %v", mode, err)
		}
		// Now restart while commits are under way.
		restarted := make(chan struct{})
		go func() {
			defer close(restarted)
			postgres.Restart(t, mode)
		}()
		for after := 0; after < 5; {
			select {
			case <-restarted:
				after++
			default:
			}
			n++
			retryUntilCommitted(t, s, lease, crashBatch(n), restarted)
		}
		wholeBatches(t, s, n)
	}
	t.Logf("%d commits", n)
}
