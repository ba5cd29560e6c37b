package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The cluster for the measurements.
const (
	figurePools      = 10_000
	figureOperations = 50_000
)

// TestFigures measures the page with a cluster of 10,000 pools and 50,000 operations if it is enabled.
// It takes minutes.
func TestFigures(t *testing.T) {
	if os.Getenv("WEIR_FIGURES") == "" {
		t.Skip("WEIR_FIGURES is not set")
	}
	with := needTools(t)
	settings := filepath.Join(t.TempDir(), "weir.yaml")
	text := "scheduler: {max_operation_count: 60000, fair_share_update_period: 2s}\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	host := startWeir(t, with, "up", "--port", "0", "--nodes", "1", "--config", settings)
	began := time.Now()
	ask(t, host, "apply_pools", map[string]any{"pool_tree": "default", "document": manyPools()})
	t.Logf("%d pools were applied in %v", figurePools, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	startMany(t, host, figureOperations)
	t.Logf("%d operations were started in %v", figureOperations, time.Since(began).Round(time.Second))
	tellSizes(t)
	browse(t, with, host, "figures.mjs")
}

// manyPools returns a tree of 100 pools with 99 subpools each.
func manyPools() map[string]any {
	roots := map[string]any{}
	for i := range 100 {
		inner := map[string]any{}
		for j := range figurePools/100 - 1 {
			inner[fmt.Sprintf("team-%02d-%02d", i, j)] = map[string]any{"max_running_operation_count": 1, "max_operation_count": 1000, "weight": j%7 + 1}
		}
		roots[fmt.Sprintf("department-%02d", i)] = map[string]any{"max_operation_count": 5000, "max_running_operation_count": 5000, "pools": inner}
	}
	return map[string]any{"max_operation_count": 60_000, "max_running_operation_count": 60_000, "pools": roots}
}

func startMany(t *testing.T, host string, count int) {
	t.Helper()
	var next, refused atomic.Int64
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(count) && refused.Load() < 10; i = next.Add(1) - 1 {
				pool := fmt.Sprintf("team-%02d-%02d", i%100, i/100%(figurePools/100-1))
				spec := map[string]any{"pool": pool, "title": fmt.Sprintf("operation %d of %s", i, pool), "tasks": map[string]any{
					"t": map[string]any{"job_count": 3, "command": "sleep 3600", "cpu_limit": 1, "memory_limit": 64 << 20},
				}}
				_, err := tryAsk(host, "start_operation", map[string]any{"operation_type": "vanilla", "spec": spec})
				for tries := 0; errors.Is(err, errBusy) && tries < 100; tries++ {
					<-time.After(time.Second)
					_, err = tryAsk(host, "start_operation", map[string]any{"operation_type": "vanilla", "spec": spec})
				}
				if err != nil {
					refused.Add(1)
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func ask(t *testing.T, host, command string, parameters any) {
	t.Helper()
	if _, err := tryAsk(host, command, parameters); err != nil {
		t.Fatal(err)
	}
}

// errBusy is an error after which clients retry.
var errBusy = errors.New("the scheduler is busy")

func tryAsk(host, command string, parameters any) (string, error) {
	body, err := json.Marshal(parameters)
	if err != nil {
		return "", err
	}
	answer, err := http.Post("http://"+host+"/api/v4/"+command, "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		return "", err
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return "", fmt.Errorf("%w: %.200s", errBusy, text.String())
	default:
		return "", fmt.Errorf("%s: %s: %.500s", command, answer.Status, text.String())
	}
	return text.String(), nil
}

// tellSizes logs the sizes of the page's files, plain and compressed.
func tellSizes(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("../../internal/control/web/dist/assets/*")
	if err != nil {
		t.Fatal(err)
	}
	plain, packed := map[string]int{}, map[string]int{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(data); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		kind := strings.TrimPrefix(filepath.Ext(name), ".")
		plain[kind] += len(data)
		packed[kind] += out.Len()
	}
	t.Logf("script: %d bytes, %d compressed; styles: %d bytes, %d compressed", plain["js"], packed["js"], plain["css"], packed["css"])
}
