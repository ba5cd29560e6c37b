package client

import (
	"context"
	"io"
)

// Content is a file to send. Open is called for each attempt and must always return the same Size bytes.
type Content struct {
	Open func() (io.ReadCloser, error)
	Size int64
}

// UploadFile stores a content for operations of the caller. Their file_paths name it by its SHA-256 in hexadecimal digits, as in
// {file_name: "data", sha256: "…"}. A content that no operation uses is kept for a day.
func (c *Client) UploadFile(ctx context.Context, sha256 string, content Content) error {
	_, err := c.Bytes(ctx, Request{Command: "upload_file", Parameters: map[string]any{"sha256": sha256}, Content: &content})
	return err
}

// FindUploads returns which of these contents the caller need not upload.
func (c *Client) FindUploads(ctx context.Context, sha256 []string) (found []string, err error) {
	answer, err := c.Do(ctx, "find_uploads", map[string]any{"sha256": sha256})
	if err != nil {
		return nil, err
	}
	for _, v := range answer.Items() {
		if text, ok := v.Text(); ok {
			found = append(found, text)
		}
	}
	return found, nil
}

// JobArtifacts are the files that a job has left behind.
type JobArtifacts struct {
	JobID       string     `yson:"job_id"`
	ArchiveSize int64      `yson:"archive_size"`
	Files       []Artifact `yson:"files"`
	// Truncated reports whether files were left out; Message states why.
	Truncated bool   `yson:"truncated"`
	Message   string `yson:"message"`
}

// Artifact is a file that a job has left behind.
type Artifact struct {
	Path string `yson:"path"`
	Size int64  `yson:"size"`
	Mode int64  `yson:"mode"`
}

// ListArtifacts returns what the jobs of an operation have left behind, sorted by job. If job is not empty, it returns only that
// job's.
func (c *Client) ListArtifacts(ctx context.Context, operation, job string) ([]JobArtifacts, error) {
	parameters := map[string]any{"operation_id": operation}
	if job != "" {
		parameters["job_id"] = job
	}
	list, err := ask[struct {
		Artifacts []JobArtifacts `yson:"artifacts"`
	}](ctx, c, "list_artifacts", parameters)
	if err != nil {
		return nil, err
	}
	return list.Artifacts, nil
}

// Artifacts returns the files that a job has left behind, as a tar archive packed with zstd. The caller must close it.
func (c *Client) Artifacts(ctx context.Context, operation, job string) (io.ReadCloser, error) {
	return c.Stream(ctx, Request{Command: "get_artifacts", Parameters: map[string]any{"operation_id": operation, "job_id": job}})
}
