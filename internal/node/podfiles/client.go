package podfiles

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/node/archive"
)

// Pauses and limits of requests.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
	// silence is how long a request may make no progress.
	silence = time.Minute
	// mismatches is how often a content is fetched that turns out to be another one.
	mismatches = 3
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 64 << 10
)

// refusal is an answer after which another attempt would end the same way.
type refusal struct {
	status int
	Answer
}

func (r *refusal) Error() string {
	if r.Message == "" {
		return fmt.Sprintf("the scheduler answers %d", r.status)
	}
	return r.Message
}

// isFinal reports whether a status will be the same next time.
func isFinal(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout && status != http.StatusMisdirectedRequest
}

// caller calls the scheduler for one job.
type caller struct {
	plan   *Plan
	client *http.Client
	base   string // the configured address, or that of the scheduler that is said to lead
}

func newCaller(p *Plan) (*caller, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: silence, ForceAttemptHTTP2: true}
	if p.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(p.CA)) {
			return nil, errors.New("the certificates of the scheduler cannot be read")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &caller{plan: p, client: client, base: p.URL}, nil
}

// persist repeats a call until it succeeds, the scheduler refuses it, or ctx is cancelled.
func (c *caller) persist(ctx context.Context, call func() error) error {
	for pause := cmp.Or(c.plan.pause, firstPause); ; pause = min(2*pause, mostPause) {
		err := call()
		var final *refusal
		if err == nil || errors.As(err, &final) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		c.base = next(c.plan.URL, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// notLeading is the answer of a scheduler that does not lead.
type notLeading struct{ leader string }

func (n *notLeading) Error() string { return "the scheduler does not lead" }

// next returns which address to call after a call that failed.
func next(configured string, err error) string {
	var standby *notLeading
	if errors.As(err, &standby) && standby.leader != "" {
		scheme, _, _ := strings.Cut(configured, "://")
		return scheme + "://" + standby.leader
	}
	return configured
}

// do sends a request and returns an answer with status 200 or 206.
func (c *caller) do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+c.plan.Token)
	response, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusPartialContent {
		return response, nil
	}
	defer response.Body.Close()
	if leader := response.Header.Get(LeaderHeader); leader != "" || response.StatusCode == http.StatusMisdirectedRequest {
		return nil, &notLeading{leader}
	}
	why := &refusal{status: response.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if json.Unmarshal(text, &why.Answer) != nil {
		why.Message = strings.TrimSpace(string(text))
	}
	if isFinal(response.StatusCode) {
		return nil, why
	}
	return nil, fmt.Errorf("the scheduler answers %d: %s", why.status, why.Message)
}

// fetch writes a content to a file, which it leaves at its end.
func (c *caller) fetch(ctx context.Context, content *Content, file *os.File) error {
	for attempt := 1; ; attempt++ {
		sum, err := c.fetchOnce(ctx, content, file)
		if err != nil {
			return err
		}
		if sum == content.SHA256 {
			return nil
		}
		if attempt == mismatches {
			return fmt.Errorf("the scheduler sends other bytes than those of the content %s", content.SHA256)
		}
	}
}

func (c *caller) fetchOnce(ctx context.Context, content *Content, file *os.File) (string, error) {
	if err := file.Truncate(0); err != nil {
		return "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	meter := sha256.New()
	size := int64(0)
	for size < content.Size {
		err := c.persist(ctx, func() error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+fmt.Sprintf(ContentPath, c.plan.Job, content.SHA256), nil)
			if err != nil {
				return &refusal{Answer: Answer{Message: err.Error()}}
			}
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-", size))
			response, err := c.do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			local := &writeError{to: io.MultiWriter(file, meter)}
			n, err := io.Copy(local, io.LimitReader(response.Body, content.Size-size))
			size += n
			if local.err != nil {
				return &refusal{Answer: Answer{Message: local.err.Error()}}
			}
			if err == nil && n == 0 {
				err = errors.New("the scheduler sent nothing")
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(meter.Sum(nil)), nil
}

// writeError tells errors of writing from errors of reading.
type writeError struct {
	to  io.Writer
	err error
}

func (w *writeError) Write(data []byte) (int, error) {
	n, err := w.to.Write(data)
	if err != nil {
		w.err = err
	}
	return n, err
}

// Prepare brings the files of the plan into the sandbox: first those of an earlier attempt, then the job's own.
func (p *Plan) Prepare(ctx context.Context) error {
	c, err := newCaller(p)
	if err != nil {
		return err
	}
	if p.Restore != nil {
		if err := p.restore(ctx, c); err != nil {
			return fmt.Errorf("files of an earlier attempt: %w", err)
		}
	}
	root, err := os.OpenRoot(p.Sandbox)
	if err != nil {
		return err
	}
	defer root.Close()
	for i := range p.Files {
		if err := p.place(ctx, c, root, &p.Files[i]); err != nil {
			return fmt.Errorf("file %s: %w", p.Files[i].Path, err)
		}
	}
	return nil
}

func (p *Plan) restore(ctx context.Context, c *caller) error {
	if p.Artifacts == nil {
		return errors.New("the job keeps no files")
	}
	file, err := p.scratch()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := c.fetch(ctx, p.Restore, file); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return archive.Unpack(ctx, file, p.Sandbox, &p.Artifacts.Rules)
}

// scratch makes a file without a name on the file system of the sandbox.
func (p *Plan) scratch() (*os.File, error) {
	file, err := os.CreateTemp(p.Sandbox, ".weir-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unpack makes a directory of an archive. Files of an earlier attempt stay.
func (p *Plan) unpack(ctx context.Context, c *caller, root *os.Root, f *File) error {
	file, err := p.scratch()
	if err != nil {
		return err
	}
	defer file.Close()
	if f.Content != nil {
		err = c.fetch(ctx, f.Content, file)
	} else {
		err = copyMounted(filepath.Join(p.Mounted, f.Mounted), file)
	}
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = archive.UnpackDirectory(ctx, file, root, f.Path, archive.MaxDirectorySize)
	return err
}

// place brings one file into the sandbox.
func (p *Plan) place(ctx context.Context, c *caller, root *os.Root, f *File) error {
	if !filepath.IsLocal(f.Path) {
		return errors.New("it is not inside the sandbox")
	}
	if f.Unpack {
		return p.unpack(ctx, c, root, f)
	}
	if err := root.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	if err := root.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier attempt
		return err
	}
	file, err := root.OpenFile(f.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if f.Content != nil {
		err = c.fetch(ctx, f.Content, file)
	} else {
		err = copyMounted(filepath.Join(p.Mounted, f.Mounted), file)
	}
	return errors.Join(err, file.Chmod(f.mode()), file.Close())
}

// mode returns the permissions of a file, those of a node's read-only file unless the job has its own copy.
func (f *File) mode() os.FileMode {
	mode := os.FileMode(0o444)
	if f.Executable {
		mode = 0o555
	}
	if f.Copy {
		mode |= 0o200
	}
	return mode
}

func copyMounted(name string, to *os.File) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(to, from)
	return err
}

// Keeps reports whether the files of a job are kept.
func (p *Plan) Keeps(completed, asked bool) bool {
	return p.Artifacts != nil && (completed || !p.Artifacts.OnlyCompleted && (!asked || p.Artifacts.OfAborted))
}

// Keep packs the files that the job leaves behind and uploads them.
func (p *Plan) Keep(ctx context.Context) *Kept {
	c, err := newCaller(p)
	if err != nil {
		return &Kept{Failure: archive.Unreadable, Message: err.Error()}
	}
	file, err := p.scratch()
	if err != nil {
		return &Kept{Failure: archive.Cause(err), Message: err.Error()}
	}
	defer file.Close()
	shown := map[string]bool{}
	for i := range p.Files {
		if f := &p.Files[i]; !f.Copy && !f.Unpack {
			shown[filepath.Clean(f.Path)] = true
		}
	}
	list, err := archive.Pack(p.Sandbox, file, &p.Artifacts.Rules, nil, shown)
	if err != nil {
		return &Kept{Failure: archive.Cause(err), Message: err.Error()}
	}
	kept := &Kept{Count: len(list.Files), Truncated: list.Truncated, Message: list.Message}
	if len(list.Files) == 0 {
		return kept
	}
	if err := c.upload(ctx, file, list); err != nil {
		failure := archive.Refused
		var refused *refusal
		if errors.As(err, &refused) && refused.Reason != "" {
			failure = refused.Reason
		}
		return &Kept{Failure: failure, Message: err.Error()}
	}
	return kept
}

// upload sends an archive, piece by piece.
func (c *caller) upload(ctx context.Context, file *os.File, list *archive.List) error {
	meter := sha256.New()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	total, err := io.Copy(meter, file)
	if err != nil {
		return err
	}
	description, err := json.Marshal(list)
	if err != nil {
		return err
	}
	sum := hex.EncodeToString(meter.Sum(nil))
	buffer := make([]byte, min(MaxPiece, total))
	for offset := int64(0); offset < total; {
		piece := buffer[:min(int64(len(buffer)), total-offset)]
		if _, err := file.ReadAt(piece, offset); err != nil {
			return err
		}
		var head []byte
		if offset+int64(len(piece)) == total {
			head = description
		}
		err := c.persist(ctx, func() error {
			next, err := c.send(ctx, offset, total, sum, head, piece)
			if err == nil {
				offset = min(next, total)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends one piece and returns where the next one begins.
func (c *caller) send(ctx context.Context, offset, total int64, sum string, head, piece []byte) (next int64, err error) {
	address := c.base + fmt.Sprintf(ArtifactsPath, c.plan.Job) + fmt.Sprintf("?offset=%d&total=%d&sha256=%s", offset, total, sum)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address, io.MultiReader(bytes.NewReader(head), bytes.NewReader(piece)))
	if err != nil {
		return 0, &refusal{Answer: Answer{Message: err.Error()}}
	}
	request.ContentLength = int64(len(head) + len(piece))
	request.Header.Set(ListHeader, strconv.Itoa(len(head)))
	response, err := c.do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer Answer
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err != nil {
		return 0, err
	}
	return answer.Next, nil
}
