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
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone says that the proxy of a job does not run. There is a result, or Recover makes one.
var ErrGone = errors.New("the job proxy does not run")

// ErrInvalid says that the description of a job breaks a rule: no node would start it.
var ErrInvalid = errors.New("the job's description is not valid")

// Launch writes the description of a job into a new directory under root, named after the job, and starts a proxy for
// it by a command such as {"/usr/bin/weir", "job-proxy"}, to which the directory is added. The proxy does not end when
// the caller does. A job that has a directory is refused: it has been started before.
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
	lock, err := lockDirectory(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	listener, err := listen(dir)
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false) // the proxy goes on with it
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

// proxyEnvironment keeps a proxy small and away from what the agent's environment may hold of secrets.
func proxyEnvironment() []string {
	environment := []string{inheritedFiles + "=1", "GOMAXPROCS=1", "GOGC=50", "GOMEMLIMIT=16MiB"}
	for _, name := range []string{"PATH", "GODEBUG", "GOTRACEBACK", "GORACE", "GOCOVERDIR"} {
		if value, set := os.LookupEnv(name); set {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// lockDirectory takes the lock of a job's directory; the error is ErrAlive if a proxy holds it. Closing the file gives
// it back, unless another process has inherited it.
func lockDirectory(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
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

// ErrAlive says that the proxy of a job still runs.
var ErrAlive = errors.New("the job proxy runs")

// IsAlive says whether the proxy of a job runs.
func IsAlive(dir string) bool {
	lock, err := lockDirectory(dir)
	if err != nil {
		return errors.Is(err, ErrAlive)
	}
	lock.Close()
	return false
}

// socketPath is a short name of a job's socket, valid as long as the directory is open: addresses of sockets are short.
func socketPath(directory *os.File) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: "/proc/self/fd/" + strconv.Itoa(int(directory.Fd())) + "/" + socketFile}
}

func listen(dir string) (*net.UnixListener, error) {
	directory, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	listener, err := net.ListenUnix("unix", socketPath(directory))
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return listener, nil
}

// Connection is a conversation with the proxy of a job. It is for one goroutine.
type Connection struct {
	conn    *net.UnixConn
	replies *bufio.Reader
}

// Attach connects to the proxy of a job; the error is ErrGone if there is none any more.
func Attach(dir string) (*Connection, error) {
	directory, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("attach to job: %w", err)
	}
	defer directory.Close()
	conn, err := net.DialUnix("unix", nil, socketPath(directory))
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("attach to job in %s: %w", dir, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to job: %w", err)
	}
	return &Connection{conn: conn, replies: bufio.NewReader(conn)}, nil
}

// Close ends the conversation. The job does not notice.
func (c *Connection) Close() error { return c.conn.Close() }

// Do gives an order and returns the state that the proxy had when it took it. The order is carried out after that.
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

// Watch asks for every state that matters; Next then returns one after another.
func (c *Connection) Watch() error {
	return gone(json.NewEncoder(c.conn).Encode(Order{Command: Watch}))
}

// Next waits for the next state of a watch. After the state Finished, and when the proxy died, the error is ErrGone.
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

// gone makes one error of all the ways in which a conversation ends because the proxy has.
func gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return ErrGone
	}
	return err
}
