package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// reviewKept is how long an answer about a token holds.
	reviewKept = time.Minute
	// mostReviews is how many answers are kept.
	mostReviews = 10_000
	// reviewsAtOnce is how many tokens the API server is asked about at a time.
	reviewsAtOnce = 8
	reviewTimeout = 5 * time.Second
)

// ErrToken is the error for a token that the API server does not accept.
var ErrToken = errors.New("the API server of Kubernetes does not accept the token")

// Reviewed is a user that the API server knows.
type Reviewed struct {
	User   string
	Groups []string
	// Administrator reports whether the user or one of the groups is among the reviewer's administrators.
	Administrator bool
}

// Reviewer asks the API server whose tokens are. Tokens are kept only as hashes.
type Reviewer struct {
	client         Client
	administrators []string
	turns          chan struct{}
	now            func() time.Time

	mutex sync.Mutex
	kept  map[[sha256.Size]byte]review
}

type review struct {
	user  Reviewed
	err   error // ErrToken or nil
	until time.Time
}

// NewReviewer returns a reviewer. Users and groups of these names are administrators.
func NewReviewer(client Client, administrators []string) *Reviewer {
	return &Reviewer{
		client: client, administrators: administrators, turns: make(chan struct{}, reviewsAtOnce), now: time.Now, kept: map[[sha256.Size]byte]review{},
	}
}

// Review returns the user of a token. The error is ErrToken if the API server does not accept the token, and another one if it
// does not answer. Answers hold for a minute.
func (r *Reviewer) Review(ctx context.Context, token string) (Reviewed, error) {
	key := sha256.Sum256([]byte(token))
	if known, there := r.find(key); there {
		return known.user, known.err
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return Reviewed{}, fmt.Errorf("too many tokens are being reviewed: %w", ctx.Err())
	}
	if known, there := r.find(key); there { // another request has asked meanwhile
		return known.user, known.err
	}
	answer, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return Reviewed{}, fmt.Errorf("the API server of Kubernetes does not review the token: %w", err)
	}
	var known review
	if !answer.Status.Authenticated || answer.Status.User.Username == "" {
		known.err = ErrToken
	} else {
		known.user = Reviewed{User: answer.Status.User.Username, Groups: answer.Status.User.Groups}
		known.user.Administrator = slices.ContainsFunc(append([]string{known.user.User}, known.user.Groups...), func(name string) bool {
			return slices.Contains(r.administrators, name)
		})
	}
	r.keep(key, known)
	return known.user, known.err
}

func (r *Reviewer) find(key [sha256.Size]byte) (review, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	known, there := r.kept[key]
	return known, there && r.now().Before(known.until)
}

func (r *Reviewer) keep(key [sha256.Size]byte, known review) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	if len(r.kept) >= mostReviews {
		for old, answer := range r.kept { // any order: what has expired
			if !now.Before(answer.until) {
				delete(r.kept, old)
			}
		}
		if len(r.kept) >= mostReviews {
			clear(r.kept)
		}
	}
	known.until = now.Add(reviewKept)
	r.kept[key] = known
}
