package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/node/cache"
	"github.com/weirhq/weir/internal/node/gpu"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/imagename"
)

// Images are the container images of the node.
type Images struct {
	// Cache is unset if the node cannot run jobs in images. Missing then says why.
	Cache   *image.Cache
	Missing string
	// Runtime is the path of an OCI runtime that makes the containers of jobs in images. Empty: their inits do.
	Runtime string
}

// reasonRootNotPrepared is the abort reason of a job whose image the node could not get.
const reasonRootNotPrepared = "root_volume_preparation_failed"

// maxImages is how many images a node reports.
const maxImages = 100

// preparationLimit is how long the image of a job may take whose task sets no limit.
const preparationLimit = 45 * time.Minute

// imageState is what the loop knows about images.
type imageState struct {
	points  string // the uppermost layer of every root
	listing bool
	list    []*nodev1.CachedImage
	trouble string // why the last image that was not at fault itself could not be had; empty after a success
}

// openImages prepares what all jobs with images have in common.
func (a *Agent) openImages() (err error) {
	if a.Images.Cache == nil {
		return nil
	}
	a.images.points, err = a.points(nil)
	return err
}

// points returns the uppermost layer of the roots of jobs that see certain files of the machine besides those that all jobs see.
func (a *Agent) points(mounts []gpu.Mount) (string, error) {
	paths := map[string]string{}
	for _, path := range slices.Concat(a.Isolation.ReadOnly, a.Isolation.Writable) {
		paths[path] = path
	}
	for _, m := range mounts {
		paths[m.Target] = m.Source
	}
	return a.Images.Cache.Points(jobinit.Points, paths)
}

// describeImage completes the description of a job that runs in an image, as far as it is known before the image is ready.
func (a *Agent) describeImage(d *jobproxy.Description, wanted *nodev1.JobImage) error {
	if wanted == nil {
		return nil
	}
	if wanted.GetName() == "" {
		return a.describeLayers(d, wanted)
	}
	n, err := imagename.Parse(wanted.GetName())
	if err == nil && n.Digest == "" {
		err = fmt.Errorf("image %s: the scheduler gave no digest", n)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", jobproxy.ErrInvalid, err)
	}
	if a.Images.Cache == nil {
		return &image.Error{Reason: image.Unavailable, Image: n.String(), Err: errors.New(a.Images.Missing)}
	}
	if archives := wanted.GetLayers(); len(archives) > 1 || len(archives) == 1 && len(archives[0].GetSha256()) != len(checksum.Sum{}) {
		return fmt.Errorf("%w: image %s: the scheduler gave no valid archive", jobproxy.ErrInvalid, n)
	}
	d.Image = &jobproxy.Image{Name: n.String(), Digest: n.Digest, Directory: a.Images.Cache.Directory, Writable: wanted.GetWritable(), Runtime: a.Images.Runtime}
	return nil
}

// describeLayers completes the description of a job whose root is made of files.
func (a *Agent) describeLayers(d *jobproxy.Description, wanted *nodev1.JobImage) error {
	const name = "of layer_paths"
	if a.Images.Cache == nil {
		return &image.Error{Reason: image.Unavailable, Image: name, Err: errors.New(a.Images.Missing)}
	}
	sums := make([]checksum.Sum, len(wanted.GetLayers()))
	for i, l := range wanted.GetLayers() {
		if copy(sums[i][:], l.GetSha256()) != len(sums[i]) || l.GetSize() < 0 {
			return fmt.Errorf("%w: layer_paths/%d has no valid SHA-256 or size", jobproxy.ErrInvalid, i)
		}
	}
	d.Image = &jobproxy.Image{Name: name, Digest: image.LayersDigest(sums), Directory: a.Images.Cache.Directory, Writable: wanted.GetWritable(), Runtime: a.Images.Runtime}
	return nil
}

// prepareLayers makes the root of a job from files of the scheduler. They are fetched only if the node has not unpacked them yet.
func (a *Agent) prepareLayers(ctx context.Context, j *job, id string) (*image.Image, error) {
	files := make([]image.LayerFile, len(j.layers))
	for i, l := range j.layers {
		var sum checksum.Sum
		copy(sum[:], l.GetSha256())
		files[i] = image.LayerFile{Sum: sum, Open: func() (io.ReadCloser, error) {
			content, err := a.fetchFile(ctx, j.number, cache.Key{Sum: sum}, l.GetSize())
			if err != nil {
				return nil, err
			}
			defer content.Release() // an open file stays readable
			return os.Open(content.Path)
		}}
	}
	return a.Images.Cache.PrepareLayers(ctx, files, id)
}

// prepareArchived makes an image ready that is in an archive of the scheduler. The archive is fetched only if the node does not have the image.
func (a *Agent) prepareArchived(ctx context.Context, j *job, n imagename.Name, id string) (*image.Image, error) {
	archive := j.layers[0]
	var sum checksum.Sum
	copy(sum[:], archive.GetSha256())
	return a.Images.Cache.PrepareArchived(ctx, n, func() (path string, release func(), err error) {
		content, err := a.fetchFile(ctx, j.number, cache.Key{Sum: sum}, archive.GetSize())
		if err != nil {
			return "", nil, err
		}
		return content.Path, content.Release, nil
	}, id)
}

// prepareImage makes the image of a job ready and then goes on with its start. An order that arrives meanwhile ends the
// job.
func (a *Agent) prepareImage(j *job, d *jobproxy.Description) {
	prepare := func(ctx context.Context) (*image.Image, error) { return a.prepareLayers(ctx, j, d.JobID) }
	if n, err := imagename.Parse(d.Image.Name); err == nil { // otherwise the root is made of layers
		prepare = func(ctx context.Context) (*image.Image, error) {
			if len(j.layers) > 0 {
				return a.prepareArchived(ctx, j, n, d.JobID)
			}
			return a.Images.Cache.PrepareAs(ctx, n, image.Account{Username: j.auth.GetUsername(), Password: j.auth.GetPassword()}, d.JobID)
		}
	}
	limit := time.Duration(d.PrepareTimeLimit)
	if limit == 0 {
		limit = preparationLimit
	}
	ctx, cancel := context.WithTimeout(a.ctx, limit)
	j.preparing = cancel
	a.work(func() {
		defer cancel()
		began := time.Now()
		ready, err := prepare(ctx)
		if err == nil {
			err = a.addImage(d, ready)
		}
		a.post(func() {
			j.preparing = nil
			switch {
			case j.result != nil:
				a.Images.Cache.Release(d.JobID)
			case errors.Is(err, context.DeadlineExceeded):
				a.finish(j, notStarted(j, reasonRootNotPrepared, fmt.Sprintf("image %s was not ready within %v", d.Image.Name, limit)))
			case err != nil:
				a.blameImage(err)
				a.finish(j, cannotStart(j, err))
			default:
				a.images.trouble = ""
				d.Image.Preparation = jobproxy.Duration(time.Since(began))
				a.launchPrepared(j, d)
			}
			a.listImages()
		})
	})
}

// addImage completes the description of a job with its image.
func (a *Agent) addImage(d *jobproxy.Description, ready *image.Image) error {
	uid, gid := os.Getuid(), os.Getgid()
	if c := d.Credential; c != nil {
		uid, gid = int(c.UID), int(c.GID)
	}
	files, err := a.Images.Cache.Files(uid, gid, jobinit.SandboxPath)
	if err != nil {
		return err
	}
	i := d.Image
	for _, f := range files {
		i.Files = append(i.Files, jobproxy.ImageFile(f))
	}
	points := a.images.points
	if d.GPUs != nil && len(d.GPUs.Mounts) > 0 {
		if points, err = a.points(d.GPUs.Mounts); err != nil {
			return err
		}
	}
	i.Layers = append([]string{points}, ready.Layers...)
	i.Environment, i.WorkingDir, i.Shell = ready.Environment, ready.Directory, ready.Shell
	return nil
}

// blameImage remembers trouble that the image is not at fault for, so that the node can report it.
func (a *Agent) blameImage(err error) {
	a.Log.Warn("an image cannot be used", "error", err)
	var failed *image.Error
	if errors.As(err, &failed) && !failed.Reason.IsImages() {
		a.images.trouble = failed.Error()
	}
}

// imageAlerts says why jobs with images do not start here.
func (a *Agent) imageAlerts() []string {
	if a.images.trouble == "" {
		return nil
	}
	return []string{"image_not_prepared: " + a.images.trouble}
}

// imageResult is the result of a job whose image cannot be used: it fails if no other node could use it either.
func imageResult(j *job, failed *image.Error) *nodev1.JobResult {
	result := notStarted(j, reasonRootNotPrepared, failed.Error())
	result.Error.Attributes = []*nodev1.Attribute{{Name: "image", Value: failed.Image}, {Name: "reason", Value: string(failed.Reason)}}
	if failed.Reason.IsImages() {
		result.State, result.AbortReason = nodev1.JobState_JOB_STATE_FAILED, ""
	}
	return result
}

// keepImage keeps the image of a job that an earlier incarnation of the agent started.
func (a *Agent) keepImage(d *jobproxy.Description) {
	if d.Image != nil && a.Images.Cache != nil && len(d.Image.Layers) > 0 {
		a.Images.Cache.Keep(d.Image.Digest, d.Image.Layers[1:], d.JobID) // the first one is not the image's
	}
}

// releaseImage notes that a job has ended: its root is gone.
func (a *Agent) releaseImage(j *job) {
	if a.Images.Cache != nil {
		a.Images.Cache.Release(j.identity.GetJobId())
	}
}

// tendImages deletes images if the disk runs full, and looks what there is, outside the loop.
func (a *Agent) tendImages() {
	if a.Images.Cache != nil && a.health.disk >= diskLow {
		a.work(a.Images.Cache.Shrink)
	}
	a.listImages()
}

// pruneImages deletes the images that no job uses, outside the loop.
func (a *Agent) pruneImages() {
	if a.Images.Cache == nil {
		return
	}
	a.work(func() {
		a.Images.Cache.Trim(0)
		a.post(a.listImages)
	})
}

// listImages reads the list of images that the node reports, outside the loop.
func (a *Agent) listImages() {
	if a.Images.Cache == nil || a.images.listing {
		return
	}
	a.images.listing = true
	a.work(func() {
		var list []*nodev1.CachedImage
		for _, i := range a.Images.Cache.List() {
			if len(list) == maxImages {
				break
			}
			list = append(list, &nodev1.CachedImage{
				Name: i.Name, Digest: i.Digest, Size: i.Size, LastUseUs: nodeproto.ToMicros(i.LastUse), Jobs: int32(i.Jobs),
			})
		}
		a.post(func() {
			a.images.listing, a.images.list = false, list
			a.tellNode()
		})
	})
}
