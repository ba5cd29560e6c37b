package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/weirhq/weir/internal/value/imagename"
)

// Registry is how one registry is reached. Without an entry a registry is reached over TLS, without credentials.
type Registry struct {
	Host     string
	Mirror   string // a registry to ask first
	CA       string // a file with the authorities, in PEM, that issued its certificate
	AuthFile string // a file with credentials, in the form of docker's config.json
	Insecure bool   // it may be reached without TLS
}

// Account is how a user signs in to the registry of an image. The zero value is nobody: the credentials of the entry are used.
type Account struct{ Username, Password string }

// String hides the account from messages and logs.
func (a Account) String() string { return "hidden" }

// GoString hides the account from messages and logs.
func (a Account) GoString() string { return "hidden" }

// Registries are the registries that may be used. The zero value is every registry, over TLS and without credentials.
type Registries struct {
	List []Registry
	// Allowed are patterns of hosts, such as "*.example". Unset: all.
	Allowed []string

	mu         sync.Mutex
	transports map[string]http.RoundTripper
}

// Allows reports whether images may come from a registry.
func (r *Registries) Allows(host string) bool {
	if len(r.Allowed) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Allowed, func(pattern string) bool {
		matches, err := path.Match(pattern, host)
		return err == nil && matches
	})
}

// Check returns what is wrong with the files of the registries.
func (r *Registries) Check() error {
	var problems []error
	for i := range r.List {
		entry := &r.List[i]
		if _, err := entry.credentials(entry.Host); err != nil {
			problems = append(problems, fmt.Errorf("registry %s: %w", entry.Host, err))
		}
		if _, err := entry.authorities(); err != nil {
			problems = append(problems, fmt.Errorf("registry %s: %w", entry.Host, err))
		}
	}
	return errors.Join(problems...)
}

// entry returns how a host is reached.
func (r *Registries) entry(host string) *Registry {
	for i := range r.List {
		if r.List[i].Host == host {
			return &r.List[i]
		}
	}
	return &Registry{Host: host}
}

// endpoints are the hosts to ask for an image of a registry, in order.
func (r *Registries) endpoints(host string) []string {
	if mirror := r.entry(host).Mirror; mirror != "" {
		return []string{mirror, host}
	}
	return []string{host}
}

// authFile is the part of docker's config.json that has credentials.
type authFile struct {
	Auths map[string]authn.AuthConfig `json:"auths"`
}

// credentials reads the credentials for a host. The file is read each time, so that it can be replaced.
func (r *Registry) credentials(host string) (authn.Authenticator, error) {
	if r.AuthFile == "" {
		return authn.Anonymous, nil
	}
	info, err := os.Stat(r.AuthFile)
	if err != nil {
		return nil, fmt.Errorf("auth_file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("auth_file: %s must not be accessible to other users: chmod 600 %[1]s", r.AuthFile)
	}
	text, err := os.ReadFile(r.AuthFile)
	if err != nil {
		return nil, fmt.Errorf("auth_file: %w", err)
	}
	var file authFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("auth_file: %s is not docker's config.json", r.AuthFile) // the error might quote a secret
	}
	config, found := file.Auths[host]
	if !found {
		config, found = file.Auths["https://"+host]
	}
	if !found {
		return nil, fmt.Errorf("auth_file: %s has no credentials for %s", r.AuthFile, host)
	}
	return authn.FromConfig(config), nil
}

// authorities returns whom to believe that a certificate is the registry's; nil for the system's.
func (r *Registry) authorities() (*x509.CertPool, error) {
	if r.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(r.CA)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca: %s has no certificate in PEM", r.CA)
	}
	return pool, nil
}

// onlyTLS refuses requests without TLS: the library would fall back to them for addresses that look local.
type onlyTLS struct{ http.RoundTripper }

// RoundTrip sends a request.
func (t onlyTLS) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s does not speak TLS, and is not marked as insecure in images/registries", request.URL.Host)
	}
	return t.RoundTripper.RoundTrip(request)
}

// headerPatience is how long a registry may take to begin its answer.
const headerPatience = 30 * time.Second

func (r *Registries) transport(entry *Registry) (http.RoundTripper, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if made := r.transports[entry.Host]; made != nil {
		return made, nil
	}
	authorities, err := entry.authorities()
	if err != nil {
		return nil, err
	}
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	own.ResponseHeaderTimeout = headerPatience
	made := http.RoundTripper(own)
	if !entry.Insecure {
		made = onlyTLS{own}
	}
	if r.transports == nil {
		r.transports = map[string]http.RoundTripper{}
	}
	r.transports[entry.Host] = made
	return made, nil
}

// options are what the library needs to reach a host.
func (r *Registries) options(ctx context.Context, host string, as Account) ([]remote.Option, error) {
	entry := r.entry(host)
	credentials, err := entry.credentials(host)
	if as != (Account{}) {
		credentials, err = authn.FromConfig(authn.AuthConfig{Username: as.Username, Password: as.Password}), nil
	}
	if err != nil {
		return nil, &fault{Denied, err}
	}
	over, err := r.transport(entry)
	if err != nil {
		return nil, &fault{Denied, err}
	}
	// The cache repeats what fails, and knows when to stop.
	once := remote.Backoff{Steps: 1}
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuth(credentials), remote.WithTransport(over), remote.WithUserAgent("weir"),
		remote.WithRetryBackoff(once), remote.WithRetryPredicate(func(error) bool { return false }), remote.WithJobs(1),
	}, nil
}

// at returns a name at a host as the library writes it.
func (r *Registries) at(host string, n imagename.Name) (name.Reference, error) {
	var options []name.Option
	if r.entry(host).Insecure {
		options = append(options, name.Insecure)
	}
	text := host + "/" + n.Repository
	if n.Digest != "" {
		return name.NewDigest(text+"@"+n.Digest, options...)
	}
	return name.NewTag(text+":"+n.Tag, options...)
}

// ask asks the registry of an image, or its mirror, until one answers. A mirror that does not have an image, or does not
// answer, is no reason to give up. Only the registry that a user has named gets the user's password.
func ask[T any](ctx context.Context, r *Registries, n imagename.Name, as Account, question func(name.Reference, []remote.Option) (T, error)) (answer T, err error) {
	if !r.Allows(n.Registry) {
		return answer, faultf(NotAllowed, "images from %s are not allowed here (images/allowed_registries)", n.Registry)
	}
	for _, host := range r.endpoints(n.Registry) {
		var reference name.Reference
		var options []remote.Option
		if reference, err = r.at(host, n); err != nil {
			return answer, &fault{Unknown, err}
		}
		account := as
		if host != n.Registry {
			account = Account{}
		}
		if options, err = r.options(ctx, host, account); err == nil {
			if answer, err = question(reference, options); err == nil {
				return answer, nil
			}
			err = classify(host, err)
		}
		if ctx.Err() != nil {
			return answer, ctx.Err()
		}
	}
	return answer, err
}

// Resolve returns a name with the digest that its tag has now. It asks the registry even if the image is known.
func (r *Registries) Resolve(ctx context.Context, n imagename.Name, as Account) (imagename.Name, error) {
	digest, err := ask(ctx, r, n, as, func(reference name.Reference, options []remote.Option) (string, error) {
		found, err := remote.Head(reference, options...)
		if err != nil { // an answer to HEAD has no text that says why
			got, err := remote.Get(reference, options...)
			if err != nil {
				return "", err
			}
			return got.Digest.String(), nil
		}
		return found.Digest.String(), nil
	})
	if err != nil {
		return n, wrap(n, err)
	}
	n.Digest = digest
	return n, nil
}

// wrap completes an error with the name of the image.
func wrap(n imagename.Name, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	return &Error{Reason: reasonOf(err, Unavailable), Image: n.String(), Err: err}
}

// classify finds out what an error of a registry means. The text of the library has no credentials: they are in headers.
func classify(host string, err error) error {
	if reasonOf(err, "") != "" {
		return err
	}
	var refused *transport.Error
	reason := Unavailable
	switch {
	case errors.As(err, &refused):
		switch code := refused.StatusCode; {
		case code == http.StatusNotFound:
			reason = Unknown
		case code == http.StatusUnauthorized || code == http.StatusForbidden:
			reason = Denied
		}
	case isMismatch(err):
		reason = Mismatch
	}
	return &fault{reason, fmt.Errorf("registry %s: %w", host, err)}
}

// isMismatch recognises the library's complaints about content that is not what its digest says. They have no type that
// other packages could use.
func isMismatch(err error) bool {
	text := err.Error()
	return strings.Contains(text, "error verifying") || strings.Contains(text, "does not match requested digest") ||
		strings.Contains(text, "does not match digest")
}
