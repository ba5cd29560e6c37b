package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestAnswersAboutTokensHoldForAMinute(t *testing.T) {
	client, asked, away := fake.NewClientset(), 0, false
	client.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		if away {
			return true, nil, errors.New("away")
		}
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if review.Spec.Token == "good" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "anna", Groups: []string{"team", "system:masters"}}}
		}
		return true, review, nil
	})
	now := time.Unix(1000, 0)
	r := NewReviewer(client, []string{"system:masters"})
	r.now = func() time.Time { return now }
	ctx := context.Background()
	for range 3 {
		user, err := r.Review(ctx, "good")
		if err != nil || user.User != "anna" || len(user.Groups) != 2 || !user.Administrator {
			t.Fatalf("%+v, %v", user, err)
		}
		if _, err := r.Review(ctx, "bad"); !errors.Is(err, ErrToken) {
			t.Fatalf("a bad token: %v", err)
		}
	}
	if asked != 2 {
		t.Errorf("the API server was asked %d times about 2 tokens", asked)
	}
	now = now.Add(reviewKept)
	away = true
	if _, err := r.Review(ctx, "good"); err == nil || errors.Is(err, ErrToken) {
		t.Errorf("the API server is away: %v", err)
	}
	away = false
	if _, err := r.Review(ctx, "good"); err != nil || asked != 4 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}
