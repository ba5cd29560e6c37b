package jobproxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Command names an order to a proxy.
type Command string

const (
	// Status requests the state once, history included.
	Status Command = "status"
	// Watch requests the state now and after every change that matters to the node, until the job has ended.
	Watch Command = "watch"
	// Interrupt asks the job to end by itself within a timeout, after which it is aborted.
	Interrupt Command = "interrupt"
	// Abort aborts the job at once.
	Abort Command = "abort"
	// Fail makes the job fail: it gets its interruption signal and some time to report what it was doing.
	Fail Command = "fail"
	// Measure measures the job's files now.
	Measure Command = "measure"
	// Enter starts a process beside the command; see OpenSession. The connection then belongs to it.
	Enter Command = "enter"
	// Signal sends a signal to the job; see SendSignal.
	Signal Command = "signal"
)

// Order is one line from an agent.
type Order struct {
	Command Command `json:"command"`
	// Reason is the abort reason to report; for Interrupt, the one to report if the timeout expires.
	Reason  string          `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"` // for people
	Timeout Duration        `json:"timeout,omitzero"`  // of Interrupt and Fail; zero for Interrupt means no timeout
	Session *SessionRequest `json:"session,omitempty"` // of Enter
	Signal  *SignalRequest  `json:"signal,omitempty"`  // of Signal
}

// Reply is one line to an agent.
type Reply struct {
	State   *State      `json:"state,omitempty"`
	Error   string      `json:"error,omitempty"`
	Refusal Refusal     `json:"refusal,omitempty"` // of a session or a signal
	End     *SessionEnd `json:"end,omitempty"`     // of a session
}

func (o *Order) check() error {
	switch o.Command {
	case Status, Watch, Interrupt, Fail, Measure:
	case Enter:
		return o.Session.check()
	case Signal:
		return o.Signal.check()
	case Abort:
		if o.Reason == "" {
			return errors.New("order abort: a reason must be given")
		}
	default:
		return fmt.Errorf("order %q is not known", o.Command)
	}
	if o.Timeout < 0 {
		return fmt.Errorf("order %s: timeout %v is negative", o.Command, o.Timeout)
	}
	return nil
}

// board holds the state that the proxy shows to its clients.
type board struct {
	mu      sync.Mutex
	state   State
	history func([]CPUCheck) []CPUCheck // nil without a monitor; code that changes what it reads holds mu
	changed chan struct{}               // closed, and replaced, when something that matters changes
}

func newBoard() *board { return &board{changed: make(chan struct{})} }

// show replaces the state and notifies watchers.
func (b *board) show(state State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
	close(b.changed)
	b.changed = make(chan struct{})
}

// keepHistory sets where to read the history of the CPU monitor.
func (b *board) keepHistory(history func([]CPUCheck) []CPUCheck) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = history
}

// update changes the state in place, without notifying watchers.
func (b *board) update(change func(*State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.state)
}

// everything returns the state with its history.
func (b *board) everything() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state
	if b.history != nil {
		state.CPUHistory = b.history(nil)
	}
	return state
}

// look returns the state and a channel that is closed when it changes.
func (b *board) look() (State, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, b.changed
}

// controller serves the control socket.
type controller struct {
	listener net.Listener
	board    *board
	orders   chan<- Order
	entries  chan<- *entering
	done     <-chan struct{} // closed when orders are no longer accepted
	arrived  func(Order)     // called before an order is queued, from any goroutine

	mu          sync.Mutex
	connections map[net.Conn]struct{}
	serving     sync.WaitGroup
}

func (c *controller) serve() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return // closed
		}
		c.mu.Lock()
		c.connections[conn] = struct{}{}
		c.mu.Unlock()
		c.serving.Go(func() {
			c.talk(conn)
			c.mu.Lock()
			delete(c.connections, conn)
			c.mu.Unlock()
			conn.Close()
		})
	}
}

// stop ends watches, which have received the last state, and closes the other connections.
func (c *controller) stop() {
	c.listener.Close()
	c.mu.Lock()
	for conn := range c.connections {
		if half, ok := conn.(*net.UnixConn); ok {
			half.CloseRead() // replies in progress still arrive
		}
	}
	c.mu.Unlock()
	c.serving.Wait()
}

const longestOrder = 64 << 10

func (c *controller) talk(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 1<<10), longestOrder)
	replies := json.NewEncoder(conn)
	for lines.Scan() {
		var order Order
		err := json.Unmarshal(lines.Bytes(), &order)
		if err == nil {
			err = order.check()
		}
		if err != nil {
			if replies.Encode(Reply{Error: err.Error()}) != nil {
				return
			}
			continue
		}
		switch order.Command {
		case Watch:
			c.watch(conn, replies)
			return
		case Enter:
			c.enter(conn, replies, order.Session)
			return
		case Signal:
			reply := Reply{}
			if refused := c.ask(&entering{signal: order.Signal}).refused; refused != nil {
				reply.Refusal, reply.Error = refused.Reason, refused.Message
			}
			if replies.Encode(reply) != nil {
				return
			}
			continue
		case Status:
		default:
			c.arrived(order)
			select {
			case c.orders <- order:
			case <-c.done: // the job has ended; the order has nothing left to do
			}
		}
		state := c.board.everything()
		if replies.Encode(Reply{State: &state}) != nil {
			return
		}
	}
}

// watch writes states until the job has ended or the client disconnects.
func (c *controller) watch(conn net.Conn, replies *json.Encoder) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		conn.Read(make([]byte, 1)) // returns when the other side or stop closes
	}()
	for {
		state, changed := c.board.look()
		if replies.Encode(Reply{State: &state}) != nil || state.Phase == Finished {
			return
		}
		select {
		case <-changed:
		case <-gone:
			if state, _ := c.board.look(); state.Phase == Finished { // stop closed it
				replies.Encode(Reply{State: &state})
			}
			return
		}
	}
}
