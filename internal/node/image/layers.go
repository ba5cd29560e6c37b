package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/imagename"
)

// LayerFile is a file that is a layer of a root: a tar archive, plain or packed with gzip or zstd.
type LayerFile struct {
	Sum  checksum.Sum
	Open func() (io.ReadCloser, error)
}

// LayersDigest names the root that files make, the uppermost first.
func LayersDigest(sums []checksum.Sum) string {
	all := sha256.New()
	_, _ = all.Write([]byte("layers\n")) // a hash takes everything
	for _, sum := range sums {
		_, _ = all.Write(sum[:])
	}
	return digestStart + hex.EncodeToString(all.Sum(nil))
}

// layersName is what errors call a root of files.
const layersName = "of layer_paths"

// PrepareLayers makes a root of files ready for a job, the uppermost first. The job holds it until Release. Files are opened only if
// the cache does not have their layers. The error is an *Error unless the context ended.
func (c *Cache) PrepareLayers(ctx context.Context, files []LayerFile, job string) (*Image, error) {
	sums := make([]checksum.Sum, len(files))
	layers := make([]layer, len(files)) // the base first
	for i, f := range files {
		sums[i] = f.Sum
		layers[len(files)-1-i] = layer{diffID: digestStart + f.Sum.String(), open: f.Open, isFile: true}
	}
	n := imagename.Name{Digest: LayersDigest(sums)}
	done, err := c.wait(ctx, "image "+n.Digest)
	if err != nil {
		return nil, err
	}
	defer done()
	img, err := c.use(n, job, func() error { return c.add(ctx, &record{Version: recordVersion, Digest: n.Digest}, layers) })
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &Error{Reason: reasonOf(err, Unavailable), Image: layersName, Err: err}
	}
	return img, nil
}

// decompress returns the tar archive in a file, whose first bytes tell how it is packed.
func decompress(from io.Reader) (io.ReadCloser, error) {
	const enough = 6
	file := bufio.NewReader(from)
	start, err := file.Peek(enough)
	if err != nil && err != io.EOF {
		return nil, err
	}
	starts := func(with ...byte) bool { return bytes.HasPrefix(start, with) }
	switch {
	case starts(0x1f, 0x8b):
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			return nil, invalidUnlessRead(err)
		}
		return unpacked, nil
	case starts(0x28, 0xb5, 0x2f, 0xfd):
		unpacked, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, invalidUnlessRead(err)
		}
		return unpacked.IOReadCloser(), nil
	case starts('h', 's', 'q', 's'):
		return nil, faultf(Invalid, "it is a squashfs file system; layers must be tar archives, plain or packed with gzip or zstd")
	case starts(0xfd, '7', 'z', 'X', 'Z'), starts('B', 'Z', 'h'):
		return nil, faultf(Invalid, "it is packed with xz or bzip2; layers must be tar archives, plain or packed with gzip or zstd")
	}
	return io.NopCloser(file), nil
}
