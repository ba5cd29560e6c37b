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
	// Status asks for the state once, history included.
	Status Command = "status"
	// Watch asks for the state now and whenever it changes in a way that matters to the node, until the job has ended.
	Watch Command = "watch"
	// Interrupt asks the job to end by itself within a time, after which it is aborted.
	Interrupt Command = "interrupt"
	// Abort ends the job at once.
	Abort Command = "abort"
	// Fail lets the job fail: it gets its interruption signal and a time to say what it was doing.
	Fail Command = "fail"
)

// Order is one line from an agent.
type Order struct {
	Command Command `json:"command"`
	// Reason of an abort to report; for Interrupt, the one to report if time runs out.
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message,omitempty"` // for people
	Timeout Duration `json:"timeout,omitzero"`  // of Interrupt and Fail; zero for Interrupt is all the time it wants
}

// Reply is one line to an agent.
type Reply struct {
	State *State `json:"state,omitempty"`
	Error string `json:"error,omitempty"`
}

func (o *Order) check() error {
	switch o.Command {
	case Status, Watch, Interrupt, Fail:
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

// board is where the proxy shows its state to those who ask.
type board struct {
	mu      sync.Mutex
	state   State
	history func([]CPUCheck) []CPUCheck // nil without a monitor; whoever changes what it reads holds mu
	changed chan struct{}               // closed, and replaced, when something that matters changes
}

func newBoard() *board { return &board{changed: make(chan struct{})} }

// show replaces the state, and watchers are told.
func (b *board) show(state State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
	close(b.changed)
	b.changed = make(chan struct{})
}

// keepHistory says where the history of the CPU monitor is read.
func (b *board) keepHistory(history func([]CPUCheck) []CPUCheck) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = history
}

// update changes the state in place; nobody is told.
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

// look returns the state and what to wait for.
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
	done     <-chan struct{} // closed when orders are not taken any more
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

// stop ends watches, which have been told the last state, and closes the rest.
func (c *controller) stop() {
	c.listener.Close()
	c.mu.Lock()
	for conn := range c.connections {
		if half, ok := conn.(*net.UnixConn); ok {
			half.CloseRead() // what is being written still arrives
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

// watch writes states until the job has ended or nobody reads them.
func (c *controller) watch(conn net.Conn, replies *json.Encoder) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		conn.Read(make([]byte, 1)) // ends when the other side or stop closes
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
