package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A kubelet is asked with the scheduler's token, and trusted only if its certificate can be checked.
func TestFiguresComeFromTheKubelet(t *testing.T) {
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stats/summary" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"node": {"memory": {"availableBytes": 5}}, "pods": [{"podRef": {"uid": "u"}, "containers": [{"name": "job", "cpu": {"time": "2026-11-16T12:00:00Z", "usageCoreNanoSeconds": 7}}]}]}`)
	}))
	defer kubelet.Close()
	kubelet.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	address := strings.TrimPrefix(kubelet.URL, "https://")
	ask := func(token string, insecure bool) (string, error) {
		figures, err := FiguresWith(&rest.Config{BearerToken: token}, insecure)
		if err != nil {
			t.Fatal(err)
		}
		summary, err := figures(t.Context(), address)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(*summary.Node.Memory.Available, summary.Pods[0].PodRef.UID, *summary.Pods[0].Containers[0].CPU.Total), nil
	}
	if got, err := ask("secret", true); got != "5u7" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask("secret", false); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody has signed: %v", err)
	}
	if _, err := ask("other", true); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("another token: %v", err)
	}
}

func TestAdministratorsAreToldWhenKubeletsGiveNoFigures(t *testing.T) {
	var told []string
	on := &term{Driver: &Driver{Options: Options{Log: slog.New(slog.DiscardHandler), FiguresAlert: func(message string) { told = append(told, message) }}}}
	for range 2 * missingAfter {
		on.figures("n1", http.ErrServerClosed)
	}
	if len(told) != 1 || !strings.Contains(told[0], "n1") {
		t.Errorf("%q", told)
	}
	on.figures("n1", nil)
	on.figures("n1", nil)
	if len(told) != 2 || told[1] != "" {
		t.Errorf("%q", told)
	}
}
