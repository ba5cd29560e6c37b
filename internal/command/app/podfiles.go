package app

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/podfiles"
)

// maxPodUploads is how many pieces of archives of pods are in memory at a time.
const maxPodUploads = 16

// podFiles serves the files of jobs to their pods; see package podfiles. A job's token opens its own files only.
type podFiles struct {
	server  *server.Server
	uploads chan struct{}
}

func newPodFiles(s *server.Server) *podFiles {
	return &podFiles{server: s, uploads: make(chan struct{}, maxPodUploads)}
}

// register adds the paths.
func (p *podFiles) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /pods/v1/jobs/{job}/contents/{sum}", p.content)
	mux.HandleFunc("PUT /pods/v1/jobs/{job}/artifacts", p.artifacts)
}

// caller returns the job and the token of a request.
func podCaller(r *http.Request) (job uint64, token string, err error) {
	job, err = strconv.ParseUint(r.PathValue("job"), 10, 64)
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if err != nil || !given {
		return 0, "", &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN, Message: "the token of a job is required"}
	}
	return job, token, nil
}

func invalidPod(message string) error {
	return &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_INVALID, Message: message}
}

// refuse answers with an error.
func (p *podFiles) refuse(w http.ResponseWriter, err error) {
	status, answer := http.StatusServiceUnavailable, podfiles.Answer{Message: err.Error()}
	var refused *nodeproto.RefusedError
	var standby *nodeproto.NotLeaderError
	switch {
	case errors.As(err, &standby):
		status = http.StatusMisdirectedRequest
		if standby.Leader != "" {
			w.Header().Set(podfiles.LeaderHeader, standby.Leader)
		}
	case errors.As(err, &refused):
		answer.Message = refused.Message
		switch refused.Reason {
		case nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN:
			status = http.StatusUnauthorized
		case nodev1.RefusalReason_REFUSAL_REASON_INVALID:
			status = http.StatusBadRequest
		case nodev1.RefusalReason_REFUSAL_REASON_QUOTA:
			status, answer.Reason = http.StatusForbidden, archive.OverQuota
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the pod may be gone
}

// content sends a file from an offset on.
func (p *podFiles) content(w http.ResponseWriter, r *http.Request) {
	job, token, err := podCaller(r)
	if err != nil {
		p.refuse(w, err)
		return
	}
	sum, err := hex.DecodeString(r.PathValue("sum"))
	if err != nil {
		p.refuse(w, invalidPod("the content is named by its SHA-256"))
		return
	}
	offset := int64(0)
	if text := r.Header.Get("Range"); text != "" {
		first, _ := strings.CutPrefix(text, "bytes=")
		if offset, err = strconv.ParseInt(strings.TrimSuffix(first, "-"), 10, 64); err != nil {
			p.refuse(w, invalidPod("only a range from an offset to the end is known here"))
			return
		}
	}
	for begun := false; ; begun = true {
		piece, err := p.server.FetchForPod(r.Context(), token, &nodev1.FetchContentRequest{Job: job, Sha256: sum, Offset: offset, Length: podfiles.MaxPiece})
		if err != nil {
			if !begun {
				p.refuse(w, err)
			}
			return // the pod sees that something is missing, and asks again
		}
		if !begun {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.FormatInt(max(piece.GetTotal()-offset, 0), 10))
			w.WriteHeader(http.StatusPartialContent)
		}
		if len(piece.GetData()) == 0 {
			return
		}
		if _, err := w.Write(piece.GetData()); err != nil {
			return
		}
		offset += int64(len(piece.GetData()))
	}
}

// artifacts stores a piece of an archive.
func (p *podFiles) artifacts(w http.ResponseWriter, r *http.Request) {
	request, token, err := p.readPiece(w, r)
	if err != nil {
		p.refuse(w, err)
		return
	}
	response, err := p.server.KeepForPod(r.Context(), token, request)
	if err != nil {
		p.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(podfiles.Answer{Next: response.GetNextOffset()}) // the pod may be gone
}

// readPiece reads a piece of an archive, after the list of its files if it is the last one.
func (p *podFiles) readPiece(w http.ResponseWriter, r *http.Request) (*nodev1.UploadArtifactsRequest, string, error) {
	job, token, err := podCaller(r)
	if err != nil {
		return nil, "", err
	}
	query := r.URL.Query()
	sum, sumErr := hex.DecodeString(query.Get("sha256"))
	offset, offsetErr := strconv.ParseInt(query.Get("offset"), 10, 64)
	total, totalErr := strconv.ParseInt(query.Get("total"), 10, 64)
	length, lengthErr := strconv.Atoi(r.Header.Get(podfiles.ListHeader))
	if err := errors.Join(sumErr, offsetErr, totalErr, lengthErr); err != nil || length < 0 || length > podfiles.MaxList {
		return nil, "", invalidPod("a piece of an archive needs sha256, offset, total and the length of its list")
	}
	select {
	case p.uploads <- struct{}{}:
		defer func() { <-p.uploads }()
	case <-r.Context().Done():
		return nil, "", r.Context().Err()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(length)+podfiles.MaxPiece))
	if err != nil || len(body) < length {
		return nil, "", invalidPod("the piece is too large or incomplete")
	}
	request := &nodev1.UploadArtifactsRequest{Job: job, Offset: offset, Data: body[length:], Total: total, Sha256: sum}
	if length > 0 {
		var list archive.List
		if err := json.Unmarshal(body[:length], &list); err != nil {
			return nil, "", invalidPod("the list of files cannot be read")
		}
		request.List = &nodev1.ArtifactList{Truncated: list.Truncated, Message: list.Message}
		for _, f := range list.Files {
			request.List.Files = append(request.List.Files, &nodev1.Artifact{Path: f.Path, Size: f.Size, Mode: f.Mode})
		}
	}
	return request, token, nil
}
