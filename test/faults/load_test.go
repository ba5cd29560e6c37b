//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// load is users who start operations and change pools, and remember every acknowledgement.
type load struct {
	t        *testing.T
	gateway  *gateway
	starters int // users who start operations
	cancel   context.CancelFunc
	users    sync.WaitGroup
	begun    int // how often

	mutex   sync.Mutex
	started []*started
	changes int
	pools   map[string]float64 // weights of the teams' pools, by path
}

// started is an operation whose start was acknowledged.
type started struct {
	id      string
	jobs    int64
	aborted bool // a user has aborted it, or is about to
	over    bool // checked: it is archived with everything that belongs to it
}

// The paces of all users together: as much as a busy machine can do.
const (
	starters   = 4
	startEvery = 500 * time.Millisecond // each
	abortEvery = 20                     // one in this many is aborted
)

// underLoad starts the users.
func (c *cluster) underLoad() *load { return c.underLoadOf(starters) }

// underLoadOf starts the users; this many of them start operations.
func (c *cluster) underLoadOf(starters int) *load {
	l := &load{t: c.t, gateway: c.gateway, starters: starters, pools: map[string]float64{}}
	l.begin()
	c.t.Cleanup(l.stop)
	return l
}

// begin starts the users, also again.
func (l *load) begin() {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.cancel = cancel
	l.begun++
	for i := range l.starters {
		l.users.Go(func() { l.startOperations(ctx, i) })
	}
	for i := range teams {
		l.users.Go(func() { l.changePools(ctx, i) })
	}
}

// stop stops the users; they finish what they have started.
func (l *load) stop() {
	l.cancel()
	l.users.Wait()
}

// pause waits for about this long, or until the users are to stop.
func pause(ctx context.Context, about time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(about/2 + time.Duration(rand.Int64N(int64(about)))):
		return true
	}
}

// patient returns the context of a request that continues when users stop.
func (l *load) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// start starts an operation and remembers it.
func (l *load) start(pool, task string, jobs int64) (*started, error) {
	spec := yson.Map(
		yson.Pair("pool", yson.String(pool)), yson.Pair("max_failed_job_count", yson.Int64(1000)),
		yson.Pair("tasks", yson.Map(yson.Pair(task, yson.Map(
			yson.Pair("job_count", yson.Int64(jobs)), yson.Pair("command", yson.String("true")),
			yson.Pair("cpu_limit", yson.Double(0.5)), yson.Pair("memory_limit", yson.Int64(memoryLimit)))))))
	ctx, cancel := l.patient()
	defer cancel()
	answer, err := l.gateway.write(ctx, command{name: "start_operation", parameters: []yson.Entry{
		yson.Pair("operation_type", yson.String("vanilla")), yson.Pair("spec", spec),
	}})
	if err != nil {
		return nil, fmt.Errorf("start an operation: %w", err)
	}
	if inner, wrapped := answer.Get("operation_id"); wrapped {
		answer = inner
	}
	id, ok := answer.Text()
	if !ok {
		return nil, fmt.Errorf("the start of an operation was answered with %v", answer)
	}
	o := &started{id: id, jobs: jobs}
	l.mutex.Lock()
	l.started = append(l.started, o)
	l.mutex.Unlock()
	return o, nil
}

func (l *load) startOperations(ctx context.Context, user int) {
	for i := 0; pause(ctx, startEvery); i++ {
		o, err := l.start(loadPool(user+starters*i), "work", 2+rand.Int64N(7))
		if err != nil {
			l.t.Error(err)
			return
		}
		asking, cancel := l.patient()
		if _, err = l.gateway.read(asking, getOperation(o.id, "state")); err != nil {
			err = fmt.Errorf("operation %s was acknowledged and is not there: %w", o.id, err)
		} else if rand.IntN(abortEvery) == 0 {
			err = l.abort(asking, o)
		}
		cancel()
		if err != nil {
			l.t.Error(err)
			return
		}
	}
}

// abort aborts an operation, which may have ended by itself.
func (l *load) abort(ctx context.Context, o *started) error {
	l.mutex.Lock()
	o.aborted = true
	l.mutex.Unlock()
	if _, err := l.gateway.write(ctx, abortOperation(o.id)); err != nil && !refused(err) {
		return fmt.Errorf("abort operation %s: %w", o.id, err)
	}
	return nil
}

// changePools is the user of one team, the only one who changes the team's pools.
func (l *load) changePools(ctx context.Context, number int) {
	var names []string
	for i := 0; pause(ctx, 100*time.Millisecond); i++ {
		asking, cancel := l.patient()
		err := l.changeOne(asking, team(number), fmt.Sprintf("%s-%d-%d", team(number), l.begun, i), &names)
		cancel()
		if err != nil {
			l.t.Error(err)
			return
		}
	}
}

func poolPath(team, name string) string { return "//sys/pool_trees/default/" + team + "/" + name }

// changeOne creates, changes or removes a pool, and checks that the previous one is unchanged.
func (l *load) changeOne(ctx context.Context, team, name string, names *[]string) (err error) {
	weight := float64(1 + rand.IntN(100))
	path := poolPath(team, name)
	draw := rand.IntN(10)
	switch {
	case len(*names) < 2 || draw < 2 && len(*names) < 20:
		_, err = l.gateway.write(ctx, createPool(name, team, yson.Pair("weight", yson.Double(weight))))
		*names = append(*names, name)
	case draw < 4:
		path = poolPath(team, (*names)[0])
		*names = (*names)[1:]
		_, err = l.gateway.write(ctx, remove(path))
		weight = 0
	default:
		path = poolPath(team, (*names)[rand.IntN(len(*names))])
		_, err = l.gateway.write(ctx, set(path+"/@weight", yson.Double(weight)))
	}
	if err != nil {
		return fmt.Errorf("change of %s: %w", path, err)
	}
	l.mutex.Lock()
	l.changes++
	if weight == 0 {
		delete(l.pools, path)

	} else {
		l.pools[path] = weight
	}
	l.mutex.Unlock()
	if weight == 0 {
		return nil
	}
	return l.checkWeight(ctx, path, weight)
}

// checkWeight checks a weight that was acknowledged.
func (l *load) checkWeight(ctx context.Context, path string, weight float64) error {
	answer, err := l.gateway.read(ctx, get(path+"/@weight"))
	if err != nil {
		return fmt.Errorf("%s was acknowledged and is not there: %w", path, err)
	}
	if got, _ := answer.Double(); got != weight {
		return fmt.Errorf("the weight of %s was acknowledged to be %v and is %v", path, weight, answer)
	}
	return nil
}

// operations returns the operations acknowledged so far.
func (l *load) operations() []*started {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return append([]*started{}, l.started...)
}
