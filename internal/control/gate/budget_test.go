package gate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestABudgetRefusesWithAmounts(t *testing.T) {
	b := NewBudget(Limits{Total: 100, Caller: 60})
	ann, bob, guest := b.Open("ann", 0), b.Open("bob", 0), b.Open("guest", 10)
	for _, step := range []struct {
		account *Account
		n       int64
		want    *Full
	}{
		{ann, 50, nil},
		{ann, 11, &Full{Own: true, Taken: 50, Wanted: 11, Limit: 60}},
		{guest, 11, &Full{Own: true, Taken: 0, Wanted: 11, Limit: 10}},
		{guest, 10, nil},
		{bob, 41, &Full{Taken: 60, Wanted: 41, Limit: 100}},
		{bob, 40, nil},
	} {
		err := step.account.Take(step.n)
		var full *Full
		if errors.As(err, &full); (full == nil) != (step.want == nil) || full != nil && *full != *step.want {
			t.Errorf("%s takes %d: %v, want %v", step.account.caller, step.n, err, step.want)
		}
	}
	second := b.Open("ann", 0)
	if err := second.Take(11); err == nil {
		t.Error("two requests of one user have a limit each")
	}
	for _, a := range []*Account{ann, bob, guest, second, ann} {
		a.Close()
	}
	if b.Taken() != 0 || len(b.callers) != 0 {
		t.Errorf("%d bytes of %v are left", b.Taken(), b.callers)
	}
}

func TestALongAnswerCountsAsHalfOfTheLimit(t *testing.T) {
	b := NewBudget(Limits{Total: 1000, Caller: 100})
	a := b.Open("ann", 0)
	for i, step := range []struct {
		n    int64
		fits bool
	}{{1 << 40, true}, {10, true}, {1 << 40, false}, {40, true}, {1, false}} {
		if err := a.TakeAnswer(step.n); (err == nil) != step.fits {
			t.Errorf("step %d: %v", i, err)
		}
	}
	a.Close()
	if b.Taken() != 0 {
		t.Errorf("%d bytes are left", b.Taken())
	}
}

func TestPropertyABudgetHoldsWhatBodiesTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 200_000).Draw(t, "size")
		length := rapid.SampledFrom([]int64{-1, int64(size), int64(size) + 1000, int64(size) / 2}).Draw(t, "length")
		limit := rapid.Int64Range(0, 1<<20).Draw(t, "limit")
		want := bytes.Repeat([]byte("x"), size)
		if length == 0 {
			want = nil
		}
		b := NewBudget(Limits{Total: 1 << 30, Caller: limit})
		a := b.Open("ann", 0)
		got, err := a.ReadAll(iotest.HalfReader(bytes.NewReader(want)), length)
		if taken := b.Taken(); taken > limit || err == nil && taken < int64(len(want)) || taken > 2*int64(len(want))+2*smallest {
			t.Fatalf("%d bytes are counted for %d, the limit is %d: %v", taken, len(want), limit, err)
		}
		var full *Full
		switch {
		case err == nil && !bytes.Equal(got, want):
			t.Fatalf("read %d bytes of %d", len(got), len(want))
		case err != nil && !errors.As(err, &full):
			t.Fatal(err)
		case err != nil && limit >= 3*int64(size)+2*smallest:
			t.Fatalf("refused with room for it: %v", err)
		}
		a.Close()
		if b.Taken() != 0 {
			t.Fatalf("%d bytes are left", b.Taken())
		}
	})
}

func TestABodyTakesWhatIsReadFromIt(t *testing.T) {
	b := NewBudget(Limits{Total: 100, Caller: 10})
	a := b.Open("node", 0)
	body := a.Body(io.NopCloser(strings.NewReader("0123456789abc")))
	var full *Full
	if data, err := io.ReadAll(iotest.OneByteReader(body)); string(data) != "0123456789" || !errors.As(err, &full) || b.Taken() != 10 {
		t.Errorf("%q, %v, %d bytes taken", data, err, b.Taken())
	}
	a.Close()
	if b.Taken() != 0 {
		t.Errorf("%d bytes are left", b.Taken())
	}
}
