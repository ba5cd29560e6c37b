package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/weirhq/weir/internal/node/picture"
)

const (
	// measuring is how many kubelets are asked at a time, measureTimeout how long one may take.
	measuring      = 64
	measureTimeout = 5 * time.Second
	// maxSummary bounds what a kubelet may answer.
	maxSummary = 64 << 20
	// missingAfter is how many readings in a row may fail before administrators are told.
	missingAfter = 6
)

// Figures asks a kubelet about its node and pods.
type Figures func(ctx context.Context, address string) (*picture.Summary, error)

// FiguresWith returns how kubelets of a cluster are asked: straight, with the scheduler's own credentials, for which the
// permission nodes/stats is enough. Their certificates are checked against those of the cluster unless insecure is set.
func FiguresWith(config *rest.Config, insecure bool) (Figures, error) {
	own := rest.CopyConfig(config)
	own.TLSClientConfig.ServerName = ""
	if insecure {
		t := own.TLSClientConfig
		own.TLSClientConfig = rest.TLSClientConfig{Insecure: true, CertFile: t.CertFile, KeyFile: t.KeyFile, CertData: t.CertData, KeyData: t.KeyData}
	}
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, address string) (*picture.Summary, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/stats/summary", nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
			return nil, fmt.Errorf("the kubelet answers %s: %s", response.Status, text)
		}
		summary := &picture.Summary{}
		return summary, json.NewDecoder(io.LimitReader(response.Body, maxSummary)).Decode(summary)
	}, nil
}

// measure asks a kubelet for figures.
func (t *term) measure(m picture.Measure) {
	select {
	case t.measuring <- struct{}{}:
		defer func() { <-t.measuring }()
	default:
		return // the next reading is not far
	}
	ctx, cancel := context.WithTimeout(t.ctx, measureTimeout)
	defer cancel()
	summary, err := t.Figures(ctx, m.Address)
	if t.ctx.Err() != nil {
		return
	}
	if err == nil {
		t.post(func(now time.Time) { t.picture.Measured(now, m.Node, summary) })
	}
	t.post(func(time.Time) { t.figures(m.Node, err) })
}

// figures tells administrators when kubelets give no figures, and when they do again.
func (t *term) figures(node string, err error) {
	if err == nil {
		if t.missing >= missingAfter {
			t.FiguresAlert("")
		}
		t.missing = 0
		return
	}
	t.Log.Debug("a kubelet gives no figures", "node", node, "error", err)
	if t.missing++; t.missing == missingAfter {
		t.FiguresAlert(fmt.Sprintf("kubelets give no figures, so memory in use is not known and CPU is not reclaimed; last node %s: %v", node, err))
	}
}

// resize changes the CPU that a running pod requests.
func (w *writer) resize(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	patch := picture.ResizePatch(write.UID, write.CPU)
	_, err := w.client.CoreV1().Pods(write.Namespace).Patch(ctx, write.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
	return outcomeOf(err), err
}
