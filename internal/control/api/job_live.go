package api

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

const (
	// longestLiveWait bounds how long a request waits for output. Clients give up after a minute.
	longestLiveWait = 30 * time.Second
	// maxShellRequest bounds the command, the arguments and the environment of a shell together.
	maxShellRequest = 32 << 10
	// largestTerminal bounds the rows and columns of a terminal.
	largestTerminal = 10_000
)

// liveOutput answers with the output of a running job. It reports false if the job has ended meanwhile and its output
// is stored.
func (c *call) liveOutput(stdout bool) (bool, error) {
	offset, err := c.Parameters.Integer("offset", 0)
	if err != nil {
		return false, err
	}
	const all = 1 << 62
	limit, err := c.Parameters.Integer("limit", all)
	if err != nil {
		return false, err
	}
	wait, err := c.Parameters.Duration("wait_ms", 0)
	if err != nil {
		return false, err
	}
	if offset < 0 || limit < 0 || wait < 0 {
		return false, wire.Errorf(wire.CodeGeneric, "Parameters /offset, /limit and /wait_ms must not be negative")
	}
	out, err := c.Server.ReadOutput(c.Context, c.job.ID, stdout, offset, limit, min(wait, longestLiveWait))
	var live *server.LiveError
	if errors.As(err, &live) && (live.Reason == server.LiveJobEnded || live.Reason == server.LiveUnsupported) {
		return false, nil // what is stored is all there is
	}
	if err != nil {
		return false, err
	}
	data := out.Data
	if skipped := out.Offset - offset; skipped > 0 && !c.Parameters.Has("offset") {
		data = slices.Concat(fmt.Appendf(nil, "… %d bytes are not kept …\n", skipped), data)
	}
	_, err = c.answerBytes(data, yson.Pair("total_size", yson.Int64(out.Size)), yson.Pair("end_offset", yson.Int64(out.End())),
		yson.Pair("offset", yson.Int64(out.Offset)), yson.Pair("ended", yson.Boolean(out.Ended)))
	return true, err
}

// codeShellExited is the code by which clients of YTsaurus recognise that a shell has ended.
const codeShellExited = 1800

// pollJobShell is one step of a session with a process in a job.
func pollJobShell(c *call) (yson.Node, error) {
	node, err := c.Parameters.Mapping("parameters")
	if err != nil {
		return yson.Node{}, err
	}
	p := wire.Parameters{Node: node}
	operation, err := p.NeedText("operation")
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	if operation == "spawn" {
		n, err := c.spawnShell(p)
		return n, err
	}
	shell, err := c.shell(p)
	if err != nil {
		return yson.Node{}, err
	}
	switch operation {
	case "update":
		return updateShell(shell, p)
	case "poll":
		return c.readShell(shell, p)
	case "terminate":
		shell.Terminate()
		return yson.Map(), nil
	}
	return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /parameters/operation: it must be spawn, update, poll or terminate, not %q", wire.CutText(operation, 100))
}

// inParameters says in which parameter an error is.
func inParameters(err error) error {
	return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /parameters").Because(err)
}

// spawnShell starts a process in the job.
func (c *call) spawnShell(p wire.Parameters) (yson.Node, error) {
	if _, err := c.runningJob(); err != nil {
		return yson.Node{}, err
	}
	request, err := readShellRequest(p)
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	request.User = c.Who.User
	shell, err := c.Server.OpenShell(c.Context, c.Caller(c.job.ID.String()), c.job.ID, request)
	if err != nil {
		return yson.Node{}, err
	}
	return yson.Map(yson.Pair("shell_id", yson.String(shell.ID.String()))), nil
}

// readShellRequest reads the parameters of a new session.
func readShellRequest(p wire.Parameters) (*server.ShellRequest, error) {
	var r server.ShellRequest
	var err error
	size := 0
	text := func(name string) (value string) {
		if err == nil {
			value, err = p.Text(name, "")
		}
		size += len(value)
		return value
	}
	list := func(name string) (values []string) {
		if err == nil && p.Has(name) {
			values, err = p.TextList(name)
		}
		for _, v := range values {
			size += len(v)
		}
		return values
	}
	terminal := text("term")
	r.Command, r.Arguments = text("command"), list("arguments")
	environment := list("environment")
	if err == nil {
		r.Terminal, err = p.Boolean("terminal", true)
	}
	if err == nil {
		r.Height, r.Width, err = terminalSize(p)
	}
	if err == nil {
		r.Idle, err = p.Duration("inactivity_timeout", 0)
	}
	switch {
	case err != nil:
		return nil, err
	case size > maxShellRequest:
		return nil, fmt.Errorf("command, arguments and environment have %d bytes together, more than %d", size, maxShellRequest)
	case r.Command != "" && len(r.Arguments) > 0:
		return nil, errors.New("command and arguments exclude each other")
	case strings.ContainsRune(r.Command+strings.Join(r.Arguments, ""), 0):
		return nil, errors.New("a command must not hold a zero byte")
	case r.Idle < 0:
		return nil, errors.New("inactivity_timeout must not be negative")
	}
	if terminal != "" && r.Terminal {
		environment = append(environment, "TERM="+terminal)
	}
	for _, entry := range environment {
		name, value, found := strings.Cut(entry, "=")
		if !found || name == "" || strings.ContainsRune(entry, 0) {
			return nil, errors.New("environment: each entry must be NAME=VALUE") // the entry may be a secret
		}
		r.Environment = append(r.Environment, &nodev1.Variable{Name: name, Value: value})
	}
	return &r, nil
}

// terminalSize reads the size of a terminal; zeros if it is not given.
func terminalSize(p wire.Parameters) (height, width uint32, err error) {
	for _, side := range []struct {
		name string
		into *uint32
	}{{"height", &height}, {"width", &width}} {
		n, err := p.Integer(side.name, 0)
		if err != nil {
			return 0, 0, err
		}
		if n < 0 || n > largestTerminal {
			return 0, 0, fmt.Errorf("%s must be between 0 and %d", side.name, largestTerminal)
		}
		*side.into = uint32(n)
	}
	return height, width, nil
}

// shell finds the session of a request. Only the user who started it may use it.
func (c *call) shell(p wire.Parameters) (*server.Shell, error) {
	text, err := p.NeedText("shell_id")
	if err != nil {
		return nil, inParameters(err)
	}
	id, err := guid.Parse(text)
	if err != nil {
		return nil, inParameters(err)
	}
	shell, found := c.Server.Shell(id)
	if !found || shell.Job != c.job.ID || shell.User != c.Who.User {
		return nil, wire.Errorf(codeShellExited, "Shell exited: there is no shell %s of user %q in job %s; it has ended, or another scheduler leads now", id, c.Who.User, c.job.ID).
			With("reason", yson.String("unknown_shell"))
	}
	return shell, nil
}

// updateShell passes input and the size of the terminal on.
func updateShell(shell *server.Shell, p wire.Parameters) (yson.Node, error) {
	text, err := p.Text("keys", "")
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	keys, err := hex.DecodeString(text)
	if err != nil {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /parameters/keys: it must be hexadecimal digits")
	}
	offset, err := p.Integer("input_offset", 0)
	if err == nil && offset < 0 {
		err = errors.New("input_offset must not be negative")
	}
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	height, width, err := terminalSize(p)
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	isLast, err := p.Boolean("close_input", false)
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	taken := shell.Type(keys, offset, height, width, isLast)
	return yson.Map(yson.Pair("consumed_offset", yson.Int64(taken))), nil
}

// readShell returns what the shell has written.
func (c *call) readShell(shell *server.Shell, p wire.Parameters) (yson.Node, error) {
	offset, err := p.Integer("output_offset", -1)
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	height, width, err := terminalSize(p)
	if err != nil {
		return yson.Node{}, inParameters(err)
	}
	shell.Type(nil, 0, height, width, false)
	out := shell.Read(c.Context, offset, longestLiveWait)
	if end := out.End; end != nil {
		e := wire.Errorf(codeShellExited, "Shell exited").With("reason", yson.String(string(end.Reason)))
		if end.Reason == server.LiveExited {
			e = e.With("exit_code", yson.Int64(int64(end.ExitCode))).With("signal", yson.Int64(int64(end.Signal)))
		} else {
			e.Message += ": " + end.Message
		}
		return yson.Node{}, e
	}
	answer := []yson.Entry{
		yson.Pair("output", yson.String(string(out.Output))), yson.Pair("next_output_offset", yson.Int64(out.Next)),
	}
	if !shell.Terminal {
		answer = append(answer, yson.Pair("error_output", yson.String(string(out.Errors))))
	}
	return yson.Map(answer...), nil
}
