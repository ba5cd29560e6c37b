package agent

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Isolation is how jobs are kept apart from the node and from each other.
type Isolation struct {
	Level jobinit.Level
	// UIDs are the users that jobs run as, one for each job. Unset: jobs run as the agent.
	UIDs UIDRange
	// LocalUsers makes jobs run as the machine's account with the name of the operation's user.
	LocalUsers  bool
	ReadOnly    []string // paths of the node that jobs see besides programs and libraries
	Writable    []string
	Hide        []string
	AllowPtrace bool
	// Cause is why jobs are not isolated fully, and Detail what the machine answered if it is the cause.
	Cause  jobinit.Cause
	Detail string
}

// runAs names whom jobs run as.
func (i *Isolation) runAs() string {
	switch {
	case i.LocalUsers:
		return "user"
	case i.UIDs != UIDRange{}:
		return "job"
	}
	return "agent"
}

// message is the isolation as the scheduler shows it.
func (i *Isolation) message() *nodev1.Isolation {
	return &nodev1.Isolation{Level: i.Level.String(), RunAs: i.runAs(), Cause: i.Cause.String(), Detail: i.Detail}
}

// UIDRange is a range of user ids, both ends included; the zero range is none.
type UIDRange struct{ First, Last uint32 }

// ParseUIDRange reads a range like "1900000000-1900065535".
func ParseUIDRange(text string) (r UIDRange, err error) {
	first, last, found := strings.Cut(text, "-")
	from, err1 := strconv.ParseUint(first, 10, 32)
	to, err2 := strconv.ParseUint(last, 10, 32)
	const largest = 1<<32 - 2 // the largest number means "no user"
	if !found || err1 != nil || err2 != nil || from < 1000 || to < from || to > largest {
		return r, fmt.Errorf("%q: want two user ids like 1900000000-1900065535, the first at least 1000", text)
	}
	return UIDRange{uint32(from), uint32(to)}, nil
}

func (r UIDRange) size() int64 { return int64(r.Last) - int64(r.First) + 1 }

// CheckAccounts refuses a range in which the machine has an account: jobs would be that user.
func (r UIDRange) CheckAccounts(passwd string) error {
	file, err := os.Open(passwd)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("accounts of the machine: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 {
			continue
		}
		uid, err := strconv.ParseUint(fields[2], 10, 32)
		if err == nil && uint32(uid) >= r.First && uint32(uid) <= r.Last {
			return fmt.Errorf("user ids of jobs %d-%d: the machine has the account %s with id %d", r.First, r.Last, fields[0], uid)
		}
	}
	return lines.Err()
}

// errNoUID means that every user id is taken by a job whose files still exist.
var errNoUID = errors.New("no user id is free for the job")

// errNoLocalUser means that the machine has no account that a job may run as.
var errNoLocalUser = errors.New("no local user")

// accountsFile lists the machine's accounts.
const accountsFile = "/etc/passwd"

// lowestPerson is the lowest id of a person. Lower ids are those of root and of services.
const lowestPerson = 1000

// localUser returns the account with the name of a user.
func localUser(passwd, user string) (*jobproxy.Credential, error) {
	text, err := os.ReadFile(passwd)
	if err != nil {
		return nil, fmt.Errorf("accounts of the machine: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, ":")
		if len(fields) < 4 || fields[0] != user || user == "" {
			continue
		}
		uid, err1 := strconv.ParseUint(fields[2], 10, 32)
		gid, err2 := strconv.ParseUint(fields[3], 10, 32)
		if err1 != nil || err2 != nil || uid < lowestPerson || gid == 0 {
			return nil, fmt.Errorf("%w: the account %q of this node has user id %s and group id %s; jobs run only as users from id %d on, and not in group 0",
				errNoLocalUser, user, fields[2], fields[3], lowestPerson)
		}
		return &jobproxy.Credential{UID: uint32(uid), GID: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("%w: this node has no account %q, and its jobs run as the account of the operation's user (isolation/run_as)", errNoLocalUser, user)
}

// uidPool hands out user ids. An id is taken until the files of its job are gone.
type uidPool struct {
	all   UIDRange
	taken map[uint32]bool
	// shared are directories that all jobs can write to.
	shared []string
	// used are free ids whose jobs may have left something there: the next job would own it.
	used map[uint32]bool
}

func newUIDPool(all UIDRange, shared []string) *uidPool {
	return &uidPool{all: all, taken: map[uint32]bool{}, shared: shared, used: map[uint32]bool{}}
}

// take returns the lowest free id that owns nothing in the shared directories.
func (p *uidPool) take() (uint32, error) {
	uid, err := p.lowest()
	if err == nil || len(p.used) == 0 {
		return uid, err
	}
	if err := p.inspect(); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoUID, err)
	}
	if uid, err = p.lowest(); err != nil && len(p.used) > 0 {
		err = fmt.Errorf("%w, or own files in %s that earlier jobs left", err, strings.Join(p.shared, ", "))
	}
	return uid, err
}

func (p *uidPool) lowest() (uint32, error) {
	for i := range p.all.size() {
		if uid := p.all.First + uint32(i); !p.taken[uid] && !p.used[uid] {
			p.taken[uid] = true
			return uid, nil
		}
		if i > int64(len(p.taken)+len(p.used)) {
			break
		}
	}
	return 0, fmt.Errorf("%w: all %d are taken", errNoUID, p.all.size())
}

// inspect finds out which ids own something in the shared directories. The others can be used again.
func (p *uidPool) inspect() error {
	if len(p.shared) == 0 || p.all == (UIDRange{}) {
		return nil
	}
	found := map[uint32]bool{}
	if err := owners(p.shared, found); err != nil {
		return fmt.Errorf("directories that jobs share cannot be read: %w", err)
	}
	clear(p.used)
	for uid := range found {
		if uid >= p.all.First && uid <= p.all.Last && !p.taken[uid] {
			p.used[uid] = true
		}
	}
	return nil
}

// free notes that a job and its directories are gone.
func (p *uidPool) free(uid uint32) {
	if p.taken[uid] && len(p.shared) > 0 {
		p.used[uid] = true
	}
	delete(p.taken, uid)
}

// isolate completes the description of a job with what it may see and whom it runs as.
func (a *Agent) isolate(j *job, d *jobproxy.Description, spec *nodev1.JobSpec) error {
	i := &a.Isolation
	level := i.Level
	if d.Image != nil { // an image is a root of its own
		level = jobinit.Full
	}
	if level != jobinit.None {
		d.Isolation = &jobproxy.Isolation{
			Level: level, ReadOnly: i.ReadOnly, Writable: i.Writable, Hide: i.Hide, AllowPtrace: i.AllowPtrace,
			SharedMemory: defaultSharedMemory,
		}
		if limit := spec.GetMemoryLimit(); limit > 0 {
			d.Isolation.SharedMemory = min(limit, defaultSharedMemory)
		}
	}
	if spec.GetNetwork() == noNetwork {
		if d.Isolation == nil {
			return errNoNetworkOfItsOwn
		}
		d.Isolation.NoNetwork = true
	}
	if i.LocalUsers {
		account, err := localUser(accountsFile, spec.GetUser())
		d.Credential = account
		return err
	}
	if i.UIDs == (UIDRange{}) {
		return nil
	}
	uid, err := a.uids.take()
	if err != nil {
		return err
	}
	j.uid = uid
	d.Credential = &jobproxy.Credential{UID: uid, GID: uid}
	return nil
}

// noNetwork is the network of a job that must not have the node's.
const noNetwork = "none"

// errNoNetworkOfItsOwn means that a job must not have the node's network, and the node gives jobs no other.
var errNoNetworkOfItsOwn = errors.New("the job must not use this node's network (network: none), and a node with the isolation level none cannot keep it away")

// defaultSharedMemory is the size of a job's /dev/shm.
const defaultSharedMemory = 64 << 20

// alerts says what jobs can do to each other and to the node at a lower level, and why they can.
func (i *Isolation) alerts() []string {
	asAgent := i.runAs() == "agent"
	var lowered []string
	switch {
	case i.Level == jobinit.None && asAgent:
		lowered = append(lowered, "jobs of all users run as the agent's user, and can read this node's token and each other's files")
	case i.Level == jobinit.None:
		lowered = append(lowered, "jobs see all processes of this node and all its files that are readable for everybody")
	case i.Level == jobinit.SharedFiles:
		lowered = append(lowered, "jobs see all files of this node that are readable for everybody")
	}
	if asAgent && i.Level != jobinit.None {
		lowered = append(lowered, "jobs run as the agent's user")
	}
	if len(lowered) == 0 {
		return nil
	}
	if i.Cause != jobinit.NoCause {
		lowered = append(lowered, "the cause is "+i.Cause.String())
	}
	if i.Detail != "" {
		lowered = append(lowered, i.Detail)
	}
	return []string{"isolation_lowered: " + strings.Join(lowered, "; ")}
}
