package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
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
	pool := newUIDPool(UIDRange{2000, 2063}, nil)
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

// 64 user ids and 2,000 jobs, a third of which leave files in a directory that all jobs share.
func TestNothingThatAJobLeftBelongsToTheNextOneWithItsUserID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: no other user has files")
	}
	const first, last, jobs = 1_900_000_100, 1_900_000_163, 2000
	shared := t.TempDir()
	inner := filepath.Join(shared, "inner")
	if err := os.Mkdir(inner, 0o777); err != nil {
		t.Fatal(err)
	}
	leave := func(path string, uid uint32) {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, int(uid), int(uid))); err != nil {
			t.Fatal(err)
		}
	}
	left := map[uint32]string{first: filepath.Join(shared, "early")} // of an earlier agent
	leave(left[first], first)
	pool := newUIDPool(UIDRange{first, last}, []string{shared, filepath.Join(shared, "absent")})
	if err := pool.inspect(); err != nil {
		t.Fatal(err)
	}
	var living []uint32
	for i := range jobs {
		uid, err := pool.take()
		if errors.Is(err, errNoUID) && len(left) > 0 && len(living) < last-first+1 {
			if !strings.Contains(err.Error(), shared) {
				t.Fatalf("the error does not say where the files are: %v", err)
			}
			for old, path := range left { // as programs do that clean such directories up
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				delete(left, old)
			}
			for _, gone := range living {
				pool.free(gone)
			}
			living = nil
			uid, err = pool.take()
		}
		if err != nil {
			t.Fatal(err)
		}
		if path := left[uid]; path != "" {
			t.Fatalf("job %d with user id %d owns %s", i, uid, path)
		}
		if living = append(living, uid); i%3 == 0 {
			left[uid] = filepath.Join(inner, strconv.Itoa(int(uid)))
			leave(left[uid], uid)
		}
		if i%5 > 0 {
			pool.free(living[0])
			living = living[1:]
		}
	}
}

func TestAJobRunsAsTheLocalUserOfItsOwnerOrNotAtAll(t *testing.T) {
	passwd := filepath.Join(t.TempDir(), "passwd")
	text := "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nann:x:1001:1002::/home/ann:/bin/sh\nodd:x:1003:0::/:/bin/sh\nbad:x:y:z::/:/bin/sh\nshort:x\n"
	if err := os.WriteFile(passwd, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := localUser(passwd, "ann"); err != nil || got.UID != 1001 || got.GID != 1002 {
		t.Errorf("%+v, %v", got, err)
	}
	for user, words := range map[string]string{
		"root": "from id 1000 on", "daemon": "from id 1000 on", "odd": "not in group 0", "bad": "user id y", "bob": `no account "bob"`, "short": "no account", "": "no account",
	} {
		got, err := localUser(passwd, user)
		if got != nil || !errors.Is(err, errNoLocalUser) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %+v, %v", user, got, err)
		}
	}
	result := cannotStart(&job{}, errNoLocalUser)
	if result.GetAbortReason() != "no_local_user" || result.GetState() != nodev1.JobState_JOB_STATE_ABORTED {
		t.Errorf("%v", result)
	}
}

func TestAJobWithoutNetworkNeedsANodeThatIsolates(t *testing.T) {
	spec := &nodev1.JobSpec{Network: "none"}
	isolating := &Agent{Options: Options{Isolation: Isolation{Level: jobinit.SharedFiles}}}
	d := &jobproxy.Description{}
	if err := isolating.isolate(&job{}, d, spec); err != nil || !d.Isolation.NoNetwork {
		t.Errorf("%+v, %v", d.Isolation, err)
	}
	err := (&Agent{}).isolate(&job{}, &jobproxy.Description{}, spec)
	if r := cannotStart(&job{}, err); r.GetAbortReason() != "isolation_unavailable" || !strings.Contains(r.GetError().GetMessage(), "network: none") {
		t.Errorf("%v: %v", err, r)
	}
}

func TestANodeBelowFullSaysWhatThatMeans(t *testing.T) {
	own := UIDRange{First: 1_900_000_000, Last: 1_900_000_009}
	for _, test := range []struct {
		isolation Isolation
		words     string
	}{
		{Isolation{Level: jobinit.Full, UIDs: own}, ""},
		{Isolation{Level: jobinit.Full, LocalUsers: true}, ""},
		{Isolation{Level: jobinit.Full, Cause: jobinit.NotRoot}, "jobs run as the agent's user; the cause is not_root"},
		{Isolation{Level: jobinit.SharedFiles, UIDs: own}, "jobs see all files"},
		{Isolation{Level: jobinit.None, UIDs: own}, "see all processes"},
		{Isolation{Level: jobinit.None}, "read this node's token"},
		{Isolation{Level: jobinit.None, UIDs: own, Cause: jobinit.NoNamespaces, Detail: "clone: operation not permitted"}, "the cause is no_namespaces; clone: operation not permitted"},
	} {
		got := strings.Join(test.isolation.alerts(), "|")
		if test.words == "" && got != "" || !strings.Contains(got, test.words) || test.words != "" && !strings.HasPrefix(got, "isolation_lowered: ") {
			t.Errorf("%+v: %q", test.isolation, got)
		}
	}
}
