package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/weirhq/weir/internal/value/imagename"
)

// Local is an image in a file or directory of the node.
type Local struct {
	Name   imagename.Name // with its digest; the repository is empty if the image has no name
	Source string

	isArchive bool
	open      func() (v1.Image, error)
}

// refName is where layouts keep the names of images.
const refName = "org.opencontainers.image.ref.name"

// findLocal lists the images below directories: OCI layouts, as directories or in tar archives, and archives that "docker save" writes. What cannot be read
// is an error beside the list, so that one broken file does not hide the others.
func findLocal(directories []string) (found []Local, err error) {
	var problems []error
	for _, directory := range directories {
		entries, err := os.ReadDir(directory) // sorted by name
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, entry := range entries {
			path := filepath.Join(directory, entry.Name())
			read := readTar
			switch info, err := os.Stat(path); {
			case err != nil:
				problems = append(problems, err)
				continue
			case info.IsDir():
				if _, err := os.Stat(filepath.Join(path, layoutMark)); err != nil {
					continue
				}
				read = readLayout
			case !strings.HasSuffix(path, ".tar"):
				continue
			}
			images, err := read(path)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", path, err))
			}
			found = append(found, images...)
		}
	}
	return found, errors.Join(problems...)
}

// readLayout lists the images of an OCI layout in a directory.
func readLayout(path string) (found []Local, err error) {
	return directoryFiles(path).images(path, layoutName(path))
}

// readTar lists the images of a tar archive: one that "docker save" writes, or an OCI layout.
func readTar(path string) (found []Local, err error) {
	files, has, err := archiveFiles(path)
	switch {
	case err != nil:
		return nil, err
	case has("manifest.json"):
		return readArchive(path)
	case has(layoutMark):
		return files.images(path, layoutName(path))
	}
	return nil, faultf(Invalid, "it has neither manifest.json, as archives of docker save do, nor %s", layoutMark)
}

// ReadFile lists the images of a directory or file.
func ReadFile(path string) ([]Local, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return readLayout(path)
	}
	return readTar(path)
}

// readArchive lists the images of an archive. Its manifest is the library's, not the registry's: such an image is known
// by the digest of its configuration, which "docker images" shows as its id.
func readArchive(path string) (found []Local, err error) {
	opener := func() (io.ReadCloser, error) { return os.Open(path) }
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, err
	}
	for _, described := range manifest {
		var tags []imagename.Name
		for _, text := range described.RepoTags {
			tags = append(tags, localName(text, ""))
		}
		if len(tags) == 0 {
			tags = append(tags, imagename.Name{})
		}
		var tag *name.Tag
		if len(manifest) > 1 && len(described.RepoTags) > 0 {
			first, err := name.NewTag(described.RepoTags[0])
			if err != nil {
				return found, err
			}
			tag = &first
		}
		open := func() (v1.Image, error) { return tarball.Image(opener, tag) }
		img, err := open()
		if err != nil {
			return found, err
		}
		id, err := img.ConfigName()
		if err != nil {
			return found, err
		}
		for _, n := range tags {
			n.Digest = id.String()
			found = append(found, Local{Name: n, Source: path, isArchive: true, open: open})
		}
	}
	return found, nil
}

// PrepareArchived makes an image ready for a job that is in an archive: in a tar file that docker save has written or with an OCI layout.
// The archive is fetched only if the cache does not have the image. The job holds it until Release. The error is an *Error
// unless the context ended.
func (c *Cache) PrepareArchived(ctx context.Context, n imagename.Name, fetch func() (path string, release func(), err error), job string) (*Image, error) {
	done, err := c.wait(ctx, "image "+n.Digest)
	if err != nil {
		return nil, err
	}
	defer done()
	img, err := c.use(n, job, func() error {
		path, release, err := fetch()
		if err != nil {
			return &fault{Unavailable, err}
		}
		defer release()
		local, err := readTar(path)
		if err != nil {
			return &fault{reasonOf(err, Invalid), err}
		}
		found, ok := withDigest(local, n.Digest)
		if !ok {
			return faultf(Mismatch, "the archive does not have it")
		}
		source, err := found.open()
		if err != nil {
			return &fault{reasonOf(err, Invalid), err}
		}
		return c.fetchFrom(ctx, n, source, !found.isArchive)
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, wrap(n, err)
	}
	return img, nil
}

// Check reads the image whole and compares its configuration and layers with their digests, as a node will. It returns the size of the
// layers, not packed.
func (l *Local) Check() (size int64, err error) {
	img, err := l.open()
	if err != nil {
		return 0, &fault{reasonOf(err, Invalid), err}
	}
	found, err := read(img, !l.isArchive)
	if err != nil {
		return 0, err
	}
	for _, layer := range found.layers {
		content, err := layer.open()
		if err != nil {
			return size, faultf(reasonOf(err, Invalid), "layer %s: %w", layer.diffID, err)
		}
		got, n, err := v1.SHA256(content)
		content.Close()
		size += n
		switch {
		case err != nil && isMismatch(err):
			return size, faultf(Mismatch, "layer %s: %w", layer.diffID, err)
		case err != nil:
			return size, faultf(Invalid, "layer %s: %w", layer.diffID, err)
		case got.String() != layer.diffID:
			return size, faultf(Mismatch, "layer %s has the content of %s", layer.diffID, got)
		}
	}
	return size, nil
}

// localName reads the name that a file gives an image. A name that is only a tag belongs to an image named after the
// file.
func localName(text, file string) imagename.Name {
	n, err := imagename.Parse(text)
	if err != nil {
		n = imagename.Name{}
	}
	if file != "" && (err != nil || !strings.ContainsAny(text, "/:")) {
		if named, err := imagename.Parse(strings.ToLower(file) + ":" + text); err == nil {
			return named
		}
	}
	return n
}

// withDigest returns the local image with a digest.
func withDigest(images []Local, digest string) (Local, bool) {
	i := slices.IndexFunc(images, func(l Local) bool { return l.Name.Digest == digest })
	if i < 0 {
		return Local{}, false
	}
	return images[i], true
}
