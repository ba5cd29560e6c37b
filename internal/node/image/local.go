package image

import (
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
	"github.com/google/go-containerregistry/pkg/v1/layout"
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

// findLocal lists the images below directories: OCI layouts, and archives that "docker save" writes. What cannot be read
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
			read := readArchive
			switch info, err := os.Stat(path); {
			case err != nil:
				problems = append(problems, err)
				continue
			case info.IsDir():
				if _, err := os.Stat(filepath.Join(path, "oci-layout")); err != nil {
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

// readLayout lists the images of an OCI layout.
func readLayout(path string) (found []Local, err error) {
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, descriptor := range manifest.Manifests {
		n := localName(descriptor.Annotations[refName], strings.TrimSuffix(filepath.Base(path), ".oci"))
		n.Digest = descriptor.Digest.String()
		found = append(found, Local{Name: n, Source: path, open: func() (v1.Image, error) {
			if !descriptor.MediaType.IsIndex() {
				return index.Image(descriptor.Digest)
			}
			inner, err := index.ImageIndex(descriptor.Digest)
			if err != nil {
				return nil, err
			}
			return fromIndex(inner)
		}})
	}
	return found, nil
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
