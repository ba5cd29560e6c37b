package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/weirhq/weir/internal/value/imagename"
)

// Files of an OCI layout.
const (
	layoutMark  = "oci-layout"
	layoutIndex = "index.json"
	layoutBlobs = "blobs"
)

// layoutFiles opens the files of an OCI layout by their paths in it.
type layoutFiles func(name string) (io.ReadCloser, error)

// directoryFiles are the files of a layout that is a directory.
func directoryFiles(directory string) layoutFiles {
	return func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(directory, name)) }
}

// span is where a file is in an archive.
type span struct{ from, size int64 }

// archiveFiles are the files of a layout in a tar archive that is not packed. has reports whether the archive has a file.
func archiveFiles(archive string) (files layoutFiles, has func(string) bool, err error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	at := map[string]span{}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, faultf(Invalid, "it is no tar archive, or a packed one: %w", err)
		}
		from, err := file.Seek(0, io.SeekCurrent) // the reader does not read ahead
		if err != nil {
			return nil, nil, err
		}
		if header.Typeflag == tar.TypeReg {
			at[path.Clean(header.Name)] = span{from, header.Size}
		}
	}
	files = func(name string) (io.ReadCloser, error) {
		s, there := at[name]
		if !there {
			return nil, &fs.PathError{Op: "open", Path: archive + "/" + name, Err: fs.ErrNotExist}
		}
		file, err := os.Open(archive)
		if err != nil {
			return nil, err
		}
		return &section{io.NewSectionReader(file, s.from, s.size), file}, nil
	}
	return files, func(name string) bool { _, there := at[name]; return there }, nil
}

// section is a part of a file that is closed with it.
type section struct {
	io.Reader
	io.Closer
}

// maxDescription bounds manifests and configurations.
const maxDescription = 16 << 20

// describe reads a small file of a layout whole.
func (files layoutFiles) describe(name string) ([]byte, error) {
	file, err := files(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxDescription+1))
	if err == nil && len(text) > maxDescription {
		err = faultf(Invalid, "%s has more than %d bytes", name, maxDescription)
	}
	return text, err
}

// blobPath is where a layout has a content.
func blobPath(digest v1.Hash) (string, error) {
	if !imagename.IsDigest(digest.String()) {
		return "", faultf(Invalid, "%q is no sha256 digest", digest)
	}
	return path.Join(layoutBlobs, digest.Algorithm, digest.Hex), nil
}

// blob reads a small content and compares it with its digest.
func (files layoutFiles) blob(digest v1.Hash) ([]byte, error) {
	name, err := blobPath(digest)
	if err != nil {
		return nil, err
	}
	text, err := files.describe(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, faultf(Invalid, "the layout lacks %s", name)
	}
	if err != nil {
		return nil, err
	}
	switch got, _, err := v1.SHA256(bytes.NewReader(text)); {
	case err != nil:
		return nil, err
	case got != digest:
		return nil, faultf(Mismatch, "%s has the content of %s", name, got)
	}
	return text, nil
}

// images lists the images of a layout. named is what images are called whose names are only tags.
func (files layoutFiles) images(source, named string) (found []Local, err error) {
	if _, err := files.describe(layoutMark); err != nil {
		return nil, faultf(Invalid, "it is no OCI layout: %w", err)
	}
	text, err := files.describe(layoutIndex)
	if err != nil {
		return nil, faultf(Invalid, "it is no OCI layout: %w", err)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(text))
	if err != nil {
		return nil, faultf(Invalid, "%s: %w", layoutIndex, err)
	}
	for _, descriptor := range index.Manifests {
		n := localName(descriptor.Annotations[refName], named)
		n.Digest = descriptor.Digest.String()
		found = append(found, Local{Name: n, Source: source, open: func() (v1.Image, error) { return files.image(descriptor) }})
	}
	return found, nil
}

// image opens an image, or of several the one for this machine.
func (files layoutFiles) image(descriptor v1.Descriptor) (v1.Image, error) {
	text, err := files.blob(descriptor.Digest)
	if err != nil {
		return nil, err
	}
	if descriptor.MediaType.IsIndex() {
		index, err := v1.ParseIndexManifest(bytes.NewReader(text))
		if err != nil {
			return nil, faultf(Invalid, "%s: %w", descriptor.Digest, err)
		}
		inner, err := forThisMachine(index)
		if err != nil {
			return nil, err
		}
		if inner.MediaType.IsIndex() {
			return nil, faultf(Invalid, "%s is an index in an index", inner.Digest)
		}
		return files.image(inner)
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(text))
	if err != nil {
		return nil, faultf(Invalid, "%s: %w", descriptor.Digest, err)
	}
	config, err := files.blob(manifest.Config.Digest)
	if err != nil {
		return nil, err
	}
	if !json.Valid(config) {
		return nil, faultf(Invalid, "its configuration %s is not JSON", manifest.Config.Digest)
	}
	return partial.CompressedToImage(&layoutImage{files, descriptor.MediaType, text, config, manifest})
}

// layoutImage is an image of a layout, as the library wants it.
type layoutImage struct {
	files       layoutFiles
	media       types.MediaType
	raw, config []byte
	manifest    *v1.Manifest
}

func (i *layoutImage) MediaType() (types.MediaType, error) { return i.media, nil }
func (i *layoutImage) RawManifest() ([]byte, error)        { return i.raw, nil }
func (i *layoutImage) RawConfigFile() ([]byte, error)      { return i.config, nil }

// LayerByDigest returns a layer. Its content is compared with its diff id when it is unpacked.
func (i *layoutImage) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	for _, descriptor := range i.manifest.Layers {
		if descriptor.Digest == digest {
			return &layoutLayer{i.files, descriptor}, nil
		}
	}
	return nil, fmt.Errorf("the manifest has no layer %s", digest)
}

// layoutLayer is a layer of a layout, as the library wants it.
type layoutLayer struct {
	files      layoutFiles
	descriptor v1.Descriptor
}

func (l *layoutLayer) Digest() (v1.Hash, error)            { return l.descriptor.Digest, nil }
func (l *layoutLayer) Size() (int64, error)                { return l.descriptor.Size, nil }
func (l *layoutLayer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }
func (l *layoutLayer) Compressed() (io.ReadCloser, error) {
	name, err := blobPath(l.descriptor.Digest)
	if err != nil {
		return nil, err
	}
	file, err := l.files(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, faultf(Invalid, "the layout lacks %s", name)
	}
	return file, err
}

// layoutName is what images of a layout are called whose names are only tags: the name of the directory or file.
func layoutName(source string) string {
	name := filepath.Base(source)
	for _, end := range []string{".tar", ".oci"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
