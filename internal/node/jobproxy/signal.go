package jobproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// SignalRequest is a signal for a job whose command runs.
type SignalRequest struct {
	Name string `json:"name"`          // such as SIGUSR1
	All  bool   `json:"all,omitempty"` // for all processes of the job, shells included; otherwise only for its command
}

// check returns what is wrong with a request.
func (r *SignalRequest) check() error {
	if r == nil || signalNumber(r.Name) == 0 {
		return errors.New("order signal: a signal must be given, such as SIGUSR1")
	}
	return nil
}

// SendSignal returns when a running job has been sent a signal. The error is a *RefusedError if the job does not take
// it, and ErrGone if it has ended.
func SendSignal(dir string, request *SignalRequest, timeout time.Duration) error {
	order := Order{Command: Signal, Signal: request}
	if err := order.check(); err != nil {
		return &RefusedError{RefusedFailed, err.Error()}
	}
	connection, err := Attach(dir)
	if err != nil {
		return err
	}
	defer connection.Close()
	_ = connection.conn.SetDeadline(time.Now().Add(timeout))
	if err := json.NewEncoder(connection.conn).Encode(order); err != nil {
		return gone(err)
	}
	line, err := connection.replies.ReadBytes('\n')
	if err != nil {
		return gone(err)
	}
	var reply Reply
	if err := json.Unmarshal(line, &reply); err != nil {
		return fmt.Errorf("reply of job proxy: %w", err)
	}
	switch {
	case reply.Refusal != "":
		return &RefusedError{reply.Refusal, reply.Error}
	case reply.Error != "": // a version without signals does not know the order
		return &RefusedError{RefusedUnsupported, "the job was started by a version that sends no signals: " + reply.Error}
	}
	return nil
}

// signal sends a signal to the job, or says why it cannot. It runs on the goroutine that watches the job, so that it
// never reaches a process of another one.
func (p *proxy) signal(request *SignalRequest) *RefusedError {
	number := signalNumber(request.Name)
	if !request.All {
		p.signalCommand(number)
		return nil
	}
	if err := p.container.Signal(number); err != nil {
		return &RefusedError{RefusedFailed, err.Error()}
	}
	return nil
}
