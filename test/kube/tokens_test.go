package kube

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/client"
)

// A user of Kubernetes is a user of Weir under the same name, in the same groups.
func TestTokensOfKubernetesAreAccepted(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "tokens-1", "4")
	ctx := context.Background()
	accounts := plane.admin.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "train"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	made, err := accounts.CreateToken(ctx, "train", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	as := func(token string) *client.Client {
		c, err := client.New(client.Options{Address: s.address, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct {
		token, user string
		superuser   bool
	}{
		{made.Status.Token, "system:serviceaccount:default:train", false},
		{adminToken, "admin", true},
	} {
		user, err := as(c.token).CurrentUser(ctx)
		if err != nil || user != c.user {
			t.Errorf("%s, %v, want %s", user, err, c.user)
		}
		err = as(c.token).Set(ctx, "//sys/@marked_by_test", 1, client.WriteOptions{})
		if (err == nil) != c.superuser {
			t.Errorf("%s writes to //sys: %v", c.user, err)
		}
	}
	if _, err := as("eyJhbGciOiJub25lIn0.e30.").CurrentUser(ctx); err == nil || !strings.Contains(err.Error(), "does not accept the token") {
		t.Errorf("a token that nobody has: %v", err)
	}
	// A list may have groups of Kubernetes.
	if _, err := s.CreatePool(ctx, "default", "", "closed", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	allow := func(subject string) {
		t.Helper()
		err := s.Set(ctx, "//sys/pool_trees/default/closed/@acl", []any{map[string]any{"action": "allow", "subjects": []any{subject}, "permissions": []any{"use"}}}, client.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Set(ctx, "//sys/pool_trees/default/closed/@inherit_acl", false, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	start := func() error {
		_, err := as(made.Status.Token).StartOperation(ctx, "vanilla", map[string]any{"pool": "closed", "tasks": map[string]any{"main": map[string]any{"job_count": 1, "command": "exit 0", "memory_limit": 64 << 20}}})
		return err
	}
	allow("system:serviceaccounts:elsewhere")
	if err := start(); err == nil {
		t.Error("a pool of others can be used")
	}
	allow("system:serviceaccounts:default")
	if err := start(); err != nil {
		t.Errorf("the pool of its namespace: %v", err)
	}
}
