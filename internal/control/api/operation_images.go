package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/imagename"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// resolvePatience is how long the start of an operation waits for registries.
const resolvePatience = 30 * time.Second

// fixImages replaces the tags of images that an operation names by digests, so that all of its jobs run the same image,
// whatever happens to the tags later. The names keep their tags for people.
// Images of the cluster become contents that files uses.
func (c *call) fixImages(spec *operation.Spec, files *fixedFiles) error {
	ctx, cancel := context.WithTimeout(c.Context, resolvePatience)
	defer cancel()
	resolved := map[imagename.Name]foundImage{}
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		text, given := task.Value.DockerImage.Get()
		if !given {
			continue
		}
		n, err := imagename.Parse(text)
		if err != nil { // it was valid when the specification was read
			return wire.Errorf(wire.CodeGeneric, "Task %s: docker_image cannot be used", task.Name).Because(err)
		}
		whole, known := resolved[n]
		if !known {
			if whole, err = c.resolveImage(ctx, n, image.Account(c.start.Account), files); err != nil {
				return c.imageError(task.Name, n, err)
			}
			resolved[n] = whole
		}
		task.Value.DockerImage = document.Some(whole.name.String())
		if !whole.archive.Sum.IsZero() {
			task.Value.LayerPaths = []document.Value{whole.archive.Inline()}
		}
	}
	return nil
}

// foundImage is an image with its digest, and if it is an image of the cluster, the archive that it is in.
type foundImage struct {
	name    imagename.Name
	archive operation.File
}

// resolveImage finds the digest of an image: in its registry, or for a name without one, among the images of the cluster
// and then among those that nodes report.
func (c *call) resolveImage(ctx context.Context, n imagename.Name, as image.Account, files *fixedFiles) (foundImage, error) {
	if n.Registry == "" {
		found, err := c.clusterImage(n, files)
		if err != nil || !found.archive.Sum.IsZero() {
			return found, err
		}
	}
	whole, err := c.resolveName(ctx, n, as)
	return foundImage{name: whole}, err
}

// Images of the cluster: //sys/images/REPOSITORY/TAG is an archive with the image whose digest is in an attribute.
const (
	imagesPath      = "//sys/images/"
	digestAttribute = "image_digest"
)

// clusterImage finds an image of the cluster. If there is none of this name, or the name has another digest, the archive is empty.
func (c *call) clusterImage(n imagename.Name, files *fixedFiles) (found foundImage, err error) {
	tagged := n.Tagged()
	f := operation.File{Name: "image", TreePath: imagesPath + tagged.Repository + "/" + tagged.Tag, Executable: document.Some(false)}
	path, err := ypath.Parse(f.TreePath)
	if err != nil {
		return found, err
	}
	t, err := c.Walk(path, false)
	if err != nil || len(t.Missing) > 0 {
		return found, err
	}
	node, isFile := t.Object.(*pathtree.PlainNode)
	if !isFile || node.Kind() != "file" {
		return found, nil
	}
	value, _, err := node.Attribute(c.Request, t.Place, digestAttribute)
	digest, _ := value.Text()
	switch {
	case err != nil:
		return found, err
	case !imagename.IsDigest(digest):
		return found, &image.Error{Reason: image.Invalid, Image: n.String(), Err: errors.New(f.TreePath + " was not written by weir image load: its attribute " +
			digestAttribute + " is no digest")}
	case n.Digest != "" && n.Digest != digest:
		return found, nil
	}
	if err := files.fixLayer(&f); err != nil {
		return found, err
	}
	tagged.Digest = digest
	return foundImage{tagged, f}, nil
}

// resolveName finds the digest of an image that the cluster does not have itself.
func (c *call) resolveName(ctx context.Context, n imagename.Name, as image.Account) (imagename.Name, error) {
	registries := c.api.options.Images
	switch {
	case n.Registry != "" && !registries.Allows(n.Registry):
		return n, &image.Error{Reason: image.NotAllowed, Image: n.String(), Err: errors.New("images from " + n.Registry + " are not allowed (images/allowed_registries)")}
	case n.Digest != "":
		return n, nil
	case n.Registry != "":
		return registries.Resolve(ctx, n, as)
	}
	return c.localImage(n)
}

// localImage finds an image that nodes have. All that have it must have the same.
func (c *call) localImage(n imagename.Name) (imagename.Name, error) {
	name, first := n.String(), ""
	var names []string
	nodes := slices.Clone(c.Server.Nodes())
	slices.SortFunc(nodes, func(a, b *server.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, node := range nodes {
		for _, has := range node.Status.Images {
			names = append(names, has.Name)
			switch {
			case has.Name != name || n.Digest != "" && has.Digest == n.Digest:
			case n.Digest != "":
				return n, &image.Error{Reason: image.Mismatch, Image: name, Err: errors.New("nodes have different images of this name (node " + first + " has " + n.Digest + ", node " +
					node.Name + " has " + has.Digest + "); name one by its digest: " + name + "@" + n.Digest)}
			default:
				n.Digest, first = has.Digest, node.Name
			}
		}
	}
	if n.Digest == "" {
		return n, &image.Error{Reason: image.Unknown, Image: name, Err: errors.New("the name has no registry, and neither the cluster nor a node has such an image (weir image list)" + others(names))}
	}
	return n, nil
}

// others lists the images that nodes have.
func others(names []string) string {
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
	const most = 5
	switch {
	case len(names) == 0:
		return "; weir image load puts one into the cluster"
	case len(names) > most:
		names = append(names[:most:most], "…")
	}
	return "; nodes have " + strings.Join(names, ", ")
}

// imageError explains why an operation cannot have an image.
func (c *call) imageError(task string, n imagename.Name, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && c.Context.Err() == nil {
		err = &image.Error{Reason: image.Unavailable, Image: n.String(), Err: errors.New("the registry did not answer within " + resolvePatience.String())}
	}
	refused := wire.Errorf(wire.CodeGeneric, "Task %s: image %s cannot be used", task, n).With("image", yson.String(n.String()))
	var failed *image.Error
	if errors.As(err, &failed) {
		refused = refused.With("reason", yson.String(string(failed.Reason)))
	}
	return refused.Because(err)
}
