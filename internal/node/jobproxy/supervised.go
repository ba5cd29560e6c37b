package jobproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supervisor is an agent's connection to the supervisor of its node. It starts one whenever there is none. It is safe
// for concurrent use.
type Supervisor struct {
	directory string
	command   []string

	mu      sync.Mutex
	conn    *net.UnixConn
	answers *bufio.Reader
}

// NewSupervisor returns a connection that is made when it is needed. directory is the node's; jobs are in its
// subdirectory "jobs". command starts a supervisor, such as {"/usr/bin/weir", "supervisor"}; the directory is appended.
func NewSupervisor(directory string, command []string) *Supervisor {
	return &Supervisor{directory: directory, command: command}
}

// Ensure returns when a supervisor runs and has adopted the jobs that it could.
func (s *Supervisor) Ensure(ctx context.Context) error { return s.ask(ctx, request{}) }

// Launch writes a job's description into a new directory and has the supervisor start it. It refuses a job that already
// has a directory: it has been started before.
func (s *Supervisor) Launch(ctx context.Context, job *Description) (dir string, err error) {
	if err := job.Validate(); err != nil {
		return "", fmt.Errorf("launch job %s: %w: %w", job.JobID, ErrInvalid, err)
	}
	dir = filepath.Join(s.directory, jobsDir, job.JobID)
	if err := os.Mkdir(dir, 0o711); err != nil {
		return "", fmt.Errorf("launch job %s: %w", job.JobID, err)
	}
	if err = writeJSON(dir, descriptionFile, job, false); err == nil && job.Isolation != nil {
		err = os.Mkdir(filepath.Join(dir, rootDir), 0o700)
	}
	if err == nil {
		err = s.ask(ctx, request{Start: job.JobID})
	}
	if err == nil {
		return dir, nil
	}
	// A supervisor may have died after it started the job: then the directory shows it, and the job is watched.
	lock, locked := lockDirectory(dir)
	if locked == nil {
		defer lock.Close()
	}
	if errors.Is(locked, ErrAlive) || exists(dir, stateFile) {
		return dir, nil
	}
	os.RemoveAll(dir) // nothing runs in it
	return "", fmt.Errorf("launch job %s: %w", job.JobID, err)
}

// attempts is how often a supervisor is asked that dies each time.
const attempts = 3

// ask sends a request and returns the answer. A supervisor that is going away is replaced and asked again.
func (s *Supervisor) ask(ctx context.Context, r request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for range attempts {
		if s.conn == nil {
			if err = s.connect(ctx); err != nil {
				return fmt.Errorf("supervisor: %w", err)
			}
		}
		var reply []byte
		if _, err = s.conn.Write(append(line, '\n')); err == nil {
			reply, err = s.answers.ReadBytes('\n')
		}
		if err == nil {
			var a answer
			if err := json.Unmarshal(reply, &a); err != nil {
				return fmt.Errorf("supervisor: %w", err)
			}
			if a.Error != "" {
				return errors.New(a.Error)
			}
			return nil
		}
		s.conn.Close()
		s.conn = nil
	}
	return fmt.Errorf("supervisor: it died %d times: %w", attempts, err)
}

// Close closes the connection. A supervisor without jobs then ends.
func (s *Supervisor) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// connect connects to the supervisor, and starts one if none holds the lock.
func (s *Supervisor) connect(ctx context.Context) error {
	for {
		lock, err := lockFileOf(filepath.Join(s.directory, supervisorLock))
		switch {
		case err == nil:
			err = s.startSupervisor(lock)
			lock.Close()
			if err != nil {
				return err
			}
			return nil
		case !errors.Is(err, ErrAlive):
			return err
		}
		conn, err := dialIn(s.directory, supervisorSocket)
		if err == nil {
			s.use(conn)
			return nil
		}
		// It is about to end, or about to listen.
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Supervisor) use(conn *net.UnixConn) {
	s.conn, s.answers = conn, bufio.NewReader(conn)
}

// startSupervisor starts a supervisor, which inherits the lock and a listening socket. The agent connects before it
// runs, so that it always has somebody to wait for.
func (s *Supervisor) startSupervisor(lock *os.File) error {
	if err := os.Remove(filepath.Join(s.directory, supervisorSocket)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := listenIn(s.directory, supervisorSocket)
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false) // the supervisor keeps using it
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	conn, err := dialIn(s.directory, supervisorSocket)
	if err != nil {
		return err
	}
	output, err := os.OpenFile(filepath.Join(s.directory, supervisorLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		conn.Close()
		return err
	}
	defer output.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		conn.Close()
		return err
	}
	defer nothing.Close()
	process, err := os.StartProcess(s.command[0], append(append([]string{}, s.command...), s.directory), &os.ProcAttr{
		Dir: "/", Env: supervisorEnvironment(), Files: []*os.File{nothing, output, output, lock, socket},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		conn.Close()
		return err
	}
	go process.Wait()
	s.use(conn)
	return nil
}

// supervisorEnvironment keeps secrets in the agent's environment out of the supervisor.
func supervisorEnvironment() []string {
	environment := []string{supervisorFiles + "=1"}
	for _, name := range []string{"PATH", "GODEBUG", "GOTRACEBACK", "GORACE", "GOCOVERDIR"} {
		if value, set := os.LookupEnv(name); set {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// lockFileOf acquires a lock, whose file it makes if there is none; the error is ErrAlive if another process holds it.
func lockFileOf(name string) (*os.File, error) { return lockOpened(name, os.O_RDWR|os.O_CREATE) }

// lockIfThere acquires a lock whose file must exist. A look at a directory that is being removed must not put a file
// into it.
func lockIfThere(name string) (*os.File, error) { return lockOpened(name, os.O_RDWR) }

func lockOpened(name string, flags int) (*os.File, error) {
	file, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if err == unix.EWOULDBLOCK {
			err = ErrAlive
		}
		return nil, err
	}
	return file, nil
}

// socketIn is a short address of a socket, valid while its directory is open: socket addresses must be short.
func socketIn(directory *os.File, name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: "/proc/self/fd/" + strconv.Itoa(int(directory.Fd())) + "/" + name}
}

func listenIn(dir, name string) (*net.UnixListener, error) {
	directory, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	listener, err := net.ListenUnix("unix", socketIn(directory, name))
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return listener, nil
}

func dialIn(dir, name string) (*net.UnixConn, error) {
	directory, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	return net.DialUnix("unix", nil, socketIn(directory, name))
}
