package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/imagename"
)

// fakeRegistry is a registry on the loopback that can be told to misbehave.
type fakeRegistry struct {
	host     string
	handle   http.Handler
	broken   atomic.Int64 // how many requests it will refuse
	password string
	blobs    atomic.Int64 // how many blobs it has sent
	tamper   func(path string, body []byte) []byte
	seen     func(*http.Request)
}

func newRegistry(t testing.TB) *fakeRegistry {
	t.Helper()
	r := &fakeRegistry{handle: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// ServeHTTP answers a request.
func (r *fakeRegistry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if r.broken.Load() > 0 {
		r.broken.Add(-1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.seen != nil {
		r.seen(request)
	}
	if user, password, _ := request.BasicAuth(); r.password != "" && (user != "node" || password != r.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if request.Method == http.MethodGet && strings.Contains(request.URL.Path, "/blobs/") {
		r.blobs.Add(1)
	}
	if r.tamper == nil || request.Method != http.MethodGet {
		r.handle.ServeHTTP(w, request)
		return
	}
	recorded := httptest.NewRecorder()
	r.handle.ServeHTTP(recorded, request)
	for key, values := range recorded.Header() {
		if key != "Content-Length" {
			w.Header()[key] = values
		}
	}
	w.WriteHeader(recorded.Code)
	_, _ = w.Write(r.tamper(request.URL.Path, recorded.Body.Bytes())) // the client may have left
}

// makeImage makes an image of layers, the base first.
func makeImage(t testing.TB, change func(*v1.ConfigFile), layers ...[]byte) v1.Image {
	t.Helper()
	img := empty.Image
	for _, content := range layers {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
		if err == nil {
			img, err = mutate.AppendLayers(img, l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = platform.OS, platform.Architecture
	config.Config.Env = []string{"PATH=/opt/bin", "MODEL=small"}
	config.Config.WorkingDir = "/work"
	if change != nil {
		change(config)
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

func baseLayer(t testing.TB) []byte {
	return archiveOf(t, program("bin/sh", "shell"), file("etc/release", "base"))
}

// push puts an image into the registry and returns its name with the digest.
func (r *fakeRegistry) push(t testing.TB, repository string, img v1.Image) imagename.Name {
	t.Helper()
	tag, err := name.NewTag(r.host+"/"+repository+":v1", name.Insecure)
	if err == nil {
		err = remote.Write(tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return imagename.Name{Registry: r.host, Repository: repository, Tag: "v1", Digest: digest.String()}
}

func openCache(t testing.TB, change func(*Options)) *Cache {
	t.Helper()
	needRootFor(t)
	o := DefaultOptions()
	o.Directory = filepath.Join(t.TempDir(), "images")
	o.Log = slog.New(slog.DiscardHandler)
	o.Pause, o.MaxPause, o.Attempts = time.Millisecond, time.Millisecond, 3
	o.Registries = &Registries{}
	if change != nil {
		change(&o)
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func needRootFor(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: layers are not unpacked")
	}
}

// with lets a cache use a registry.
func with(r *fakeRegistry) func(*Options) {
	return func(o *Options) {
		o.Registries.List = append(o.Registries.List, Registry{Host: r.host, Insecure: true})
	}
}

func reasonFrom(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// left lists what a cache has on disk.
func left(t testing.TB, c *Cache) (names []string) {
	t.Helper()
	for _, dir := range []string{imagesDir, layersDir} {
		entries, err := os.ReadDir(filepath.Join(c.Directory, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, dir+"/"+e.Name())
		}
	}
	return names
}

func TestAnImageIsFetchedOnceAndItsLayersAreShared(t *testing.T) {
	r := newRegistry(t)
	base := baseLayer(t)
	first := r.push(t, "first", makeImage(t, nil, base, archiveOf(t, file("work/a", "1"))))
	second := r.push(t, "second", makeImage(t, nil, base, archiveOf(t, file("work/b", "2"))))
	c := openCache(t, with(r))
	img, err := c.Prepare(t.Context(), first, "job-1")
	if err != nil {
		t.Fatal(err)
	}
	if img.Shell != "/bin/sh" || img.Directory != "/work" || !slices.Equal(img.Environment, []string{"PATH=/opt/bin", "MODEL=small"}) || len(img.Layers) != 2 {
		t.Errorf("%+v", img)
	}
	if text, err := os.ReadFile(filepath.Join(c.Directory, img.Layers[0], "work/a")); err != nil || string(text) != "1" {
		t.Errorf("the uppermost layer has %q, %v", text, err)
	}
	before := r.blobs.Load()
	if _, err := c.Prepare(t.Context(), first, "job-2"); err != nil || r.blobs.Load() != before {
		t.Errorf("a cached image asks the registry %d times: %v", r.blobs.Load()-before, err)
	}
	if _, err := c.Prepare(t.Context(), second, "job-3"); err != nil || r.blobs.Load() != before+2 { // configuration and one layer
		t.Errorf("the second image fetched %d blobs: %v", r.blobs.Load()-before, err)
	}
	r.broken.Store(1 << 30)
	again, err := Open(c.Options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Prepare(t.Context(), first, "job-4"); err != nil {
		t.Errorf("after a restart, with the registry away: %v", err)
	}
	list := again.List()
	if len(list) != 2 || list[0].Name != first.Tagged().String() || list[0].Jobs != 1 || list[1].Jobs != 0 || list[0].Size != 10 {
		t.Errorf("%+v", list)
	}
}

func TestJobsWaitForOneFetch(t *testing.T) {
	r := newRegistry(t)
	n := r.push(t, "busy", makeImage(t, nil, baseLayer(t)))
	c := openCache(t, with(r))
	before := r.blobs.Load()
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			if _, err := c.Prepare(t.Context(), n, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if fetched := r.blobs.Load() - before; fetched != 2 {
		t.Errorf("%d blobs were fetched, want a configuration and a layer", fetched)
	}
	if len(c.busy) != 0 || len(c.pinned) != 0 {
		t.Errorf("left over: %v, %v", c.busy, c.pinned)
	}
}

func TestTagsAreResolvedAndMoveLater(t *testing.T) {
	r := newRegistry(t)
	old := r.push(t, "moving", makeImage(t, nil, baseLayer(t)))
	registries := &Registries{List: []Registry{{Host: r.host, Insecure: true}}}
	got, err := registries.Resolve(t.Context(), old.Tagged(), Account{})
	if err != nil || got != old {
		t.Fatalf("%+v, %v; want %+v", got, err, old)
	}
	r.push(t, "moving", makeImage(t, nil, baseLayer(t), archiveOf(t, file("new", ""))))
	if again, err := registries.Resolve(t.Context(), old.Tagged(), Account{}); err != nil || again == old {
		t.Errorf("the tag moved: %+v, %v", again, err)
	}
	if c := openCache(t, with(r)); true {
		if img, err := c.Prepare(t.Context(), old, "job"); err != nil || len(img.Layers) != 1 {
			t.Errorf("the digest is the old image: %+v, %v", img, err)
		}
	}
}

func TestWhatIsWrongWithAnImageIsNamed(t *testing.T) {
	r := newRegistry(t)
	base := baseLayer(t)
	good := r.push(t, "good", makeImage(t, nil, base))
	missing := good
	missing.Digest = "sha256:" + strings.Repeat("0", 64)
	foreign := r.push(t, "foreign", makeImage(t, func(c *v1.ConfigFile) { c.Architecture = "s390x" }, base))
	index, err := name.NewTag(r.host+"/index:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	many := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: makeImage(t, nil, base), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}},
	})
	if err := remote.WriteIndex(index, many); err != nil {
		t.Fatal(err)
	}
	other, err := many.Digest()
	if err != nil {
		t.Fatal(err)
	}
	lying := makeImage(t, func(c *v1.ConfigFile) { c.RootFS.DiffIDs[0].Hex = strings.Repeat("1", 64) }, base)
	for says, c := range map[string]struct {
		name   imagename.Name
		reason Reason
	}{
		"MANIFEST_UNKNOWN":       {missing, Unknown},
		"has no registry":        {imagename.Name{Repository: "train", Digest: missing.Digest}, Unknown},
		"it is for linux/s390x,": {foreign, WrongPlatform},
		"and this node is":       {imagename.Name{Registry: r.host, Repository: "index", Digest: other.String()}, WrongPlatform},
		"the diff id sha256:":    {r.push(t, "lying", lying), Mismatch},
		"neither /bin/bash nor":  {r.push(t, "empty", makeImage(t, nil, archiveOf(t, file("x", "")))), Invalid},
		"leads out of the image": {r.push(t, "escape", makeImage(t, nil, archiveOf(t, file("../../x", "")))), Invalid},
		"it is a device":         {r.push(t, "device", makeImage(t, nil, archiveOf(t, entry{name: "dev/sda", kind: '4'}))), Invalid},
		"no tar archive":         {r.push(t, "text", makeImage(t, nil, bytes.Repeat([]byte("text "), 300))), Invalid},
		"more than 100000 bytes": {r.push(t, "bomb", makeImage(t, nil, archiveOf(t, file("zeros", strings.Repeat("\x00", 1<<20))))), TooLarge},
	} {
		cache := openCache(t, func(o *Options) { with(r)(o); o.Largest.Size = 100_000 })
		_, err := cache.Prepare(t.Context(), c.name, "job")
		if reasonFrom(err) != c.reason || !strings.Contains(err.Error(), says) || !c.reason.IsImages() {
			t.Errorf("%v; want %s: %s", err, c.reason, says)
		}
		if names := left(t, cache); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, imagesDir) || strings.Contains(n, "/.") }) {
			t.Errorf("%s: left in the cache: %v", says, names)
		}
	}
}

func TestContentThatIsNotItsDigestIsRefused(t *testing.T) {
	r := newRegistry(t)
	n := r.push(t, "tampered", makeImage(t, nil, baseLayer(t)))
	for part, tamper := range map[string]func(path string, body []byte) []byte{
		"manifest": func(path string, body []byte) []byte {
			if strings.Contains(path, "/manifests/") {
				return append(body, ' ')
			}
			return body
		},
		"blob": func(path string, body []byte) []byte {
			if strings.Contains(path, "/blobs/") && len(body) > 10 {
				body = bytes.Clone(body)
				body[len(body)-5]++
			}
			return body
		},
	} {
		r.tamper = tamper
		c := openCache(t, with(r))
		if _, err := c.Prepare(t.Context(), n, "job"); reasonFrom(err) != Mismatch || len(left(t, c)) != 0 {
			t.Errorf("%s: %v; left %v", part, err, left(t, c))
		}
	}
	r.tamper = nil
}

func TestARegistryThatIsAwayIsAskedAgain(t *testing.T) {
	r := newRegistry(t)
	n := r.push(t, "flaky", makeImage(t, nil, baseLayer(t)))
	c := openCache(t, with(r))
	r.broken.Store(2)
	if _, err := c.Prepare(t.Context(), n, "job"); err != nil {
		t.Errorf("after two failures: %v", err)
	}
	c = openCache(t, with(r))
	r.broken.Store(1 << 30)
	_, err := c.Prepare(t.Context(), n, "job")
	if reasonFrom(err) != Unavailable || Unavailable.IsImages() || len(left(t, c)) != 0 {
		t.Errorf("%v; left %v", err, left(t, c))
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.Attempts, c.Pause = 1<<30, time.Hour
	c.Log = slog.New(cancelHandler{slog.DiscardHandler, cancel})
	if _, err := c.Prepare(ctx, n, "job"); !errors.Is(err, context.Canceled) {
		t.Errorf("a job that is not wanted any more: %v", err)
	}
}

// cancelHandler cancels when something is logged.
type cancelHandler struct {
	slog.Handler
	cancel func()
}

func (h cancelHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h cancelHandler) Handle(context.Context, slog.Record) error {
	h.cancel()
	return nil
}

func TestAMirrorIsAskedFirst(t *testing.T) {
	origin, mirror := newRegistry(t), newRegistry(t)
	img := makeImage(t, nil, baseLayer(t))
	n := origin.push(t, "mirrored", img)
	mirror.push(t, "mirrored", img)
	other := origin.push(t, "other", makeImage(t, nil, baseLayer(t), archiveOf(t, file("x", ""))))
	c := openCache(t, func(o *Options) {
		o.Registries.List = []Registry{{Host: origin.host, Mirror: mirror.host, Insecure: true}, {Host: mirror.host, Insecure: true}}
	})
	before := origin.blobs.Load()
	if _, err := c.Prepare(t.Context(), n, "1"); err != nil || origin.blobs.Load() != before {
		t.Errorf("%v; the registry itself was asked", err)
	}
	if _, err := c.Prepare(t.Context(), other, "2"); err != nil {
		t.Errorf("an image that the mirror does not have: %v", err)
	}
}

// The password of a user goes to the registry that the user has named, and neither to its mirror nor into a file.
func TestAUsersPasswordGoesOnlyToTheRegistry(t *testing.T) {
	origin, mirror := newRegistry(t), newRegistry(t)
	n := origin.push(t, "private", makeImage(t, nil, baseLayer(t)))
	origin.password, mirror.password = "do-not-print", "of-the-operator"
	var told []string
	mirror.seen = func(r *http.Request) { told = append(told, r.Header.Get("Authorization")) }
	c := openCache(t, func(o *Options) {
		o.Registries.List = []Registry{{Host: origin.host, Mirror: mirror.host, Insecure: true}, {Host: mirror.host, Insecure: true}}
	})
	for _, as := range []Account{{}, {"node", "wrong-secret"}, {"eve", "do-not-print"}} {
		if _, err := c.PrepareAs(t.Context(), n, as, "job"); reasonFrom(err) != Denied || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "do-not-print") {
			t.Errorf("%v", err)
		}
		if _, err := c.Registries.Resolve(t.Context(), n.Tagged(), as); reasonFrom(err) != Denied {
			t.Errorf("%v", err)
		}
	}
	as := Account{"node", "do-not-print"}
	if found, err := c.Registries.Resolve(t.Context(), n.Tagged(), as); err != nil || found != n {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := c.PrepareAs(t.Context(), n, as, "job"); err != nil {
		t.Error(err)
	}
	for _, header := range told {
		if header != "" {
			t.Errorf("the mirror was told %q", header)
		}
	}
	if len(told) == 0 || strings.Contains(fmt.Sprintf("%v %+v %#v", as, as, as), "do-not-print") {
		t.Errorf("the mirror was asked %d times", len(told))
	}
}

func TestCredentialsComeFromAFileThatNobodyElseReads(t *testing.T) {
	r := newRegistry(t)
	n := r.push(t, "private", makeImage(t, nil, baseLayer(t)))
	r.password = "do-not-print"
	auth := filepath.Join(t.TempDir(), "auth.json")
	write := func(password string, mode os.FileMode) {
		text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, r.host, base64.StdEncoding.EncodeToString([]byte("node:"+password)))
		if err := errors.Join(os.WriteFile(auth, []byte(text), mode), os.Chmod(auth, mode)); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *Cache {
		return openCache(t, func(o *Options) { o.Registries.List = []Registry{{Host: r.host, Insecure: true, AuthFile: auth}} })
	}
	write("do-not-print", 0o600)
	if _, err := open().Prepare(t.Context(), n, "job"); err != nil {
		t.Error(err)
	}
	var problems []error
	_, err := openCache(t, with(r)).Prepare(t.Context(), n, "job")
	problems = append(problems, err)
	write("wrong-secret", 0o600)
	_, err = open().Prepare(t.Context(), n, "job")
	problems = append(problems, err)
	write("do-not-print", 0o644)
	_, err = open().Prepare(t.Context(), n, "job")
	problems = append(problems, err)
	if err := open().Registries.Check(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
	for _, err := range problems {
		if reasonFrom(err) != Denied || strings.Contains(err.Error(), "do-not-print") || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%v", err)
		}
	}
}

func TestOnlyAllowedRegistriesAreAskedAndOnlyOverTLS(t *testing.T) {
	r := newRegistry(t)
	n := r.push(t, "x", makeImage(t, nil, baseLayer(t)))
	c := openCache(t, func(o *Options) { with(r)(o); o.Registries.Allowed = []string{"*.example", "registry.example:5000"} })
	if _, err := c.Prepare(t.Context(), n, "job"); reasonFrom(err) != NotAllowed {
		t.Errorf("%v", err)
	}
	for host, allowed := range map[string]bool{"a.example": true, "registry.example:5000": true, "a.b.example": true, "example": false, "a.example:1": false} {
		if c.Registries.Allows(host) != allowed {
			t.Errorf("%s: %v", host, !allowed)
		}
	}
	if _, err := openCache(t, nil).Prepare(t.Context(), n, "job"); reasonFrom(err) != Unavailable {
		t.Errorf("a registry without TLS that is not marked so: %v", err)
	}
}

func TestImagesOfTheNodeNeedNoRegistry(t *testing.T) {
	preload := t.TempDir()
	img := makeImage(t, nil, baseLayer(t))
	tag, err := name.NewTag("team/train:v2")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(filepath.Join(preload, "train.tar"), tag, img); err != nil {
		t.Fatal(err)
	}
	path, err := layout.Write(filepath.Join(preload, "tools"), empty.Index)
	if err == nil {
		err = path.AppendImage(makeImage(t, nil, baseLayer(t), archiveOf(t, file("x", ""))), layout.WithAnnotations(map[string]string{refName: "v3"}))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(preload, "broken.tar"), []byte("nothing"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := openCache(t, func(o *Options) { o.Preload = []string{preload} })
	list := c.List()
	if len(list) != 2 || list[0].Name != "team/train:v2" || list[1].Name != "tools:v3" {
		t.Fatalf("%+v", list)
	}
	for _, info := range list {
		n, err := imagename.Parse(info.Name + "@" + info.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if img, err := c.Prepare(t.Context(), n, info.Name); err != nil || img.Shell != "/bin/sh" {
			t.Errorf("%s: %+v, %v", info.Name, img, err)
		}
	}
	if list := c.List(); len(list) != 2 || list[0].Size == 0 {
		t.Errorf("%+v", list)
	}
}

func TestADamagedLayerIsFetchedAgain(t *testing.T) {
	r := newRegistry(t)
	n := r.push(t, "rotten", makeImage(t, nil, baseLayer(t), archiveOf(t, file("work/a", "content"))))
	for what, damage := range map[string]func(layer string) error{
		"cut off":   func(layer string) error { return os.Truncate(filepath.Join(layer, "work/a"), 3) },
		"missing":   func(layer string) error { return os.RemoveAll(filepath.Join(layer, "work")) },
		"more":      func(layer string) error { return os.WriteFile(filepath.Join(layer, "work/b"), nil, 0o644) },
		"no record": func(layer string) error { return os.Remove(filepath.Join(filepath.Dir(layer), layerFile)) },
		"gone":      func(layer string) error { return os.RemoveAll(filepath.Dir(layer)) },
	} {
		c := openCache(t, with(r))
		img, err := c.Prepare(t.Context(), n, "old")
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(filepath.Join(c.Directory, img.Layers[0])); err != nil {
			t.Fatal(err)
		}
		if c, err = Open(c.Options); err != nil {
			t.Fatal(err)
		}
		img, err = c.Prepare(t.Context(), n, "new")
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if text, err := os.ReadFile(filepath.Join(c.Directory, img.Layers[0], "work/a")); err != nil || string(text) != "content" {
			t.Errorf("%s: %q, %v", what, text, err)
		}
	}
}

func TestImagesInUseSurviveCollectionAlsoAfterARestart(t *testing.T) {
	r := newRegistry(t)
	base := baseLayer(t)
	var names []imagename.Name
	for i := range 4 {
		content := archiveOf(t, file("big", strings.Repeat(string(rune('a'+i)), 1000)))
		names = append(names, r.push(t, fmt.Sprint("image", i), makeImage(t, nil, base, content)))
	}
	c := openCache(t, func(o *Options) { with(r)(o); o.Size = 2500 })
	used, err := c.Prepare(t.Context(), names[0], "running")
	if err != nil {
		t.Fatal(err)
	}
	if c, err = Open(c.Options); err != nil { // the agent restarts, and knows the job from its description
		t.Fatal(err)
	}
	c.Keep(names[0].Digest, used.Layers, "running")
	for i, n := range names[1:] {
		if _, err := c.Prepare(t.Context(), n, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		c.Release(fmt.Sprint(i))
	}
	for _, dir := range used.Layers {
		if _, err := os.Stat(filepath.Join(c.Directory, dir)); err != nil {
			t.Errorf("a running job lost a layer: %v", err)
		}
	}
	var digests []string
	for _, info := range c.List() {
		digests = append(digests, info.Digest)
	}
	if want := []string{names[3].Digest, names[0].Digest}; !slices.Equal(digests, want) {
		t.Errorf("left are %v, want the newest and the one in use: %v", digests, want)
	}
	c.Release("running")
	c.Trim(0)
	if names := left(t, c); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestAFullDiskIsNamedAndUnusedImagesMakeRoom(t *testing.T) {
	r := newRegistry(t)
	large := func(letter string) imagename.Name {
		return r.push(t, "large"+letter, makeImage(t, nil, baseLayer(t), archiveOf(t, file("big", strings.Repeat(letter, 600<<10)))))
	}
	first, second := large("a"), large("b")
	c := openCache(t, func(o *Options) {
		with(r)(o)
		if err := errors.Join(os.Mkdir(o.Directory, 0o700), unix.Mount("weir-test", o.Directory, "tmpfs", 0, "size=1m")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(o.Directory, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	})
	if _, err := c.Prepare(t.Context(), first, "job-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prepare(t.Context(), second, "job-2"); reasonFrom(err) != NoSpace || NoSpace.IsImages() {
		t.Errorf("beside an image in use: %v", err)
	}
	c.Release("job-1")
	if _, err := c.Prepare(t.Context(), second, "job-3"); err != nil || len(c.List()) != 1 {
		t.Errorf("when nobody uses the other: %v, %v", err, c.List())
	}
}

// The slow twin deletes one image at a time and adds up what is left each time.
func TestCollectFollowsItsRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := map[string]int64{}
		ids := []string{"l0", "l1", "l2", "l3", "l4", "l5"}
		for _, id := range ids {
			sizes[id] = rapid.Int64Range(0, 10).Draw(t, "size")
		}
		pinned := map[string]bool{rapid.SampledFrom(ids).Draw(t, "pinned"): true}
		var images []stored
		for i := range rapid.IntRange(0, 5).Draw(t, "images") {
			images = append(images, stored{
				digest: fmt.Sprint("i", i), layers: rapid.SliceOfN(rapid.SampledFrom(ids), 1, 4).Draw(t, "layers"),
				lastUse: time.Unix(rapid.Int64Range(0, 3).Draw(t, "use"), 0), held: rapid.Bool().Draw(t, "held"),
			})
		}
		limit := rapid.Int64Range(0, 40).Draw(t, "limit")
		target := rapid.Int64Range(0, limit).Draw(t, "target")
		gotImages, gotLayers := collect(images, sizes, pinned, limit, target)

		kept := slices.Clone(images)
		total := func() (sum int64) {
			for _, id := range ids {
				if pinned[id] || slices.ContainsFunc(kept, func(s stored) bool { return slices.Contains(s.layers, id) }) {
					sum += sizes[id]
				}
			}
			return sum
		}
		var wantImages []string
		for over := total() > limit; over && total() > target; {
			oldest := -1
			for i, s := range kept {
				if s.held {
					continue
				}
				if oldest < 0 || s.lastUse.Before(kept[oldest].lastUse) || s.lastUse.Equal(kept[oldest].lastUse) && s.digest < kept[oldest].digest {
					oldest = i
				}
			}
			if oldest < 0 {
				break
			}
			wantImages = append(wantImages, kept[oldest].digest)
			kept = slices.Delete(kept, oldest, oldest+1)
		}
		var wantLayers []string
		for _, id := range ids {
			if !pinned[id] && !slices.ContainsFunc(kept, func(s stored) bool { return slices.Contains(s.layers, id) }) {
				wantLayers = append(wantLayers, id)
			}
		}
		if !slices.Equal(gotImages, wantImages) || !slices.Equal(gotLayers, wantLayers) {
			t.Fatalf("%v, %v; want %v, %v", gotImages, gotLayers, wantImages, wantLayers)
		}
	})
}
