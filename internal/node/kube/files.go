package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/picture"
)

// fetcher returns a piece of a file that a job needs.
type fetcher func(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error)

// createFiles stores the small files of a task. A ConfigMap of this name holds the same: its name comes from its contents.
func (w *writer) createFiles(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	isFixed := true
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: write.Name, Namespace: write.Namespace, Labels: map[string]string{picture.LabelFiles: "", picture.LabelOperation: write.Files.Operation},
		},
		Immutable: &isFixed, BinaryData: map[string][]byte{},
	}
	for i := range write.Files.Contents {
		f := &write.Files.Contents[i]
		data, err := w.content(ctx, write, f)
		var refused *nodeproto.RefusedError
		switch {
		case errors.As(err, &refused) && refused.Reason != nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD:
			return &picture.Outcome{Kind: picture.Refused, Message: err.Error()}, nil
		case err != nil:
			return &picture.Outcome{Kind: picture.Temporary, Message: err.Error()}, nil
		}
		object.BinaryData[f.Key] = data
	}
	_, err := w.client.CoreV1().ConfigMaps(write.Namespace).Create(ctx, object, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return &picture.Outcome{Kind: picture.Done}, nil
	case apierrors.IsNotFound(err): // the namespace
		return &picture.Outcome{Kind: picture.Refused, Message: err.Error()}, err
	}
	return outcomeOf(err), err
}

// content returns the bytes of a file.
func (w *writer) content(ctx context.Context, write *picture.Write, f *picture.MountedFile) ([]byte, error) {
	if f.Content == nil {
		return f.Data, nil
	}
	var data []byte
	for size := f.Content.GetSize(); int64(len(data)) < size; {
		piece, err := w.fetch(ctx, &nodev1.FetchContentRequest{
			NodeName: write.Node, Incarnation: write.Incarnation, Job: write.Job, Sha256: f.Content.GetSha256(), Offset: int64(len(data)), Length: size,
		})
		if err != nil {
			return nil, err
		}
		if len(piece.GetData()) == 0 {
			return nil, fmt.Errorf("the scheduler has only %d of %d bytes", len(data), size)
		}
		data = append(data, piece.GetData()...)
	}
	return data, nil
}

// findFiles finds the ConfigMaps of earlier terms, of which those are removed that nobody needs.
func (t *term) findFiles(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := t.Client.CoreV1().ConfigMaps(t.Picture.Namespace).List(ctx, metav1.ListOptions{LabelSelector: picture.LabelFiles})
		if err == nil {
			for i := range list.Items {
				name := list.Items[i].Name
				t.post(func(time.Time) { t.picture.FilesSeen(name) })
			}
			return
		}
		t.Log.Debug("the files of earlier jobs cannot be listed", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(probePeriod):
		}
	}
}
