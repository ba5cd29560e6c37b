package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/weirhq/weir/internal/value/imagename"
)

// platform is what images must be made for.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// open finds an image by its digest: among the files of the node, then in its registry.
func (c *Cache) open(ctx context.Context, n imagename.Name, as Account) (img v1.Image, hasManifest bool, err error) {
	local, problem := findLocal(c.Preload)
	if found, ok := withDigest(local, n.Digest); ok {
		img, err := found.open()
		if err != nil && reasonOf(err, "") == "" {
			err = &fault{Invalid, fmt.Errorf("%s: %w", found.Source, err)}
		}
		return img, !found.isArchive, err
	}
	if problem != nil {
		c.Log.Warn("images of the node cannot be read", "error", problem)
	}
	if n.Registry == "" {
		return nil, false, faultf(Unknown, "this node does not have it, and its name has no registry")
	}
	img, err = ask(ctx, c.Registries, n, as, func(reference name.Reference, options []remote.Option) (v1.Image, error) {
		described, err := remote.Get(reference, options...)
		if err != nil {
			return nil, err
		}
		if !described.MediaType.IsIndex() {
			return described.Image()
		}
		index, err := described.ImageIndex()
		if err != nil {
			return nil, err
		}
		return fromIndex(index)
	})
	return img, true, err
}

// fromIndex opens the image for this machine.
func fromIndex(index v1.ImageIndex) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	descriptor, err := forThisMachine(manifest)
	if err != nil {
		return nil, err
	}
	return index.Image(descriptor.Digest)
}

// forThisMachine picks the first image of an index that this machine can run.
func forThisMachine(index *v1.IndexManifest) (v1.Descriptor, error) {
	var others []string
	for _, descriptor := range index.Manifests {
		switch p := descriptor.Platform; {
		case p == nil || p.OS == platform.OS && p.Architecture == platform.Architecture:
			return descriptor, nil
		default:
			others = append(others, p.OS+"/"+p.Architecture)
		}
	}
	return v1.Descriptor{}, faultf(WrongPlatform, "it is for %s, and this node is %s/%s", strings.Join(others, ", "), platform.OS, platform.Architecture)
}

// layer is one layer of an image that has been found.
type layer struct {
	diffID string
	open   func() (io.ReadCloser, error) // not compressed, unless it is a file
	isFile bool                          // the id is that of the file, which may be compressed
}

// contents are what a node needs to know about an image before it fetches the layers.
type contents struct {
	config v1.Config
	layers []layer // the base first
	// compressed is the size of the layers as they are fetched; zero if not known.
	compressed int64
}

// read reads the configuration and lists the layers of an image. It asks for sizes only if the image has a manifest: the
// library would make one for an image in an archive, and compress everything for it.
func read(img v1.Image, hasManifest bool) (*contents, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	if config.OS != "" && config.OS != platform.OS || config.Architecture != "" && config.Architecture != platform.Architecture {
		return nil, faultf(WrongPlatform, "it is for %s/%s, and this node is %s/%s", config.OS, config.Architecture, platform.OS, platform.Architecture)
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 || len(layers) != len(config.RootFS.DiffIDs) {
		return nil, faultf(Invalid, "its manifest has %d layers and its configuration %d", len(layers), len(config.RootFS.DiffIDs))
	}
	c := &contents{config: config.Config}
	for i, l := range layers {
		media, err := l.MediaType()
		if err != nil {
			return nil, err
		}
		if !media.IsLayer() || !media.IsDistributable() {
			return nil, faultf(Invalid, "layer %d has the media type %s", i, media)
		}
		diffID := config.RootFS.DiffIDs[i].String()
		if !imagename.IsDigest(diffID) {
			return nil, faultf(Invalid, "layer %d has no sha256 diff id", i)
		}
		c.layers = append(c.layers, layer{diffID: diffID, open: l.Uncompressed})
	}
	if !hasManifest {
		return c, nil
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	for _, l := range manifest.Layers {
		c.compressed += l.Size
	}
	return c, nil
}

// stream marks the errors of a reader as those of a source.
type stream struct {
	io.Reader
}

func (s stream) Read(buffer []byte) (int, error) {
	n, err := s.Reader.Read(buffer)
	if err != nil && err != io.EOF {
		err = &readError{err}
	}
	return n, err
}

// readFault tells what an error of a source means.
func readFault(err error) error {
	var read *readError
	switch {
	case !errors.As(err, &read) || reasonOf(err, "") != "":
		return err
	case isMismatch(err):
		return &fault{Mismatch, err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(err.Error(), "gzip: invalid") || strings.Contains(err.Error(), "magic number mismatch"):
		return &fault{Invalid, err}
	}
	return &fault{Unavailable, err}
}
