package cli

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/value/imagename"
)

func newImageCommand(opts *options) *cobra.Command {
	r := newRemote(opts)
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Put container images into the cluster, list and remove them",
		Long: `Put container images into the cluster, so that jobs on all nodes can use them without a registry: weir run --image NAME, or
docker_image of a task. An image of the cluster is an archive in //sys/images/NAME/TAG; a node fetches it when its first job
needs it.`,
		Example: `  weir image load train.tar
  weir image list
  weir run --image team/train:v1 -- ls /`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImageLoadCommand(r), newImagePushCommand(r), newImageListCommand(r), newImageRemoveCommand(r), newImagePruneCommand(r))
	return r.addTo(cmd)
}

// clusterImages is the directory of the cluster's images.
const clusterImages = "//sys/images"

// digestAttribute of an image's file names the image in the archive.
const digestAttribute = "image_digest"

const aboutImageFiles = `The file is an archive that docker save or podman save has written, or a tar archive with an OCI layout; both may be packed with gzip or
zstd. A directory must be an OCI layout. The command reads it whole and compares everything with its digests before it sends anything.`

func newImageLoadCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE|DIRECTORY",
		Short: "Put the images of an archive or OCI layout into the cluster, under their own names",
		Long: `Put the images of an archive or OCI layout into the cluster, under the names that the file gives them. An image of the same name is
replaced; operations that have started keep theirs. ` + aboutImageFiles,
		Example: `  docker save team/train:v1 -o train.tar && weir image load train.tar
  weir image load train.tar -o json`,
		Args: oneName("file or directory"),
		RunE: r.do(func(s *session, args []string) error { return s.loadImages(args[0], imagename.Name{}) }),
	}
}

func newImagePushCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "push NAME FILE|DIRECTORY",
		Short: "Put the image of an archive or OCI layout into the cluster, under another name",
		Long: `Put the only image of an archive or OCI layout into the cluster as IMAGE[:TAG], whatever its name in the file is. An image of the same
name is replaced; operations that have started keep theirs. ` + aboutImageFiles,
		Example: `  weir image push team/train:v2 train.tar`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageErrorf("push needs the name of the image and a file or directory")
			}
			return nil
		},
		RunE: r.do(func(s *session, args []string) error {
			n, err := clusterName(args[0])
			if err != nil {
				return err
			}
			return s.loadImages(args[1], n)
		}),
	}
}

// clusterName reads the name of an image of the cluster.
func clusterName(text string) (imagename.Name, error) {
	n, err := imagename.Parse(text)
	switch {
	case err != nil:
		return n, usageErrorf("%v", err)
	case n.Registry != "":
		return n, usageErrorf("%s names the registry %s; images of the cluster have none, as in %s", text, n.Registry, n.Repository)
	case n.Digest != "":
		return n, usageErrorf("%s has a digest; name the image by its tag", text)
	}
	return n.Tagged(), nil
}

// imagePath is where the tree has an image of the cluster.
func imagePath(n imagename.Name) string { return clusterImages + "/" + n.Repository + "/" + n.Tag }

// loadedImage is an image that has been put into the cluster.
type loadedImage struct {
	Name   string `yson:"name" json:"name"`
	Digest string `yson:"digest" json:"digest"`
	Size   int64  `yson:"size" json:"size"` // of the archive
}

// loadImages puts the images of a file into the cluster. Nothing is sent unless all of them are sound and have names.
func (s *session) loadImages(source string, as imagename.Name) (err error) {
	file, images, err := openImages(source)
	if err != nil {
		return err
	}
	defer file.remove()
	if as.Repository != "" {
		if len(images) != 1 {
			return usageErrorf("%s has %d images; weir image load takes them all under their own names", source, len(images))
		}
		as.Digest = images[0].Name.Digest
		images[0].Name = as
	}
	for i := range images {
		l := &images[i]
		if l.Name.Repository == "" {
			return usageErrorf("the image %s in %s has no name; give it one: weir image push NAME %s", l.Name.Digest, source, source)
		}
		l.Name.Registry = "" // a name of the cluster
		l.Name = withDigest(l.Name.Tagged(), l.Name.Digest)
		if i > 0 && l.Name.Digest == images[i-1].Name.Digest {
			continue
		}
		fmt.Fprintf(s.errs, "weir: checking %s\n", l.Name.Tagged())
		if _, err := l.Check(); err != nil {
			return fmt.Errorf("%s: image %s: %w", source, l.Name.Tagged(), err)
		}
	}
	sum, size, err := sumFile(file.path)
	if err != nil {
		return err
	}
	var loaded []loadedImage
	for i := range images {
		n := images[i].Name
		if err := s.sendImage(n, file.path, sum.String(), size); err != nil {
			return fmt.Errorf("image %s: %w", n.Tagged(), err)
		}
		loaded = append(loaded, loadedImage{n.Tagged().String(), n.Digest, size})
	}
	return s.opts.print(s.out, loaded, func(w io.Writer) error {
		for _, l := range loaded {
			if _, err := fmt.Fprintf(w, "%s@%s\n", l.Name, l.Digest); err != nil {
				return err
			}
		}
		return nil
	})
}

func withDigest(n imagename.Name, digest string) imagename.Name {
	n.Digest = digest
	return n
}

// sendImage writes an image under another name first, so that the name never has half an image.
func (s *session) sendImage(n imagename.Name, file, sum string, size int64) error {
	path := imagePath(n)
	if s.text(path+"/@content_hash") == sum && s.text(path+"/@"+digestAttribute) == n.Digest {
		return nil
	}
	draft := clusterImages + "/.draft-" + sum[:16]
	_, err := s.Create(s.ctx, "file", draft, map[string]any{digestAttribute: n.Digest}, client.WriteOptions{Recursive: true, Force: true})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.errs, "weir: sending %s, %d bytes\n", n.Tagged(), size)
	_, err = s.Bytes(s.ctx, client.Request{
		Command: "write_file", Parameters: map[string]any{"path": draft, "sha256": sum},
		Content: &client.Content{Size: size, Open: func() (io.ReadCloser, error) { return os.Open(file) }},
	})
	if err == nil {
		_, err = s.Move(s.ctx, draft, path, client.WriteOptions{Recursive: true, Force: true})
	}
	if err != nil {
		return errors.Join(err, s.Remove(s.ctx, draft, client.WriteOptions{Force: true}))
	}
	return nil
}

// text reads an attribute; it is empty if there is none.
func (s *session) text(path string) string {
	value, err := s.Get(s.ctx, path, client.ReadOptions{})
	if err != nil {
		return ""
	}
	text, _ := value.Text()
	return text
}

// imageFile is a tar archive that is not packed; a temporary one if the user has given another form.
type imageFile struct {
	path      string
	temporary bool
}

func (f imageFile) remove() {
	if f.temporary {
		os.Remove(f.path)
	}
}

// openImages returns the images of a file or directory, and the archive that has them.
func openImages(source string) (file imageFile, images []image.Local, err error) {
	info, err := os.Stat(source)
	if err != nil {
		return file, nil, usageErrorf("%v", err)
	}
	defer func() {
		if err != nil {
			file.remove()
		}
	}()
	if info.IsDir() {
		if images, err = image.ReadFile(source); err == nil { // names may come from the directory
			file, err = temporaryArchive(func(w io.Writer) error { return packDirectory(w, source) })
		}
	} else {
		if file, err = plainArchive(source); err == nil {
			images, err = image.ReadFile(file.path)
		}
	}
	switch {
	case err != nil:
		return file, nil, fmt.Errorf("%s: %w", source, err)
	case len(images) == 0:
		return file, nil, fmt.Errorf("%s: it has no images", source)
	}
	return file, images, nil
}

// plainArchive unpacks a file that is packed.
func plainArchive(source string) (imageFile, error) {
	file, err := os.Open(source)
	if err != nil {
		return imageFile{}, err
	}
	defer file.Close()
	start := make([]byte, 4)
	if _, err := io.ReadFull(file, start); err != nil {
		return imageFile{}, errors.New("it is no archive: it is too short")
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return imageFile{}, err
	}
	var plain io.Reader
	switch {
	case start[0] == 0x1f && start[1] == 0x8b:
		plain, err = gzip.NewReader(file)
	case string(start) == "\x28\xb5\x2f\xfd":
		decoder, failed := zstd.NewReader(file)
		if failed == nil {
			defer decoder.Close()
		}
		plain, err = decoder, failed
	default:
		return imageFile{path: source}, nil
	}
	if err != nil {
		return imageFile{}, err
	}
	return temporaryArchive(func(w io.Writer) error { _, err := io.Copy(w, plain); return err })
}

// temporaryArchive writes an archive to a temporary file.
func temporaryArchive(write func(io.Writer) error) (f imageFile, err error) {
	file, err := os.CreateTemp("", "weir-image-*.tar")
	if err != nil {
		return f, err
	}
	f = imageFile{file.Name(), true}
	if err = errors.Join(write(file), file.Close()); err != nil {
		f.remove()
		return imageFile{}, err
	}
	return f, nil
}

// packDirectory writes the files of an OCI layout as a tar archive. Equal layouts give equal archives.
func packDirectory(to io.Writer, directory string) error {
	archive := tar.NewWriter(to)
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size()}); err != nil {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(archive, file)
		return err
	})
	return errors.Join(err, archive.Close())
}

// listedImage is an image that jobs can use without a registry, or that nodes have fetched from one.
type listedImage struct {
	Name   string `yson:"name" json:"name"`
	Digest string `yson:"digest" json:"digest"`
	// ArchiveSize is that of an image of the cluster, else zero. Size is what the image takes on nodes, zero if no node has unpacked it.
	ArchiveSize int64    `yson:"archive_size" json:"archive_size"`
	Size        int64    `yson:"size" json:"size"`
	Owner       string   `yson:"owner" json:"owner"`
	Nodes       []string `yson:"nodes" json:"nodes"`
	Jobs        int64    `yson:"job_count" json:"job_count"`
}

func newImageListCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the images of the cluster, and those that nodes have",
		Long: `List the images of the cluster, which every node can use, and those that nodes have: in their files, or fetched from a registry. SIZE is
what an image takes on a node, unpacked, if a node has it.`,
		Example: `  weir image list
  weir image list -o json`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			images, err := s.listImages()
			if err != nil {
				return err
			}
			return s.opts.print(s.out, images, func(w io.Writer) error { return writeImages(w, images) })
		}),
	}
}

// listImages returns the images of the cluster and of its nodes, by name and digest.
func (s *session) listImages() ([]listedImage, error) {
	images := []listedImage{}
	tree, err := s.Get(s.ctx, clusterImages, client.ReadOptions{Attributes: []string{"type", digestAttribute, "uncompressed_data_size", "owner"}})
	if err != nil {
		return nil, err
	}
	collectImages(tree, "", &images)
	nodes, err := s.ListNodes(s.ctx, client.NodeFilter{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Nodes {
		for _, has := range n.Images {
			at := slices.IndexFunc(images, func(i listedImage) bool { return i.Name == has.Name && i.Digest == has.Digest })
			if at < 0 {
				at = len(images)
				images = append(images, listedImage{Name: has.Name, Digest: has.Digest})
			}
			i := &images[at]
			i.Size = max(i.Size, has.Size)
			i.Jobs += has.Jobs
			i.Nodes = append(i.Nodes, n.Name)
		}
	}
	slices.SortFunc(images, func(a, b listedImage) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest))
	})
	return images, nil
}

// collectImages adds the images below a directory of the tree.
func collectImages(at client.Value, repository string, images *[]listedImage) {
	for key, child := range at.Entries() {
		if digest, isImage := child.Attribute(digestAttribute).Text(); isImage {
			size, _ := child.Attribute("uncompressed_data_size").Int()
			owner, _ := child.Attribute("owner").Text()
			if !strings.HasPrefix(key, ".") {
				*images = append(*images, listedImage{Name: repository + ":" + key, Digest: digest, ArchiveSize: size, Owner: owner})
			}
			continue
		}
		collectImages(child, strings.TrimPrefix(repository+"/"+key, "/"), images)
	}
}

func writeImages(w io.Writer, images []listedImage) error {
	t := newTable(w)
	t.row("IMAGE", "DIGEST", "SIZE", "ARCHIVE", "OWNER", "NODES", "JOBS")
	t.alignRight(2, 3, 5, 6)
	t.fit(widthOf(w), 0)
	for i := range images {
		m := &images[i]
		t.row(orNothing(m.Name), shortDigest(m.Digest), sizeOrNothing(m.Size), sizeOrNothing(m.ArchiveSize), orNothing(m.Owner), fmt.Sprint(len(m.Nodes)), fmt.Sprint(m.Jobs))
	}
	return t.flush()
}

// shortDigest is as much of a digest as docker shows.
func shortDigest(digest string) string {
	const shown = 12
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(len(hex), shown)]
}

func sizeOrNothing(size int64) string {
	if size == 0 {
		return orNothing("")
	}
	return amountText("memory", float64(size))
}

func newImagePruneCommand(r *remote) *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete the images on nodes that no job uses",
		Long: `Delete the images on nodes that no job uses, to free disk space now: nodes do it themselves when their cache is full. The images of the
cluster stay, and a node fetches one again when its next job needs it.`,
		Example: `  weir image prune
  weir image prune --node node-1`,
		Args: noArgs,
		RunE: r.do(func(s *session, _ []string) error {
			if len(names) == 0 {
				list, err := s.ListNodes(s.ctx, client.NodeFilter{State: "online"})
				if err != nil {
					return err
				}
				for i := range list.Nodes {
					if len(list.Nodes[i].Images) > 0 {
						names = append(names, list.Nodes[i].Name)
					}
				}
			}
			var problems []error
			pruned := []string{}
			for _, name := range names {
				if err := s.PruneImages(s.ctx, name); err != nil {
					problems = append(problems, fmt.Errorf("node %s: %w", name, err))
					continue
				}
				pruned = append(pruned, name)
			}
			err := s.opts.print(s.out, map[string]any{"nodes": pruned}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: images that no job uses are being deleted\n", plural(int64(len(pruned)), "node", "nodes"))
				return err
			})
			return errors.Join(append(problems, err)...)
		}),
	}
	cmd.Flags().StringArrayVar(&names, "node", nil, "only this node (repeatable); if unset, all that have images")
	return cmd
}

func newImageRemoveCommand(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME...",
		Aliases: []string{"rm"},
		Short:   "Remove images from the cluster",
		Long: `Remove images from the cluster. Operations that have started keep their images. Nodes keep what they have unpacked until they need the
space, or until weir image prune.`,
		Example: `  weir image remove team/train:v1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageErrorf("remove needs the name of an image")
			}
			return nil
		},
		RunE: r.do(func(s *session, args []string) error {
			for _, text := range args {
				n, err := clusterName(text)
				if err != nil {
					return err
				}
				if err := s.Remove(s.ctx, imagePath(n), client.WriteOptions{}); err != nil {
					return fmt.Errorf("image %s: %w", n, err)
				}
			}
			return nil
		}),
	}
}
