package jobproxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
)

// maxSessions is how many sessions a job may have at a time.
const maxSessions = 4

// SessionRequest asks for a process beside the command of a job, with its user, limits and view of the machine.
type SessionRequest struct {
	Command     string     `json:"command,omitempty"`   // for the job's shell; empty: an interactive shell, unless there are arguments
	Arguments   []string   `json:"arguments,omitempty"` // a program and its arguments, instead of a command
	Environment []Variable `json:"environment,omitempty"`
	Terminal    bool       `json:"terminal,omitempty"` // the standard streams are a terminal
	Height      uint16     `json:"height,omitempty"`
	Width       uint16     `json:"width,omitempty"`
}

// check returns what is wrong with a request.
func (r *SessionRequest) check() error {
	if r == nil {
		return errors.New("order enter: a session must be given")
	}
	for _, text := range append([]string{r.Command}, r.Arguments...) {
		if strings.ContainsRune(text, 0) {
			return errors.New("order enter: a command must not hold a zero byte")
		}
	}
	for i, v := range r.Environment {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.ContainsRune(v.Value, 0) {
			return fmt.Errorf("order enter: environment/%d: %q is no environment variable", i, v.Name)
		}
	}
	return nil
}

// Refusal is why a job does not take a session or a signal.
type Refusal string

// Reasons to refuse a session or a signal.
const (
	RefusedNotStarted  Refusal = "not_started"
	RefusedEnded       Refusal = "ended"
	RefusedTooMany     Refusal = "too_many"
	RefusedFailed      Refusal = "failed"
	RefusedUnsupported Refusal = "unsupported" // the proxy is of a version that has no sessions, or sends no signals
)

// RefusedError means that there is no session, or that a signal was not sent.
type RefusedError struct {
	Reason  Refusal
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

// SessionEnd is how the process of a session ended.
type SessionEnd struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"` // that ended it; zero if none did
}

// Session is a process beside a job's command. It ends when the session is closed.
type Session struct {
	// Input and Output are the caller's ends of the streams; with a terminal they are the same file.
	Input, Output *os.File
	Errors        *os.File // nil with a terminal

	conn    *net.UnixConn
	replies *bufio.Reader
}

// OpenSession starts a process in a running job. The error is a *RefusedError if the job does not take it, and ErrGone
// if it has ended.
func OpenSession(dir string, request *SessionRequest, timeout time.Duration) (*Session, error) {
	if err := request.check(); err != nil {
		return nil, &RefusedError{RefusedFailed, err.Error()}
	}
	connection, err := Attach(dir)
	if err != nil {
		return nil, err
	}
	s := &Session{conn: connection.conn}
	_ = s.conn.SetDeadline(time.Now().Add(timeout))
	line, err := json.Marshal(Order{Command: Enter, Session: request})
	if err == nil {
		_, err = s.conn.Write(append(line, '\n'))
	}
	var files []*os.File
	var reply Reply
	if err == nil {
		reply, files, err = s.receive()
	}
	switch {
	case err != nil:
	case reply.Refusal != "":
		err = &RefusedError{reply.Refusal, reply.Error}
	case reply.Error != "": // a version without sessions does not know the order
		err = &RefusedError{RefusedUnsupported, "the job was started by a version that has no shells: " + reply.Error}
	case len(files) == 1:
		s.Input, s.Output = files[0], files[0]
	case len(files) == 3:
		s.Input, s.Output, s.Errors = files[0], files[1], files[2]
	default:
		err = fmt.Errorf("the job proxy sent %d files", len(files))
	}
	if err != nil {
		closeAll(files)
		s.conn.Close()
		return nil, gone(err)
	}
	_ = s.conn.SetDeadline(time.Time{})
	s.replies = bufio.NewReader(s.conn)
	return s, nil
}

// receive reads one line and the files that come with it.
func (s *Session) receive() (reply Reply, files []*os.File, err error) {
	line, rights := make([]byte, 16<<10), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := s.conn.ReadMsgUnix(line, rights)
	if err != nil {
		return reply, nil, err
	}
	if n == 0 {
		return reply, nil, ErrGone
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oobn])
	if err != nil {
		return reply, nil, err
	}
	for i := range messages {
		descriptors, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return reply, files, err
		}
		for _, fd := range descriptors {
			unix.CloseOnExec(fd)
			_ = unix.SetNonblock(fd, true) // a file that stays blocking is only slower to close
			files = append(files, os.NewFile(uintptr(fd), "session"))
		}
	}
	return reply, files, json.Unmarshal(line[:n], &reply)
}

// Wait waits until the process has ended. The error is ErrGone if nobody can say how: the proxy died.
func (s *Session) Wait() (SessionEnd, error) {
	line, err := s.replies.ReadBytes('\n')
	if err != nil {
		return SessionEnd{}, gone(err)
	}
	var reply Reply
	if err := json.Unmarshal(line, &reply); err != nil {
		return SessionEnd{}, err
	}
	if reply.End == nil {
		return SessionEnd{}, &RefusedError{RefusedFailed, reply.Error}
	}
	return *reply.End, nil
}

// Resize tells the process the size of its terminal.
func (s *Session) Resize(height, width uint16) error {
	raw, err := s.Input.SyscallConn()
	if err != nil {
		return err
	}
	outer := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
	})
	return errors.Join(outer, err)
}

// Close ends the process, if it has not ended, and closes the streams.
func (s *Session) Close() {
	s.conn.Close()
	closeAll([]*os.File{s.Input, s.Output, s.Errors})
}

// entering is a request that waits for the goroutine that watches the job: for a session, or for a signal.
type entering struct {
	request *SessionRequest
	signal  *SignalRequest
	answer  chan<- entered
}

// entered is the outcome: a session, nothing if a signal was sent, or why not.
type entered struct {
	session *session
	refused *RefusedError
}

// session is the proxy's end of a session.
type session struct {
	init      *initProcess
	exit      *os.File
	files     []*os.File // for the caller
	container cgroup.Container
	ended     func()
}

// enter starts the process of a session. It runs on the goroutine that watches the job, so that a session never begins
// while the job is being ended.
func (p *proxy) enter(e *entering) {
	if e.signal != nil {
		e.answer <- entered{refused: p.signal(e.signal)}
		return
	}
	if p.sessions.Load() >= maxSessions {
		e.answer <- entered{refused: &RefusedError{RefusedTooMany, fmt.Sprintf("the job has %d shells, which is the limit", maxSessions)}}
		return
	}
	s, err := p.openSession(e.request)
	if err != nil {
		e.answer <- entered{refused: &RefusedError{RefusedFailed, err.Error()}}
		return
	}
	p.sessions.Add(1)
	s.container, s.ended = p.container, func() { p.sessions.Add(-1) }
	e.answer <- entered{session: s}
}

// openSession starts a process in the surroundings of the job.
func (p *proxy) openSession(request *SessionRequest) (s *session, err error) {
	runtime.LockOSThread() // what it compares and what it starts belong to one thread
	defer runtime.UnlockOSThread()
	job := p.root
	if p.usesRuntime() {
		if job = p.containerProcess(); job == 0 {
			return nil, errors.New("the job's container is not there yet")
		}
	}
	streams, outer, err := p.sessionStreams(job, request)
	defer closeAll(streams)
	defer func() {
		if err != nil {
			closeAll(outer)
		}
	}()
	if err != nil {
		return nil, err
	}
	memory, err := unix.MemfdCreate("exit", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("end of the session: %w", err)
	}
	exit := os.NewFile(uintptr(memory), "exit")
	entrances, err := p.container.Entrances()
	if err != nil {
		exit.Close()
		return nil, err
	}
	defer entrances.Close()
	var namespaces []*os.File
	plan := p.sessionPlan(request, &entrances)
	namespaces, plan.Namespaces, err = otherNamespaces(job)
	defer closeAll(namespaces)
	if err != nil {
		exit.Close()
		return nil, err
	}
	started, err := jobinit.Launch(p.initCommand, plan, nil, jobinit.Files{
		Exit: exit, Stdin: streams[0], Stdout: streams[1], Stderr: streams[2], Group: entrances.Group, Entrances: entrances.Files, Namespaces: namespaces,
	})
	if err != nil {
		exit.Close()
		return nil, err
	}
	s = &session{exit: exit, files: outer}
	if s.init, err = followInit(started.PID, started.Handle); err != nil {
		started.Drop()
		exit.Close()
		return nil, err
	}
	err = started.Run(plan)
	if err == nil && p.container.Mode() == cgroup.ProcessLimits {
		if pid := commandOf(started.PID); pid != 0 {
			err = p.container.Place(pid)
		}
	}
	if err != nil {
		s.init.kill()
		<-s.init.gone
		s.close()
		return nil, err
	}
	return s, nil
}

// sessionPlan is what the init of a session does.
func (p *proxy) sessionPlan(request *SessionRequest, entrances *cgroup.Entrances) *jobinit.Plan {
	plan := p.plan(entrances)
	plan.Enter, plan.Terminal = true, request.Terminal
	switch shell := p.shell(); {
	case len(request.Arguments) > 0: // a shell finds the program in the job's PATH
		plan.Args = append([]string{"/bin/sh", "-c", `exec "$@"`, "sh"}, request.Arguments...)
	case request.Command != "":
		plan.Args = append(shell, request.Command)
	default:
		plan.Args = shell[:1]
	}
	for _, v := range request.Environment {
		plan.Env = append(withoutVariable(plan.Env, v.Name), v.Name+"="+v.Value)
	}
	return plan
}

// withoutVariable removes a variable from an environment.
func withoutVariable(environment []string, name string) (kept []string) {
	for _, entry := range environment {
		if !strings.HasPrefix(entry, name+"=") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// kindsOfNamespaces are the namespaces that a session joins, in this order: a user namespace gives the right to join
// the others.
var kindsOfNamespaces = []struct {
	name string
	flag int
}{{"user", unix.CLONE_NEWUSER}, {"mnt", unix.CLONE_NEWNS}, {"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"net", unix.CLONE_NEWNET}, {"pid", unix.CLONE_NEWPID}}

// otherNamespaces opens the namespaces of a process that are not those of this thread.
func otherNamespaces(pid int) (files []*os.File, kinds []int, err error) {
	for _, kind := range kindsOfNamespaces {
		path := "/proc/" + strconv.Itoa(pid) + "/ns/" + kind.name
		theirs, err := os.Readlink(path)
		if err != nil {
			return files, kinds, err
		}
		if own, err := os.Readlink("/proc/thread-self/ns/" + kind.name); err == nil && own == theirs {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			return files, kinds, err
		}
		files, kinds = append(files, file), append(kinds, kind.flag)
	}
	return files, kinds, nil
}

// sessionStreams returns the process's standard streams and the caller's ends of them.
func (p *proxy) sessionStreams(job int, request *SessionRequest) (streams, outer []*os.File, err error) {
	if request.Terminal {
		master, slave, err := p.openTerminal(job)
		if err != nil {
			return nil, nil, fmt.Errorf("terminal of the job: %w", err)
		}
		size := &unix.Winsize{Row: request.Height, Col: request.Width}
		if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, size); err != nil {
			p.log.Printf("size of a terminal: %v", err)
		}
		return []*os.File{slave, slave, slave}, []*os.File{master}, nil
	}
	for i := range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			return streams, outer, err
		}
		if i == 0 {
			streams, outer = append(streams, read), append(outer, write)
		} else {
			streams, outer = append(streams, write), append(outer, read)
		}
	}
	return streams, outer, nil
}

// openTerminal makes a terminal where the job's own terminals are, owned by the job's user.
func (p *proxy) openTerminal(job int) (master, slave *os.File, err error) {
	devices := filepath.Join("/proc", strconv.Itoa(job), "root", "dev")
	for _, name := range []string{"pts/ptmx", "ptmx"} {
		if master, err = os.OpenFile(filepath.Join(devices, name), os.O_RDWR|unix.O_NOCTTY, 0); err == nil {
			break
		}
	}
	if err != nil {
		return nil, nil, err
	}
	number := int(master.Fd())
	if err := unix.IoctlSetPointerInt(number, unix.TIOCSPTLCK, 0); err != nil {
		master.Close()
		return nil, nil, os.NewSyscallError("TIOCSPTLCK", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(number), unix.TIOCGPTPEER, uintptr(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
	if errno != 0 {
		master.Close()
		return nil, nil, os.NewSyscallError("TIOCGPTPEER", errno)
	}
	slave = os.NewFile(fd, "terminal")
	if c := p.job.Credential; c != nil {
		if err := slave.Chown(int(c.UID), int(c.GID)); err != nil {
			p.log.Printf("owner of a terminal: %v", err)
		}
	}
	return master, slave, nil
}

// close closes the files of a session whose process has ended.
func (s *session) close() {
	closeAll(s.files)
	s.exit.Close()
	s.init.file.Close()
}

// kill ends all processes of the session that have not left it. Others end with the job.
func (s *session) kill() {
	if leader := commandOf(s.init.pid); leader != 0 {
		killSession(leader, s.container.Processes)
	}
	s.init.kill() // its command ends with it
}

// killSession kills the processes of a list that are in the session of a leader. A fork that has begun before its
// process was killed still ends, and its child may be listed only then. So killSession waits until what it has killed
// is dead, and lists again until it finds none that is new.
func killSession(leader int, list func() ([]int, error)) {
	killed := map[int]bool{}
	for {
		pids, _ := list() // if there is no list, the leader is all that is known
		var dying []int
		for _, pid := range pids {
			if killed[pid] {
				continue
			}
			if handle, ok := killInSession(pid, leader); ok {
				killed[pid] = true
				dying = append(dying, handle)
			}
		}
		if len(dying) == 0 {
			return
		}
		_ = awaitEnds(dying...) // what does not end now ends later, without forking
		for _, handle := range dying {
			unix.Close(handle)
		}
	}
}

// killInSession kills a process if it is in the session of a leader. It returns a handle of the process if it was.
func killInSession(pid, leader int) (handle int, ok bool) {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, false // it has ended
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != leader {
		unix.Close(handle)
		return 0, false
	}
	_ = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0) // it may end meanwhile
	return handle, true
}

// end is how the session's process ended.
func (s *session) end() (*SessionEnd, error) {
	exit, err := jobinit.ReadExit("/proc/self/fd/" + strconv.Itoa(int(s.exit.Fd())))
	if err != nil {
		return nil, err
	}
	if exit == nil { // its init was killed, and the process with it
		return &SessionEnd{Code: -1, Signal: int(syscall.SIGKILL)}, nil
	}
	end := &SessionEnd{Code: exit.Status.ExitStatus()}
	if exit.Status.Signaled() {
		end.Signal = int(exit.Status.Signal())
	}
	return end, nil
}

// ask passes a request to the goroutine that watches the job, unless no command runs.
func (c *controller) ask(e *entering) entered {
	ended := entered{refused: &RefusedError{RefusedEnded, "the job has ended"}}
	switch state, _ := c.board.look(); state.Phase {
	case Preparing:
		return entered{refused: &RefusedError{RefusedNotStarted, "the command of the job has not started yet"}}
	case Finishing, Finished:
		return ended
	}
	answer := make(chan entered, 1)
	e.answer = answer
	select {
	case c.entries <- e:
		return <-answer
	case <-c.done:
		return ended
	}
}

// enter serves a session until its process has ended or its client is gone.
func (c *controller) enter(conn net.Conn, replies *json.Encoder, request *SessionRequest) {
	got := c.ask(&entering{request: request})
	if got.refused != nil {
		_ = replies.Encode(Reply{Refusal: got.refused.Reason, Error: got.refused.Message}) // the client may have gone
		return
	}
	s := got.session
	defer s.ended()
	defer s.close()
	if err := s.hand(conn); err != nil {
		s.kill()
		<-s.init.gone
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		conn.Read(make([]byte, 1)) // returns when the other side or stop closes
	}()
	select {
	case <-s.init.gone:
	case <-gone:
		s.kill()
		<-s.init.gone
	}
	end, err := s.end()
	reply := Reply{End: end}
	if err != nil {
		reply.Error = err.Error()
	}
	_ = replies.Encode(reply) // the client may be gone
}

// hand passes the caller's ends of the streams to the client.
func (s *session) hand(conn net.Conn) error {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("only sockets of the machine carry files")
	}
	var descriptors []int
	for _, file := range s.files {
		descriptors = append(descriptors, int(file.Fd()))
	}
	line, err := json.Marshal(Reply{})
	if err == nil {
		_, _, err = socket.WriteMsgUnix(append(line, '\n'), unix.UnixRights(descriptors...), nil)
	}
	closeAll(s.files)
	s.files = nil
	return err
}
