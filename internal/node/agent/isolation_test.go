package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRangesOfUserIDs(t *testing.T) {
	r, err := ParseUIDRange("1900000000-1900065535")
	if err != nil || r.First != 1_900_000_000 || r.size() != 65_536 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, text := range []string{"", "5", "0-10", "2000-1999", "1000-4294967295", "-1-5", "a-b", "1000-2000-3000"} {
		if r, err := ParseUIDRange(text); err == nil {
			t.Errorf("%q is %+v", text, r)
		}
	}
}

func TestARangeWithAnAccountIsRefused(t *testing.T) {
	passwd := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(passwd, []byte("root:x:0:0::/:/bin/sh\n# no account\nanna:x:1900000005:100::/:/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (UIDRange{1_900_000_000, 1_900_000_010}).CheckAccounts(passwd); err == nil || !strings.Contains(err.Error(), "anna") {
		t.Error(err)
	}
	if err := (UIDRange{1_900_000_006, 1_900_000_010}).CheckAccounts(passwd); err != nil {
		t.Error(err)
	}
}

// 64 users for 2,000 jobs, up to 64 at a time: no two living jobs share one, and ids are used again.
func TestNoTwoLivingJobsShareAUserID(t *testing.T) {
	pool := newUIDPool(UIDRange{2000, 2063})
	var living []uint32
	has := map[uint32]bool{}
	for i := range 2000 {
		if len(living) == 64 {
			if _, err := pool.take(); !errors.Is(err, errNoUID) {
				t.Fatalf("a job more got an id: %v", err)
			}
			for range 1 + i%7 {
				gone := living[i%len(living)]
				living = append(living[:i%len(living)], living[i%len(living)+1:]...)
				pool.free(gone)
				delete(has, gone)
			}
		}
		uid, err := pool.take()
		if err != nil || has[uid] || uid < 2000 || uid > 2063 {
			t.Fatalf("job %d got %d, %v", i, uid, err)
		}
		has[uid] = true
		living = append(living, uid)
	}
}
