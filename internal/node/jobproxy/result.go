package jobproxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/value/cpumonitor"
)

// Outcome is how a job ended.
type Outcome string

const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"      // its own fault
	Aborted     Outcome = "aborted"     // not its own fault
	Interrupted Outcome = "interrupted" // asked to end early, did so, is to be restarted
)

// Abort reasons that a proxy sets by itself. The names are those in the documents.
const (
	ResourceOverdraft       = "resource_overdraft"
	InterruptionTimeout     = "interruption_timeout"
	InterruptionUnsupported = "interruption_unsupported"
	ProxyFailed             = "job_proxy_failed"
	OtherReason             = "other"
)

// Error codes that clients know.
const (
	CodeGeneric             = 1
	CodeMemoryLimitExceeded = 1200
	CodeTimeLimitExceeded   = 1202
	CodeNotPrepared         = 1204
	CodeUserJobFailed       = 1205
	CodeExitCode            = 10000
	CodeSignal              = 10001
)

// Error is why a job failed or was aborted.
type Error struct {
	Code       int                        `json:"code"`
	Message    string                     `json:"message"`
	Attributes map[string]json.RawMessage `json:"attributes,omitempty"`
	Inner      []Error                    `json:"inner_errors,omitempty"`
}

func (e *Error) Error() string {
	text := e.Message
	for i := range e.Inner {
		text += ": " + e.Inner[i].Error()
	}
	return text
}

// newError makes an error with attributes, given as alternating names and values.
func newError(code int, message string, attributes ...any) *Error {
	e := &Error{Code: code, Message: message}
	for i := 0; i+1 < len(attributes); i += 2 {
		text, err := json.Marshal(attributes[i+1])
		if err != nil {
			continue // values are numbers, words and lists of them
		}
		if e.Attributes == nil {
			e.Attributes = map[string]json.RawMessage{}
		}
		e.Attributes[attributes[i].(string)] = text
	}
	return e
}

// Statistic is the value of one path of a job's statistics.
type Statistic struct {
	Path  string `json:"path"`
	Value int64  `json:"value"`
}

// Timings of a job; a zero time is an event that did not happen.
type Timings struct {
	Accepted     Time `json:"accepted,omitzero"`
	ProxyStarted Time `json:"proxy_started,omitzero"`
	ExecStarted  Time `json:"exec_started,omitzero"`
	ExecFinished Time `json:"exec_finished,omitzero"`
	Finished     Time `json:"finished,omitzero"`
}

// Result is how a job ended, as stored in result.json.
type Result struct {
	Version     int         `json:"version"`
	JobID       string      `json:"job_id"`
	OperationID string      `json:"operation_id"`
	Outcome     Outcome     `json:"outcome"`
	AbortReason string      `json:"abort_reason,omitempty"`
	Error       *Error      `json:"error,omitempty"`
	ExitCode    *int        `json:"exit_code,omitempty"`
	Signal      *int        `json:"signal,omitempty"`
	Interrupted bool        `json:"was_interrupted,omitempty"` // it was asked to end early, however it then ended
	Timings     Timings     `json:"timings"`
	Statistics  []Statistic `json:"statistics,omitempty"` // by path
	CPUHistory  []CPUCheck  `json:"cpu_history,omitempty"`
	Warnings    []string    `json:"warnings,omitempty"`
}

// CPUCheck is one check of the CPU monitor, for display.
type CPUCheck = cpumonitor.Sample

// Statistic returns the value of a path.
func (r *Result) Statistic(path string) (int64, bool) { return findStatistic(r.Statistics, path) }

func findStatistic(all []Statistic, path string) (int64, bool) {
	i, found := slices.BinarySearchFunc(all, path, func(s Statistic, path string) int { return cmp.Compare(s.Path, path) })
	if !found {
		return 0, false
	}
	return all[i].Value, true
}

// Phase is the stage of a job's life.
type Phase string

const (
	Preparing Phase = "preparing"
	Running   Phase = "running"
	Finishing Phase = "finishing" // the command has ended or is being ended
	Finished  Phase = "finished"  // there is a result
)

// State is what a proxy reports while its job runs.
type State struct {
	Version  int    `json:"version"`
	JobID    string `json:"job_id"`
	Phase    Phase  `json:"phase"`
	ProxyPID int    `json:"proxy_pid"`
	RootPID  int    `json:"root_pid,omitempty"`
	// InitPID is the init of the job. As long as it lives it holds the lock of the exit file, and the id is its own.
	InitPID int         `json:"init_pid,omitempty"`
	Mode    cgroup.Mode `json:"container_mode"`
	Timings Timings     `json:"timings"`
	// RequestedMemory is what the node must account for the job. It never falls.
	RequestedMemory int64 `json:"requested_memory"`
	// CPULimit is the current limit, in hundredths of a core.
	CPULimit    int64 `json:"cpu_limit"`
	SmoothedCPU int64 `json:"smoothed_cpu"` // hundredths
	UserMemory  int64 `json:"user_memory"`  // in use, without tmpfs
	TmpfsUsage  int64 `json:"tmpfs_usage"`
	ProxyMemory int64 `json:"proxy_memory"`
	// OOMScoreAdj is the score of the user's processes while they use more than their reserve; zero while they
	// do not.
	OOMScoreAdj int `json:"oom_score_adj,omitempty"`
	// Interruption of a job that was asked to end.
	InterruptionReason   string      `json:"interruption_reason,omitempty"`
	InterruptionDeadline Time        `json:"interruption_deadline,omitzero"`
	InterruptionMessage  string      `json:"interruption_message,omitempty"`
	InterruptionFails    bool        `json:"interruption_fails,omitempty"` // the job fails, however it ends
	Statistics           []Statistic `json:"statistics,omitempty"`
	CPUHistory           []CPUCheck  `json:"cpu_history,omitempty"` // only on request
	Warnings             []string    `json:"warnings,omitempty"`
}

// Names in a job's directory.
const (
	descriptionFile = "job.json"
	lockFile        = "lock"
	socketFile      = "control.sock"
	stateFile       = "state.json"
	resultFile      = "result.json"
	logFile         = "proxy.log"
	exitFile        = "exit"
	rootDir         = "root"
	sandboxDir      = "sandbox"
	temporaryDir    = "tmp"
	changesDir      = "changes"
	passwdFile      = "passwd"
	groupFile       = "group"
)

// ReadDescription reads the description of a job from its directory.
func ReadDescription(dir string) (*Description, error) {
	text, err := os.ReadFile(filepath.Join(dir, descriptionFile))
	if err != nil {
		return nil, fmt.Errorf("job description: %w", err)
	}
	return DecodeDescription(text)
}

// ReadState reads the last state that a job's proxy wrote.
func ReadState(dir string) (*State, error) { return readJSON[State](dir, stateFile) }

// ReadResult reads how a job ended; the error is fs.ErrNotExist if it has not.
func ReadResult(dir string) (*Result, error) { return readJSON[Result](dir, resultFile) }

func readJSON[T any](dir, name string) (*T, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(text, value); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return value, nil
}

// writeJSON replaces a file atomically. With durable it also survives a crash of the machine.
func writeJSON(dir, name string, value any, durable bool) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	temporary := filepath.Join(dir, "."+name)
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && durable {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary, filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(temporary)
		return fmt.Errorf("%s: %w", name, err)
	}
	if durable {
		return syncDirectory(dir)
	}
	return nil
}

func syncDirectory(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// sorted sorts errors by their texts.
func sorted(problems []error) []error {
	slices.SortStableFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems
}

// since is the time between two moments, zero if the first did not happen.
func since(from, to time.Time) time.Duration {
	if from.IsZero() {
		return 0
	}
	return to.Sub(from)
}
