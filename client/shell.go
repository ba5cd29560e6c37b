package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// JobOutput is a part of what a job has written.
type JobOutput struct {
	// Offset is where Data begins. It is above what was asked for if the bytes between are
	// not kept.
	Offset int64
	Data   []byte
	// Next is the offset after Data, Size that of everything written so far.
	Next, Size int64
	// Ended reports whether the job has ended and there is no more.
	Ended bool
}

// OutputOptions select a part of a job's output.
type OutputOptions struct {
	Stdout bool  `yson:"-"`
	Offset int64 `yson:"-"`
	// Limit is the greatest number of bytes; zero means as much as there is.
	Limit int64 `yson:"limit"`
	// Wait is how long to wait for output of a running job if there is none at the offset.
	// Servers wait at most 30 seconds.
	Wait time.Duration `yson:"wait_ms"`
}

// ReadJobOutput returns output of a job that runs or has ended.
func (c *Client) ReadJobOutput(ctx context.Context, id string, o OutputOptions) (*JobOutput, error) {
	kind := "stderr"
	if o.Stdout {
		kind = "stdout"
	}
	out := &JobOutput{Offset: o.Offset}
	var err error
	out.Data, err = c.Bytes(ctx, Request{
		Command: "get_job_stderr", Parameters: merged(jobKey{id}, map[string]any{"type": kind, "offset": o.Offset}, o),
		About: func(about Value) {
			number := func(name string, into *int64) {
				if n, ok := about.Get(name).Int(); ok {
					*into = n
				}
			}
			number("offset", &out.Offset)
			number("end_offset", &out.Next)
			number("total_size", &out.Size)
			out.Ended, _ = about.Get("ended").Bool()
		},
	})
	return out, err
}

// ShellOptions describe a process to run in a job, beside its command.
type ShellOptions struct {
	// Command is run by the job's shell. If it is empty and there are no Arguments, the
	// process is an interactive shell.
	Command string `yson:"command"`
	// Arguments are a program and its arguments, instead of a command.
	Arguments []string `yson:"arguments"`
	// Environment has entries like NAME=VALUE in addition to the job's.
	Environment []string `yson:"environment"`
	// Terminal gives the process a terminal of this type and size.
	Terminal      bool   `yson:"-"`
	Type          string `yson:"term"`
	Height, Width int    `yson:"-"`
	// Idle is how long nobody may type and nothing may be written before the process is
	// ended; zero means an hour, which is the most.
	Idle time.Duration `yson:"inactivity_timeout"`
}

// Shell is a process in a job. One goroutine may write while another reads.
type Shell struct {
	ID string

	client *Client
	job    string

	mu            sync.Mutex
	sent          int64 // bytes of input
	read          int64 // offset of the next output
	height, width int
}

// ShellExited is why a shell has ended.
type ShellExited struct {
	// Reason is a keyword: exited, job_ended, node_away, leader_changed, idle and others.
	Reason  string
	Message string
	// Code and Signal are how the process ended, if the reason is exited.
	Code, Signal int64
}

// Error returns the message.
func (e *ShellExited) Error() string { return e.Message }

type shellStep struct {
	Operation string `yson:"operation"`
	Shell     string `yson:"shell_id"`
	Height    int    `yson:"height"`
	Width     int    `yson:"width"`
}

// codeShellExited is the code of the error that tells how a shell ended.
const codeShellExited Code = 1800

func (c *Client) pollShell(ctx context.Context, job string, parameters Value) (Value, error) {
	answer, err := c.Do(ctx, "poll_job_shell", merged(jobKey{job}, map[string]any{"parameters": parameters}))
	var refused *Error
	if errors.As(err, &refused) && refused.Code == codeShellExited {
		exited := &ShellExited{Message: refused.Message}
		exited.Reason, _ = refused.Attributes["reason"].(string)
		exited.Code, _ = refused.Attributes["exit_code"].(int64)
		exited.Signal, _ = refused.Attributes["signal"].(int64)
		return Value{}, exited
	}
	return answer.Get("result"), err
}

// OpenShell runs a process in a running job, as the job's user and with its limits and files.
func (c *Client) OpenShell(ctx context.Context, job string, o ShellOptions) (*Shell, error) {
	answer, err := c.pollShell(ctx, job, merged(o, shellStep{Operation: "spawn", Height: o.Height, Width: o.Width}, map[string]any{"terminal": o.Terminal}))
	if err != nil {
		return nil, err
	}
	s := &Shell{client: c, job: job, height: o.Height, width: o.Width}
	if s.ID, _ = answer.Get("shell_id").Text(); s.ID == "" {
		return nil, fmt.Errorf("the answer to poll_job_shell names no shell")
	}
	return s, nil
}

// maxKeys is how much input one request carries.
const maxKeys = 32 << 10

// inputPause is how long to wait before input is offered again to a process that does not read.
const inputPause = 100 * time.Millisecond

// Write sends input to the process. It returns when the server has taken it.
func (s *Shell) Write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		s.mu.Lock()
		offset := s.sent
		s.mu.Unlock()
		piece := data[:min(len(data), maxKeys)]
		answer, err := s.step(ctx, "update", map[string]any{"keys": hex.EncodeToString(piece), "input_offset": offset})
		if err != nil {
			return err
		}
		taken, _ := answer.Get("consumed_offset").Int()
		if taken <= offset {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(inputPause):
			}
			continue
		}
		data = data[min(taken-offset, int64(len(data))):]
		s.mu.Lock()
		s.sent = taken
		s.mu.Unlock()
	}
	return nil
}

// CloseInput tells the process that there is no more input.
func (s *Shell) CloseInput(ctx context.Context) error {
	_, err := s.step(ctx, "update", map[string]any{"close_input": true})
	return err
}

// Resize sets the size of the terminal.
func (s *Shell) Resize(ctx context.Context, height, width int) error {
	s.mu.Lock()
	s.height, s.width = height, width
	s.mu.Unlock()
	_, err := s.step(ctx, "update", nil)
	return err
}

// Read waits for output and returns it: standard output, or everything with a terminal, and
// standard error. When the process has ended and everything was read, the error is a
// *ShellExited.
func (s *Shell) Read(ctx context.Context) (output, errorOutput []byte, err error) {
	s.mu.Lock()
	offset := s.read
	s.mu.Unlock()
	answer, err := s.step(ctx, "poll", map[string]any{"output_offset": offset})
	if err != nil {
		return nil, nil, err
	}
	out, _ := answer.Get("output").Text()
	failed, _ := answer.Get("error_output").Text()
	if next, ok := answer.Get("next_output_offset").Int(); ok {
		s.mu.Lock()
		s.read = next
		s.mu.Unlock()
	}
	return []byte(out), []byte(failed), nil
}

// Terminate ends the process.
func (s *Shell) Terminate(ctx context.Context) error {
	_, err := s.step(ctx, "terminate", nil)
	return err
}

func (s *Shell) step(ctx context.Context, operation string, more map[string]any) (Value, error) {
	s.mu.Lock()
	step := shellStep{Operation: operation, Shell: s.ID, Height: s.height, Width: s.width}
	s.mu.Unlock()
	return s.client.pollShell(ctx, s.job, merged(step, more))
}
