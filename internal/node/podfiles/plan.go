// Package podfiles brings files into the pod of a job and keeps those that the job leaves behind. It is the pod's end: a
// small part of the job's first process, which knows nothing of Kubernetes.
//
// Small files come in a directory that the pod mounts. Larger ones, and the files of an earlier attempt, are fetched from the
// scheduler over HTTP with a token that only this job has and that is good for its own files only. Artifacts go back the
// same way before the container ends, so that the end of the container says what became of them.
package podfiles

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/node/archive"
)

// Variable is the environment variable that holds the plan. The command does not get it.
const Variable = "WEIR_POD_FILES"

// Plan says what the first process of a pod does with files.
type Plan struct {
	// URL is where pods reach the scheduler, and CA the certificates that it may have, in PEM; empty: those of the image.
	URL string `json:"url,omitempty"`
	CA  string `json:"ca,omitempty"`
	// Job and Token identify the job.
	Job   uint64 `json:"job,omitempty"`
	Token string `json:"token,omitempty"`

	// Sandbox is where the files belong, and Mounted the directory with small ones.
	Sandbox string `json:"sandbox"`
	Mounted string `json:"mounted,omitempty"`
	Files   []File `json:"files,omitempty"`
	// Restore is the archive of an earlier attempt.
	Restore   *Content   `json:"restore,omitempty"`
	Artifacts *Artifacts `json:"artifacts,omitempty"`

	pause time.Duration // before the second attempt of a request; zero: firstPause
}

// Content names bytes that the scheduler has.
type Content struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// File is a file of the job: mounted under a name, or fetched.
type File struct {
	Path       string   `json:"path"` // in the sandbox
	Executable bool     `json:"executable,omitempty"`
	Mounted    string   `json:"mounted,omitempty"`
	Content    *Content `json:"content,omitempty"`
	// Copy makes the job's own copy, which it may change.
	Copy bool `json:"copy,omitempty"`
	// Unpack makes the path a directory with the files of the archive that the content is.
	Unpack bool `json:"unpack,omitempty"`
}

// Artifacts are the files that are kept.
type Artifacts struct {
	archive.Rules
	OnlyCompleted bool `json:"only_completed,omitempty"` // not those of jobs that did not complete
	OfAborted     bool `json:"of_aborted,omitempty"`     // those of jobs that were asked to end, too
}

// Kept is what became of artifacts.
type Kept struct {
	Count     int    `json:"count,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Message   string `json:"message,omitempty"`
	Failure   string `json:"failure,omitempty"` // why there are none
}

// Read reads a plan.
func Read(text string) (*Plan, error) {
	p := &Plan{}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	if p.Sandbox == "" {
		return nil, errors.New(Variable + ": there is no sandbox")
	}
	return p, nil
}

// String returns the text of a plan.
func (p *Plan) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // plain values can be written
	}
	return string(text)
}

// NeedsScheduler reports whether the pod must reach the scheduler.
func (p *Plan) NeedsScheduler() bool {
	if p.Restore != nil || p.Artifacts != nil {
		return true
	}
	for i := range p.Files {
		if p.Files[i].Content != nil {
			return true
		}
	}
	return false
}

// TokenOf returns the token of a job, by the proof that the scheduler gave it with the job. Those who have the token do not
// know the proof.
func TokenOf(job uint64, proof []byte) string {
	mac := hmac.New(sha256.New, proof)
	mac.Write([]byte("files of the job " + strconv.FormatUint(job, 10)))
	return hex.EncodeToString(mac.Sum(nil))
}

// Paths of the scheduler, and the header with the length of the list of files that precedes the last piece of an archive.
const (
	ContentPath   = "/pods/v1/jobs/%d/contents/%s"
	ArtifactsPath = "/pods/v1/jobs/%d/artifacts"
	ListHeader    = "Weir-List-Length"
	// LeaderHeader is set by a scheduler that does not lead, if it knows which one does: its address.
	LeaderHeader = "Weir-Leader"
	// MaxPiece is how much of an archive one request carries.
	MaxPiece = 4 << 20
	// MaxList is how long the list of files may be.
	MaxList = 4 << 20
)

// Answer is what the scheduler says to a piece of an archive, or why it refuses a request.
type Answer struct {
	Next    int64  `json:"next_offset,omitempty"` // everything before it is stored
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
