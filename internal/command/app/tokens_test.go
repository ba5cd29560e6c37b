package app

import (
	"net/http"
	"testing"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
)

// With the first token, metrics require a token as the API does. The key of the process, which its
// own nodes use, stays valid.
func TestTheFirstTokenClosesMetrics(t *testing.T) {
	c := newCluster(t, 1, 1)
	s := c.scheduler
	scrape := func(token string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	if got := scrape(""); got != http.StatusOK {
		t.Errorf("before there is a token: %d", got)
	}
	token := auth.NewToken([32]byte{1})
	insist(t, func() error {
		return s.Server.EditRegistry(t.Context(), server.Caller{User: "root"}, func(*server.Registry) (*store.Batch, error) {
			b := &store.Batch{}
			b.Put.Tokens = append(b.Put.Tokens, store.Token{Hash: token.Hash().String(), User: auth.Root, Name: "test"})
			return b, nil
		})
	})
	if got := scrape(""); got != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got)
	}
	if got := scrape(token.Reveal()); got != http.StatusOK {
		t.Errorf("with one: %d", got)
	}
	if got := scrape(s.Key.Reveal()); got != http.StatusOK {
		t.Errorf("with the key of the process: %d", got)
	}
}
