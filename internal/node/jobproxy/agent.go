package jobproxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone means that a job's proxy does not run. There is a result, or Recover makes one.
var ErrGone = errors.New("the job proxy does not run")

// ErrInvalid means that a job's description breaks a rule: no node would start it.
var ErrInvalid = errors.New("the job's description is not valid")

// Launch writes a job's description into a new directory under root, named after the job, and starts a proxy for it
// with a command such as {"/usr/bin/weir", "job-proxy"}, to which it appends the directory. The proxy outlives the
// caller. Launch refuses a job that already has a directory: it has been started before.
func Launch(command []string, root string, job *Description) (dir string, err error) {
	if err := job.Validate(); err != nil {
		return "", fmt.Errorf("launch job %s: %w: %w", job.JobID, ErrInvalid, err)
	}
	dir = filepath.Join(root, job.JobID)
	if err := os.Mkdir(dir, 0o711); err != nil {
		return "", fmt.Errorf("launch job %s: %w", job.JobID, err)
	}
	if err := launch(command, dir, job); err != nil {
		os.RemoveAll(dir) // nothing runs in it
		return "", fmt.Errorf("launch job %s: %w", job.JobID, err)
	}
	return dir, nil
}

func launch(command []string, dir string, job *Description) error {
	if err := writeJSON(dir, descriptionFile, job, false); err != nil {
		return err
	}
	if job.Isolation != nil {
		if err := os.Mkdir(filepath.Join(dir, rootDir), 0o700); err != nil {
			return err
		}
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	listener, err := listen(dir)
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false) // the proxy keeps using it
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	output, err := os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer nothing.Close()
	process, err := os.StartProcess(command[0], append(append([]string{}, command...), dir), &os.ProcAttr{
		Dir:   "/",
		Env:   proxyEnvironment(),
		Files: []*os.File{nothing, output, output, lock, socket},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	go process.Wait()
	return nil
}

// proxyEnvironment keeps a proxy small and keeps secrets in the agent's environment out of it.
func proxyEnvironment() []string {
	environment := []string{inheritedFiles + "=1", "GOMAXPROCS=1", "GOGC=50", "GOMEMLIMIT=16MiB"}
	for _, name := range []string{"PATH", "GODEBUG", "GOTRACEBACK", "GORACE", "GOCOVERDIR"} {
		if value, set := os.LookupEnv(name); set {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// lockDirectory acquires the lock of a job's directory; the error is ErrAlive if a proxy holds it. Closing the file
// releases the lock, unless another process has inherited it.
func lockDirectory(dir string) (*os.File, error) { return lockFileOf(filepath.Join(dir, lockFile)) }

// ErrAlive means that a job's proxy still runs.
var ErrAlive = errors.New("the job proxy runs")

// IsAlive reports whether a job's proxy runs.
func IsAlive(dir string) bool {
	lock, err := lockIfThere(filepath.Join(dir, lockFile))
	if err != nil {
		return errors.Is(err, ErrAlive)
	}
	lock.Close()
	return false
}

func listen(dir string) (*net.UnixListener, error) { return listenIn(dir, socketFile) }

// Connection is a connection to a job's proxy. It is not safe for concurrent use.
type Connection struct {
	conn    *net.UnixConn
	replies *bufio.Reader
}

// Attach connects to a job's proxy; the error is ErrGone if it no longer runs.
func Attach(dir string) (*Connection, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("attach to job: %w", err)
	}
	conn, err := dialIn(dir, socketFile)
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("attach to job in %s: %w", dir, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to job: %w", err)
	}
	return &Connection{conn: conn, replies: bufio.NewReader(conn)}, nil
}

// Close closes the connection. It does not affect the job.
func (c *Connection) Close() error { return c.conn.Close() }

// Do sends an order and returns the state that the proxy had when it received it. The proxy carries out the order after
// that.
func (c *Connection) Do(order Order, timeout time.Duration) (*State, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if timeout > 0 {
		c.conn.SetDeadline(time.Now().Add(timeout))
		defer c.conn.SetDeadline(time.Time{})
	}
	if err := json.NewEncoder(c.conn).Encode(order); err != nil {
		return nil, gone(err)
	}
	return c.Next()
}

// Watch requests every state that matters; Next then returns them one by one.
func (c *Connection) Watch() error {
	return gone(json.NewEncoder(c.conn).Encode(Order{Command: Watch}))
}

// Next waits for the next state of a watch. After the state Finished, and when the proxy has died, the error is
// ErrGone.
func (c *Connection) Next() (*State, error) {
	line, err := c.replies.ReadBytes('\n')
	if err != nil {
		return nil, gone(err)
	}
	var reply Reply
	if err := json.Unmarshal(line, &reply); err != nil {
		return nil, fmt.Errorf("reply of job proxy: %w", err)
	}
	if reply.Error != "" {
		return nil, fmt.Errorf("job proxy: %s", reply.Error)
	}
	return reply.State, nil
}

// gone maps all errors of a connection whose proxy has ended to ErrGone.
func gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return ErrGone
	}
	return err
}
