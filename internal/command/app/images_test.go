package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/test/fakeimage"
)

// newRegistry returns the host of a registry on this machine, and how to switch it off.
func newRegistry(t *testing.T) (host string, stop func()) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), server.Close
}

// push puts an image that says something into a registry and returns its digest.
func push(t *testing.T, tag, says string) string {
	t.Helper()
	img := fakeimage.Image(t, v1.Config{Env: []string{"FROM_IMAGE=yes"}}, fakeimage.Base(t), fakeimage.Layer(t, fakeimage.Entry{Name: "says", Content: says, Mode: 0o644}))
	reference, err := name.NewTag(tag, name.Insecure)
	if err == nil {
		err = remote.Write(reference, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// withImages lets a cluster use a registry and images in files.
func withImages(host, preload string) func(*config.Config) {
	return func(c *config.Config) {
		list := document.Some([]config.Registry{{Host: document.Some(host), Insecure: document.Some(true)}})
		c.Scheduler.Images.Registries, c.Node.Images.Registries = list, list
		c.Scheduler.Images.Allowed = document.Some([]string{"127.0.0.1:*"})
		c.Node.Images.MaxAttempts = document.Some(1)
		if preload != "" {
			c.Node.Images.Preload = document.Some([]string{preload})
		}
	}
}

// caller is root on the command line.
func (c *cluster) caller() *client.Client {
	c.t.Helper()
	if c.asks != nil {
		return c.asks
	}
	caller, err := client.New(client.Options{Address: "http://" + c.scheduler.Address})
	if err != nil {
		c.t.Fatal(err)
	}
	c.asks = caller
	return caller
}

// node is the only node.
func (c *cluster) node() *client.Node {
	c.t.Helper()
	list, err := c.caller().ListNodes(c.t.Context(), client.NodeFilter{})
	if err != nil || len(list.Nodes) != 1 {
		c.t.Fatalf("%+v, %v", list, err)
	}
	return &list.Nodes[0]
}

// imageOf is the image of an operation's task as people see it.
func (c *cluster) imageOf(id string) string {
	c.t.Helper()
	o, err := c.caller().GetOperation(c.t.Context(), id, "full_spec")
	if err != nil {
		c.t.Fatal(err)
	}
	text, _ := o.Raw.Get("full_spec", "tasks", "t", "docker_image").Text()
	return text
}

func inImage(image, command string) map[string]any {
	return map[string]any{"pool": "a", "max_failed_job_count": 1, "tasks": map[string]any{
		"t": map[string]any{"job_count": 1, "command": command, "docker_image": image, "memory_limit": 256 << 20},
	}}
}

// runs starts an operation with the command of clients, and returns how it ended.
func (c *cluster) runs(spec map[string]any) (store.Operation, []store.Job) {
	c.t.Helper()
	id, err := c.caller().StartOperation(c.t.Context(), client.Vanilla, spec)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.endedWith(id)
}

func (c *cluster) endedWith(id string) (store.Operation, []store.Job) {
	c.t.Helper()
	parsed, err := guid.Parse(id)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ended(parsed)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: jobs do not run in images")
	}
}

// The tag moves after the operation has started and before its job does: the job runs what the tag meant at the start.
func TestAJobRunsTheImageThatItsTagMeantWhenTheOperationStarted(t *testing.T) {
	needRoot(t)
	host, _ := newRegistry(t)
	c := newScheduler(t, withImages(host, ""))
	digest := push(t, host+"/team/train:v1", "old\n")
	id, err := c.caller().StartOperation(t.Context(), client.Vanilla, inImage(host+"/team/train:v1", "cat /says >&2; echo $FROM_IMAGE >&2; id -u >&2"))
	if err != nil {
		t.Fatal(err)
	}
	push(t, host+"/team/train:v1", "new\n")
	c.startNode(2, 2)
	row, jobs := c.endedWith(id)
	if row.State != "completed" || len(jobs) != 1 || !strings.HasPrefix(c.stderr(jobs[0]), "old\nyes\n") {
		t.Fatalf("%s with %d jobs: %s", row.State, len(jobs), row.Result)
	}
	if whole := host + "/team/train:v1@" + digest; c.imageOf(id) != whole {
		t.Errorf("the operation has the image %s, want %s", c.imageOf(id), whole)
	}
	var statistics struct {
		Time map[string]any `json:"time"`
	}
	if err := json.Unmarshal(jobs[0].Statistics, &statistics); err != nil || statistics.Time["prepare_root_fs"] == nil {
		t.Errorf("%v: %s", err, jobs[0].Statistics)
	}
	c.await("the node reports the image", func() bool {
		images := c.node().Images
		return len(images) == 1 && images[0].Digest == digest && images[0].Jobs == 0 && images[0].Size > 0
	})
}

// writeFile puts a file into the tree.
func (c *cluster) writeFile(path string, content []byte) {
	c.t.Helper()
	if _, err := c.caller().Create(c.t.Context(), "file", path, nil, client.WriteOptions{Recursive: true, IgnoreExisting: true}); err != nil {
		c.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPut, "http://"+c.scheduler.Address+"/api/v4/write_file?path="+url.QueryEscape(path), bytes.NewReader(content))
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		c.t.Fatalf("write_file: %s: %s", response.Status, text)
	}
}

// The files change after the operation has started and before its job does.
func TestAJobRunsInTheLayersThatTheTreeHadWhenTheOperationStarted(t *testing.T) {
	needRoot(t)
	c := newScheduler(t, withImages("registry.example", ""))
	c.writeFile("//home/base", fakeimage.Base(t))
	c.writeFile("//home/top", fakeimage.Layer(t, fakeimage.Entry{Name: "says", Content: "old\n", Mode: 0o644}))
	in := func(layers ...string) map[string]any {
		return map[string]any{"pool": "a", "max_failed_job_count": 1, "tasks": map[string]any{
			"t": map[string]any{"job_count": 1, "command": "cat /says /etc/release >&2", "layer_paths": layers, "memory_limit": 256 << 20},
		}}
	}
	id, err := c.caller().StartOperation(t.Context(), client.Vanilla, in("//home/top", "//home/base"))
	if err != nil {
		t.Fatal(err)
	}
	c.writeFile("//home/other", []byte("no archive, and too short for one"))
	c.writeFile("//home/top", fakeimage.Layer(t, fakeimage.Entry{Name: "says", Content: "new\n", Mode: 0o644}))
	c.startNode(2, 2)
	row, jobs := c.endedWith(id)
	if row.State != "completed" || len(jobs) != 1 || c.stderr(jobs[0]) != "old\nfake\n" {
		t.Fatalf("%s with %d jobs: %s", row.State, len(jobs), row.Result)
	}
	if row, jobs = c.runs(in("//home/other", "//home/base")); row.State != "failed" || len(jobs) != 1 || !strings.Contains(string(jobs[0].Error), "no tar archive") {
		t.Errorf("a layer that is no archive: %s, %s", row.State, row.Result)
	}
	if _, err := c.caller().StartOperation(t.Context(), client.Vanilla, in("//home/missing")); err == nil || !strings.Contains(err.Error(), "layer //home/missing cannot be used") {
		t.Errorf("a layer that is not there: %v", err)
	}
}

func TestAnImageInAFileOfTheNodeNeedsNoRegistry(t *testing.T) {
	needRoot(t)
	preload := t.TempDir()
	img := fakeimage.Image(t, v1.Config{}, fakeimage.Base(t))
	digest := fakeimage.Save(t, filepath.Join(preload, "train.tar"), "team/train:v2", img)
	c := newScheduler(t, withImages("registry.example", preload))
	c.startNode(2, 2)
	id, err := "", error(nil)
	c.await("the node has reported its images", func() bool {
		id, err = c.caller().StartOperation(t.Context(), client.Vanilla, inImage("team/train:v2", "cat /etc/release >&2"))
		return err == nil
	})
	row, jobs := c.endedWith(id)
	if row.State != "completed" || c.stderr(jobs[0]) != "fake\n" || c.imageOf(id) != "team/train:v2@"+digest {
		t.Errorf("%s: %s", row.State, row.Result)
	}
	_, err = c.caller().StartOperation(t.Context(), client.Vanilla, inImage("team/other", "true"))
	if err == nil || !strings.Contains(err.Error(), "neither the cluster nor a node has such an image (weir image list); nodes have team/train:v2") {
		t.Errorf("an image that no node has: %v", err)
	}
}

// The archive is replaced after the operation has started and before its job does.
func TestAJobRunsInAnImageOfTheCluster(t *testing.T) {
	needRoot(t)
	c := newScheduler(t, withImages("registry.example", ""))
	load := func(says string) (digest string) {
		archive := filepath.Join(t.TempDir(), "train.tar")
		img := fakeimage.Image(t, v1.Config{Env: []string{"FROM_IMAGE=yes"}}, fakeimage.Base(t), fakeimage.Layer(t, fakeimage.Entry{Name: "says", Content: says, Mode: 0o644}))
		digest = fakeimage.Save(t, archive, "team/train:v1", img)
		content, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		c.writeFile("//sys/images/team/train/v1", content)
		if err := c.caller().Set(t.Context(), "//sys/images/team/train/v1/@image_digest", digest, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	digest := load("old\n")
	id, err := c.caller().StartOperation(t.Context(), client.Vanilla, inImage("team/train:v1", "cat /says >&2; echo $FROM_IMAGE >&2"))
	if err != nil {
		t.Fatal(err)
	}
	load("new\n")
	c.startNode(2, 2)
	row, jobs := c.endedWith(id)
	if row.State != "completed" || len(jobs) != 1 || c.stderr(jobs[0]) != "old\nyes\n" {
		t.Fatalf("%s with %d jobs: %s", row.State, len(jobs), row.Result)
	}
	if whole := "team/train:v1@" + digest; c.imageOf(id) != whole {
		t.Errorf("the operation has the image %s, want %s", c.imageOf(id), whole)
	}
	// An archive that does not have the image that its attribute names.
	if err := c.caller().Set(t.Context(), "//sys/images/team/train/v1/@image_digest", digest, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if row, jobs := c.runs(inImage("team/train:v1@"+digest, "true")); row.State != "completed" {
		t.Errorf("the node has this image: %s with %d jobs: %s", row.State, len(jobs), row.Result)
	}
	c.writeFile("//sys/images/broken/v1", []byte("no archive, and too short for one"))
	_, err = c.caller().StartOperation(t.Context(), client.Vanilla, inImage("broken:v1", "true"))
	if err == nil || !strings.Contains(err.Error(), "was not written by weir image load") {
		t.Errorf("a file without a digest: %v", err)
	}
	if err := c.caller().Set(t.Context(), "//sys/images/broken/v1/@image_digest", "sha256:"+strings.Repeat("0", 64), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if row, jobs := c.runs(inImage("broken:v1", "true")); row.State != "failed" || len(jobs) != 1 || !strings.Contains(string(jobs[0].Error), "it is no tar archive") {
		t.Errorf("a file that is no archive: %s, %s", row.State, row.Result)
	}
	// Images that no job uses can be deleted from the node.
	c.await("the node reports the image", func() bool { return len(c.node().Images) == 1 })
	if err := c.caller().PruneImages(t.Context(), c.node().Name); err != nil {
		t.Fatal(err)
	}
	c.await("the node has no images", func() bool { return len(c.node().Images) == 0 })
	if quota := c.node().DiskQuota; quota != "watch" && quota != "project" {
		t.Errorf("the node says that its disk quota is %q", quota)
	}
	if err := c.caller().PruneImages(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a node that is not there: %v", err)
	}
}

func TestAnOperationWithAnImageThatCannotBeResolvedIsRefused(t *testing.T) {
	host, stop := newRegistry(t)
	c := newScheduler(t, withImages(host, ""))
	for image, says := range map[string]string{
		host + "/nothing:v1":       "unknown_image",
		"registry.example/x":       "registry_not_allowed",
		"train":                    "unknown_image",
		"Not An Image":             "the name of an image like",
		"registry.example/x@sha:1": "the name of an image like",
	} {
		if _, err := c.caller().StartOperation(t.Context(), client.Vanilla, inImage(image, "true")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", image, err, says)
		}
	}
	stop()
	_, err := c.caller().StartOperation(t.Context(), client.Vanilla, inImage(host+"/x:v1", "true"))
	if err == nil || !strings.Contains(err.Error(), "registry_unavailable") || !strings.Contains(err.Error(), host) {
		t.Errorf("a registry that is away: %v", err)
	}
	if len(c.scheduler.Server.Operations()) != 0 {
		t.Error("there are operations")
	}
}

func TestAJobWhoseImageCannotBeUsedSaysWhy(t *testing.T) {
	needRoot(t)
	host, stop := newRegistry(t)
	c := newScheduler(t, withImages(host, ""))
	c.startNode(2, 2)
	reference, err := name.NewTag(host+"/bad:v1", name.Insecure)
	if err == nil {
		err = remote.Write(reference, fakeimage.Image(t, v1.Config{}, fakeimage.Layer(t, fakeimage.Entry{Name: "../../../etc/evil"})))
	}
	if err != nil {
		t.Fatal(err)
	}
	row, jobs := c.runs(inImage(host+"/bad:v1", "true"))
	if row.State != "failed" || len(jobs) != 1 || !strings.Contains(string(jobs[0].Error), "invalid_image") || !strings.Contains(string(jobs[0].Error), "leads out of the image") {
		t.Errorf("%s with %d jobs: %s", row.State, len(jobs), row.Result)
	}
	digest := push(t, host+"/away:v1", "x")
	stop()
	id, err := c.caller().StartOperation(t.Context(), client.Vanilla, inImage(host+"/away@"+digest, "true"))
	if err != nil {
		t.Fatal(err)
	}
	c.await("the node says that the registry is away", func() bool {
		return strings.Contains(strings.Join(c.node().Alerts, "\n"), "image_not_prepared: image "+host+"/away@"+digest+": registry_unavailable")
	})
	if err := c.caller().AbortOperation(t.Context(), id, ""); err != nil {
		t.Error(err)
	}
	row, jobs = c.endedWith(id)
	if len(jobs) == 0 || jobs[0].AbortReason != "root_volume_preparation_failed" {
		t.Errorf("%s: %+v", row.State, jobs)
	}
}

// lock makes a registry ask for a token, which only one user gets.
func lock(handle http.Handler, user, password string) http.Handler {
	const token = "a-token"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, given, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && name == user && given == password:
			_, _ = io.WriteString(w, `{"token": "`+token+`"}`)
		case r.URL.Path == "/token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Header.Get("Authorization") == "Bearer "+token:
			handle.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
}

// Those who start an operation sign in to the registry of its image; nobody else learns how.
func TestAnImageOfAPrivateRegistry(t *testing.T) {
	needRoot(t)
	const secret = "do-not-print"
	open := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	locked := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if locked {
			lock(open, "ann", secret).ServeHTTP(w, r)
			return
		}
		open.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	push(t, host+"/a:v1", "private\n")
	locked = true
	c := newScheduler(t, withImages(host, ""))
	with := func(password string) map[string]any {
		spec := inImage(host+"/a:v1", "touch running; while [ ! -e go ]; do sleep 0.05; done; cat /says >&2; env >&2")
		if password != "" {
			spec["secure_vault"] = map[string]any{"docker_auth": map[string]any{"username": "ann", "password": password}}
		}
		return spec
	}
	for _, password := range []string{"", "wrong-secret"} {
		if _, err := c.caller().StartOperation(t.Context(), client.Vanilla, with(password)); err == nil || !strings.Contains(err.Error(), "registry_denied") || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("with the password %q: %v", password, err)
		}
	}
	id, err := c.caller().StartOperation(t.Context(), client.Vanilla, with(secret))
	if err != nil {
		t.Fatal(err)
	}
	c.startNode(2, 2)
	sandbox := ""
	c.await("the job runs", func() bool {
		found, _ := filepath.Glob(filepath.Join(c.directory, "node", "jobs", "*", "sandbox", "running"))
		if len(found) == 1 {
			sandbox = filepath.Dir(found[0])
		}
		return len(found) == 1
	})
	seen := 0
	err = filepath.WalkDir(c.directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // files come and go
		}
		seen++
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s has the password", path)
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Errorf("%d files, %v", seen, err)
	}
	if o, err := c.caller().GetOperation(t.Context(), id, "full_spec", "spec", "provided_spec", "unrecognized_spec", "alerts"); err != nil || strings.Contains(o.Raw.String(), secret) {
		t.Errorf("%v, %v", o.Raw, err)
	}
	if err := os.WriteFile(filepath.Join(sandbox, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	row, jobs := c.endedWith(id)
	if row.State != "completed" || !strings.HasPrefix(c.stderr(jobs[0]), "private\n") || strings.Contains(c.stderr(jobs[0]), secret) {
		t.Errorf("%s: %s", row.State, row.Result)
	}
}

// A running job keeps its image while the agent restarts with a cache that may hold nothing.
func TestTheImageOfARunningJobSurvivesARestart(t *testing.T) {
	needRoot(t)
	host, _ := newRegistry(t)
	c := newScheduler(t, func(s *config.Config) {
		withImages(host, "")(s)
		s.Node.Images.CacheSize = document.Some(int64(1))
	})
	push(t, host+"/a:v1", "one\n")
	push(t, host+"/b:v1", "two\n")
	c.startNode(4, 4)
	id, err := c.caller().StartOperation(t.Context(), client.Vanilla, inImage(host+"/a:v1", "touch running; while [ ! -e go ]; do sleep 0.05; done; cat /says >&2"))
	if err != nil {
		t.Fatal(err)
	}
	sandbox := ""
	c.await("the job runs", func() bool {
		found, _ := filepath.Glob(filepath.Join(c.directory, "node", "jobs", "*", "sandbox", "running"))
		if len(found) == 1 {
			sandbox = filepath.Dir(found[0])
		}
		return len(found) == 1
	})
	c.stopNode()
	c.startNode(4, 4)
	if row, _ := c.runs(inImage(host+"/b:v1", "cat /says >&2")); row.State != "completed" {
		t.Errorf("another image: %s: %s", row.State, row.Result)
	}
	if err := os.WriteFile(filepath.Join(sandbox, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	row, jobs := c.endedWith(id)
	if row.State != "completed" || c.stderr(jobs[0]) != "one\n" {
		t.Errorf("%s: %s", row.State, row.Result)
	}
}

func TestAnAgentWithoutRootHasNoImages(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("ROOT: an agent without root is not tested")
	}
	images, err := imagesOf(&config.NodeImages{}, t.TempDir(), newTestLog(t))
	if err != nil || images != (agent.Images{Missing: images.Missing}) || images.Missing == "" {
		t.Errorf("%+v, %v", images, err)
	}
}

func TestCredentialsThatOthersMayReadKeepASchedulerFromStarting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.json")
	if err := errors.Join(os.WriteFile(file, []byte(`{"auths": {"registry.example": {"auth": "bm9kZTpzZWNyZXQ="}}}`), 0o644), os.Chmod(file, 0o644)); err != nil {
		t.Fatal(err)
	}
	c := &config.Images{Registries: document.Some([]config.Registry{{Host: document.Some("registry.example"), AuthFile: document.Some(file)}})}
	if _, err := registriesOf(c); err == nil || !strings.Contains(err.Error(), "chmod 600 "+file) {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := registriesOf(c); err != nil || len(r.List) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
