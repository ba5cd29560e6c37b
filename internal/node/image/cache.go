package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/value/imagename"
)

// Options configure a cache.
type Options struct {
	Directory  string
	Registries *Registries
	// Preload are directories with images that need no registry.
	Preload []string
	// Size is how many bytes of layers are kept. When there are more, images that nobody uses are deleted until four
	// fifths are left.
	Size int64
	// Largest bounds one image, unpacked.
	Largest Limits
	// Attempts is how often an image is asked for whose registry does not answer. Pause is the wait after the first
	// attempt; it doubles each time up to MaxPause.
	Attempts        int
	Pause, MaxPause time.Duration
	Log             *slog.Logger
}

// DefaultOptions returns the defaults of the reference.
func DefaultOptions() Options {
	return Options{
		Size: 20 << 30, Largest: Limits{Size: 20 << 30, Entries: 2_000_000},
		Attempts: 6, Pause: time.Second, MaxPause: 30 * time.Second,
	}
}

// Image is an image that is ready to be used.
type Image struct {
	Name   imagename.Name // with its digest
	Layers []string       // directories, the uppermost first, relative to the directory of the cache
	// Environment has the variables of its configuration, Directory its working directory, Shell what runs commands.
	Environment []string
	Directory   string
	Shell       string
}

// Info describes an image of the node for people.
type Info struct {
	Name    string // as it was last asked for; empty if it has no name
	Digest  string
	Size    int64 // of its layers, unpacked; zero if it has not been unpacked
	LastUse time.Time
	Jobs    int
}

// record is what the cache keeps about an image.
type record struct {
	Version     int      `json:"version"`
	Name        string   `json:"name"`
	Digest      string   `json:"digest"`
	Layers      []string `json:"layers"` // diff ids, the base first
	Environment []string `json:"environment,omitempty"`
	Directory   string   `json:"directory,omitempty"`
	Shell       string   `json:"shell"`

	lastUse time.Time
	noted   time.Time // the last use that is on disk
}

// notePeriod is how exactly the last use of an image is known after a restart.
const notePeriod = time.Minute

// layerRecord is what the cache keeps about a layer.
type layerRecord struct {
	Version     int    `json:"version"`
	Size        int64  `json:"size"`
	Entries     int    `json:"entries"`
	Fingerprint string `json:"fingerprint"`

	checked bool // since the cache was opened
}

const recordVersion = 1

// Cache has the images of a node. It is safe for concurrent use.
type Cache struct {
	Options

	mu     sync.Mutex
	images map[string]*record
	layers map[string]*layerRecord // by diff id
	holds  map[string]hold         // by job
	pinned map[string]int          // layers of images that are being prepared
	busy   map[string]*turn
}

// hold is what a job uses.
type hold struct {
	digest string
	layers []string // diff ids
}

// turn makes everybody who wants the same thing wait for the first.
type turn struct {
	token   chan struct{}
	waiting int
}

// Names in the directory of a cache.
const (
	imagesDir   = "images"
	layersDir   = "layers"
	pointsDir   = "points"
	accountsDir = "accounts"
	filesDir    = "fs"
	layerFile   = "layer.json"
	unfinished  = ".new-"
	dismissed   = ".old-"
	digestStart = "sha256:"
)

// Open reads what is in a directory, which it makes, and deletes what an earlier process left unfinished.
func Open(o Options) (*Cache, error) {
	c := &Cache{
		Options: o, images: map[string]*record{}, layers: map[string]*layerRecord{}, holds: map[string]hold{},
		pinned: map[string]int{}, busy: map[string]*turn{},
	}
	for _, dir := range []string{"", imagesDir, layersDir, pointsDir, accountsDir} {
		if err := os.MkdirAll(filepath.Join(o.Directory, dir), 0o700); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
	}
	layers, err := os.ReadDir(filepath.Join(o.Directory, layersDir))
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	for _, entry := range layers {
		dir := filepath.Join(o.Directory, layersDir, entry.Name())
		var r layerRecord
		if strings.HasPrefix(entry.Name(), dismissed) {
			continue // a job may use it
		}
		if !strings.HasPrefix(entry.Name(), unfinished) && readRecord(filepath.Join(dir, layerFile), &r, &r.Version) {
			c.layers[digestStart+entry.Name()] = &r
		} else if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
	}
	records, err := os.ReadDir(filepath.Join(o.Directory, imagesDir))
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	for _, entry := range records {
		path := filepath.Join(o.Directory, imagesDir, entry.Name())
		var r record
		info, err := entry.Info()
		if err == nil && readRecord(path, &r, &r.Version) && r.Digest == digestStart+strings.TrimSuffix(entry.Name(), ".json") {
			r.lastUse, r.noted = info.ModTime(), info.ModTime()
			c.images[r.Digest] = &r
		} else if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("images: %w", err)
		}
	}
	return c, nil
}

// readRecord reads a file of the cache. One that is not whole or not of this version counts as missing.
func readRecord(path string, into any, version *int) bool {
	text, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(text, into) == nil && *version == recordVersion
}

// writeRecord replaces a file of the cache.
func writeRecord(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(path), unfinished+filepath.Base(path))
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func (c *Cache) layerDir(diffID string) string {
	return filepath.Join(c.Directory, layersDir, strings.TrimPrefix(diffID, digestStart))
}

func (c *Cache) recordPath(digest string) string {
	return filepath.Join(c.Directory, imagesDir, strings.TrimPrefix(digest, digestStart)+".json")
}

// wait returns when nobody else works on the thing with this key. The caller must call done.
func (c *Cache) wait(ctx context.Context, key string) (done func(), err error) {
	c.mu.Lock()
	t := c.busy[key]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		t.token <- struct{}{}
		c.busy[key] = t
	}
	t.waiting++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(c.busy, key)
		}
	}
	select {
	case <-t.token:
		return func() { t.token <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Prepare makes an image ready for a job, which holds it until Release. The name must have a digest. The error is an
// *Error unless the context ended.
func (c *Cache) Prepare(ctx context.Context, n imagename.Name, job string) (*Image, error) {
	return c.PrepareAs(ctx, n, Account{}, job)
}

// PrepareAs is Prepare for a user with an account at the image's registry. An image that the node has is not asked for again.
func (c *Cache) PrepareAs(ctx context.Context, n imagename.Name, as Account, job string) (*Image, error) {
	done, err := c.wait(ctx, "image "+n.Digest)
	if err != nil {
		return nil, err
	}
	defer done()
	fetch := func() error { return c.fetch(ctx, n, as) }
	img, err := c.use(n, job, fetch)
	for attempt, pause := 1, c.Pause; err != nil && attempt < c.Attempts; attempt++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if r := reasonOf(err, ""); r != Unavailable && r != Mismatch {
			break
		}
		c.Log.Warn("an image cannot be fetched now", "image", n.String(), "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, c.MaxPause)
		img, err = c.use(n, job, fetch)
	}
	if err != nil {
		return nil, wrap(n, err)
	}
	return img, nil
}

// use returns an image from the cache, and fetches what is missing.
func (c *Cache) use(n imagename.Name, job string, fetch func() error) (*Image, error) {
	r := c.find(n.Digest)
	if r != nil {
		if img := c.hold(r, n, job); c.isSound(r) {
			return img, nil
		}
		c.Release(job)
	}
	if err := fetch(); err != nil {
		return nil, err
	}
	img := c.hold(c.find(n.Digest), n, job)
	c.Trim(c.Size)
	return img, nil
}

func (c *Cache) find(digest string) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.images[digest]
}

// hold notes that a job uses an image, now.
func (c *Cache) hold(r *record, n imagename.Name, job string) *Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds[job] = hold{r.Digest, r.Layers}
	now := time.Now()
	if now.Sub(r.noted) > notePeriod {
		r.noted = now
		_ = os.Chtimes(c.recordPath(r.Digest), now, now) // if it fails, the image looks older than it is after a restart
	}
	r.lastUse = now
	img := &Image{Name: n, Environment: r.Environment, Directory: r.Directory, Shell: r.Shell}
	for _, id := range slices.Backward(r.Layers) {
		img.Layers = append(img.Layers, filepath.Join(layersDir, strings.TrimPrefix(id, digestStart), filesDir))
	}
	return img
}

// Keep notes that a job that was started earlier uses an image, with the layers that Prepare returned.
func (c *Cache) Keep(digest string, layers []string, job string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := hold{digest: digest}
	for _, files := range layers {
		h.layers = append(h.layers, digestStart+filepath.Base(filepath.Dir(files)))
	}
	c.holds[job] = h
}

// Release notes that a job has ended.
func (c *Cache) Release(job string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, job)
}

// isSound reports whether all layers of an image are there and unchanged.
func (c *Cache) isSound(r *record) bool {
	sound := true
	for _, id := range unique(r.Layers) {
		sound = c.soundLayer(id) != nil && sound
	}
	return sound
}

// soundLayer returns a layer that is there and unchanged, else nil. A layer is looked at once in the life of a cache; a
// damaged one is dropped.
func (c *Cache) soundLayer(id string) *layerRecord {
	c.mu.Lock()
	l := c.layers[id]
	checked := l != nil && l.checked
	c.mu.Unlock()
	if l == nil || checked {
		return l
	}
	print, err := fingerprint(filepath.Join(c.layerDir(id), filesDir))
	if err != nil || print != l.Fingerprint {
		c.Log.Warn("a layer in the cache is damaged and will be fetched again", "layer", id, "error", err)
		c.dropLayer(id)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.checked = true
	return l
}

// dropLayer forgets a layer and deletes it. Files that a job may still use stay until no job uses any image.
func (c *Cache) dropLayer(id string) {
	c.mu.Lock()
	delete(c.layers, id)
	old := filepath.Join(c.Directory, layersDir, dismissed+strconv.FormatInt(time.Now().UnixNano(), 36))
	err := os.Rename(c.layerDir(id), old)
	used := c.isHeld(id)
	c.mu.Unlock()
	if err == nil && !used {
		err = os.RemoveAll(old)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Log.Error("a layer cannot be deleted", "layer", id, "error", err)
	}
}

// isHeld reports whether a job uses a layer.
func (c *Cache) isHeld(id string) bool {
	for _, h := range c.holds {
		if slices.Contains(h.layers, id) {
			return true
		}
	}
	return false
}

// sweep deletes layers that were dropped while jobs used them.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.holds) > 0 {
		return
	}
	old, _ := filepath.Glob(filepath.Join(c.Directory, layersDir, dismissed+"*")) // the pattern is well formed
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			c.Log.Error("a layer cannot be deleted", "directory", dir, "error", err)
		}
	}
}

// fetch gets an image and all its layers that the cache does not have.
func (c *Cache) fetch(ctx context.Context, n imagename.Name, as Account) error {
	source, hasManifest, err := c.open(ctx, n, as)
	if err != nil {
		return err
	}
	return c.fetchFrom(ctx, n, source, hasManifest)
}

// fetchFrom reads an image and all its layers that the cache does not have.
func (c *Cache) fetchFrom(ctx context.Context, n imagename.Name, source v1.Image, hasManifest bool) error {
	found, err := read(source, hasManifest)
	if err != nil {
		return classify(cmp.Or(n.Registry, "of this node"), err)
	}
	if found.compressed > c.Largest.Size {
		return faultf(TooLarge, "its layers have %d bytes, and the limit is %d (images/max_unpacked_size)", found.compressed, c.Largest.Size)
	}
	r := &record{
		Version: recordVersion, Name: n.Tagged().String(), Digest: n.Digest, Environment: found.config.Env, Directory: found.config.WorkingDir,
	}
	if n.Repository == "" {
		r.Name = ""
	}
	return c.add(ctx, r, found.layers)
}

// add fetches the layers of an image that the cache does not have, and notes that it has the image.
func (c *Cache) add(ctx context.Context, r *record, layers []layer) error {
	defer c.unpin(layers)
	c.pin(layers)
	left := c.Largest
	for _, l := range layers {
		size, entries, err := c.fetchLayer(ctx, l, left)
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.diffID, err)
		}
		left.Size -= size
		left.Entries -= entries
		r.Layers = append(r.Layers, l.diffID)
	}
	if err := c.inspect(r); err != nil {
		return err
	}
	// A layer that a crash of the machine cut off belongs to no image, or its fingerprint differs.
	if err := errors.Join(syncAll(c.Directory), writeRecord(c.recordPath(r.Digest), r)); err != nil {
		return spaceFault(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.lastUse = time.Now()
	c.images[r.Digest] = r
	return nil
}

// inspect finds what can run commands in an image, and whether jobs can use its working directory.
func (c *Cache) inspect(r *record) error {
	var layers []string
	for _, id := range slices.Backward(r.Layers) {
		layers = append(layers, filepath.Join(c.layerDir(id), filesDir))
	}
	const execute = 0o001 // for jobs, which own no file of an image
	if info, err := lookup(layers, r.Directory); r.Directory == "/" || err != nil || !info.IsDir() || info.Mode()&execute == 0 {
		r.Directory = ""
	}
	for _, shell := range []string{"/bin/bash", "/bin/sh"} {
		if info, err := lookup(layers, shell); err == nil && info.Mode().IsRegular() && info.Mode()&execute != 0 {
			r.Shell = shell
			return nil
		}
	}
	return faultf(Invalid, "it has neither /bin/bash nor /bin/sh, which run the command of a job")
}

func (c *Cache) pin(layers []layer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range layers {
		c.pinned[l.diffID]++
	}
}

func (c *Cache) unpin(layers []layer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range layers {
		if c.pinned[l.diffID]--; c.pinned[l.diffID] == 0 {
			delete(c.pinned, l.diffID)
		}
	}
}

// fetchLayer makes sure that the cache has a layer. If the disk is full, it first deletes all images that nobody uses.
func (c *Cache) fetchLayer(ctx context.Context, l layer, left Limits) (size int64, entries int, err error) {
	done, err := c.wait(ctx, "layer "+l.diffID)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	r := c.soundLayer(l.diffID)
	if r == nil {
		if r, err = c.unpackLayer(ctx, l, left); reasonOf(err, "") == NoSpace {
			c.Trim(0)
			r, err = c.unpackLayer(ctx, l, left)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if r.Size > left.Size || r.Entries > left.Entries {
		return 0, 0, faultf(TooLarge, "the image has more than %d bytes or %d files", c.Largest.Size, c.Largest.Entries)
	}
	return r.Size, r.Entries, nil
}

// unpackLayer fetches a layer, checks it and adds it to the cache.
func (c *Cache) unpackLayer(ctx context.Context, l layer, left Limits) (r *layerRecord, err error) {
	temporary := filepath.Join(c.Directory, layersDir, unfinished+strings.TrimPrefix(l.diffID, digestStart))
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	files := filepath.Join(temporary, filesDir)
	if err := errors.Join(os.RemoveAll(temporary), os.MkdirAll(files, 0o755)); err != nil {
		return nil, spaceFault(err)
	}
	source, err := l.open()
	if err != nil {
		return nil, readFault(&readError{err})
	}
	defer source.Close()
	defer context.AfterFunc(ctx, func() { source.Close() })()
	sum := sha256.New()
	hashed := io.TeeReader(stream{source}, sum)
	archive := io.Reader(hashed)
	if l.isFile {
		opened, err := decompress(hashed)
		if err != nil {
			return nil, readFault(err)
		}
		defer opened.Close()
		archive = opened
	}
	size, entries, err := unpack(archive, files, left)
	if err == nil {
		err = drain(hashed, left.Size)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, spaceFault(readFault(err))
	}
	if got := digestStart + hex.EncodeToString(sum.Sum(nil)); got != l.diffID {
		return nil, faultf(Mismatch, "its content has the diff id %s", got)
	}
	r = &layerRecord{Version: recordVersion, Size: size, Entries: entries, checked: true}
	if r.Fingerprint, err = fingerprint(files); err != nil {
		return nil, err
	}
	if err := writeRecord(filepath.Join(temporary, layerFile), r); err != nil {
		return nil, spaceFault(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := os.Rename(temporary, c.layerDir(l.diffID)); err != nil {
		return nil, err
	}
	c.layers[l.diffID] = r
	return r, nil
}

// drain reads what follows the archive: it belongs to the content that the digest is of.
func drain(from io.Reader, most int64) error {
	n, err := io.Copy(io.Discard, io.LimitReader(from, most+1))
	if err == nil && n > most {
		err = faultf(TooLarge, "more than %d bytes follow the archive", most)
	}
	return err
}

// syncAll makes everything on the file system of a directory durable.
func syncAll(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Syncfs(int(file.Fd()))
}

// spaceFault gives errors of a full disk their reason.
func spaceFault(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return &fault{NoSpace, err}
	}
	return err
}

// Shrink deletes a fifth of what nobody uses, for a disk that runs full.
func (c *Cache) Shrink() {
	c.mu.Lock()
	total := int64(0)
	for _, l := range c.layers {
		total += l.Size
	}
	c.mu.Unlock()
	c.Trim(total - 1)
}

// Trim deletes images that no job uses, the least recently used first, if the layers take more than a limit.
func (c *Cache) Trim(limit int64) {
	c.mu.Lock()
	var images []stored
	jobs, pinned := c.jobs(), map[string]bool{}
	for digest, r := range c.images {
		images = append(images, stored{digest, r.Layers, r.lastUse, jobs[digest] > 0})
	}
	sizes := map[string]int64{}
	for id, l := range c.layers {
		sizes[id] = l.Size
	}
	for id := range c.pinned {
		pinned[id] = true
	}
	for _, h := range c.holds { // an image that is held may have lost its record
		for _, id := range h.layers {
			pinned[id] = true
		}
	}
	dropImages, dropLayers := collect(images, sizes, pinned, limit, limit/5*4)
	for _, digest := range dropImages {
		delete(c.images, digest)
		if err := os.Remove(c.recordPath(digest)); err != nil {
			c.Log.Error("an image cannot be deleted", "image", digest, "error", err)
		}
	}
	c.mu.Unlock()
	for _, id := range dropLayers {
		c.dropLayer(id)
	}
	c.sweep()
	if len(dropImages) > 0 {
		c.Log.Info("images were deleted", "count", len(dropImages), "layers", len(dropLayers))
	}
}

// jobs counts the jobs that use each image.
func (c *Cache) jobs() map[string]int {
	jobs := map[string]int{}
	for _, h := range c.holds {
		jobs[h.digest]++
	}
	return jobs
}

// List describes the images of the node, those that were used last first, then those that no job has used.
func (c *Cache) List() []Info {
	c.mu.Lock()
	var list []Info
	jobs := c.jobs()
	for digest, r := range c.images {
		info := Info{Name: r.Name, Digest: digest, LastUse: r.lastUse, Jobs: jobs[digest]}
		for _, id := range unique(r.Layers) {
			if l := c.layers[id]; l != nil {
				info.Size += l.Size
			}
		}
		list = append(list, info)
	}
	c.mu.Unlock()
	local, err := findLocal(c.Preload)
	if err != nil {
		c.Log.Warn("images of the node cannot be read", "error", err)
	}
	for _, l := range local {
		text := ""
		if l.Name.Repository != "" {
			text = l.Name.Tagged().String()
		}
		if !slices.ContainsFunc(list, func(i Info) bool { return i.Digest == l.Name.Digest && i.Name == text }) {
			list = append(list, Info{Name: text, Digest: l.Name.Digest})
		}
	}
	slices.SortFunc(list, func(a, b Info) int {
		return cmp.Or(b.LastUse.Compare(a.LastUse), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest))
	})
	return list
}
