package config

import (
	"path"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/imagename"
)

// Registry configures how one registry of container images is reached.
type Registry struct {
	Host, Mirror, CA, AuthFile opt[string]
	Insecure                   opt[bool]
}

var registryTable = document.NewTable(
	document.Maybe("host", "The registry as names of images have it, with its port if it has one.", func(c *Registry) *opt[string] { return &c.Host }, registryHosts),
	document.Maybe("mirror", "A registry to ask first.", func(c *Registry) *opt[string] { return &c.Mirror }, registryHosts),
	document.Maybe("ca", "File with the authorities, in PEM, that issued its certificate.", func(c *Registry) *opt[string] { return &c.CA }, document.Words),
	document.Maybe("auth_file", "File with credentials, like docker's config.json.", func(c *Registry) *opt[string] { return &c.AuthFile }, document.Words),
	document.Maybe("insecure", "It may be reached without TLS.", func(c *Registry) *opt[bool] { return &c.Insecure }, document.Bools),
)

var (
	registryHosts = document.Texts.That("a host like registry.example:5000", document.RuleBadFormat, func(s string) bool {
		n, err := imagename.Parse(s + "/x")
		return err == nil && n.Registry == s
	})
	registryPatterns = document.Distinct(document.ListOf(document.Texts.That("a host like registry.example:5000, in which * stands for any text", document.RuleBadFormat, func(s string) bool {
		_, err := path.Match(s, "")
		return err == nil && s != ""
	})), func(a, b string) bool { return a == b })
)

// Images configures where images may come from.
type Images struct {
	Registries opt[[]Registry]
	Allowed    opt[[]string]
}

func imageRows() []row[Images] {
	return []row[Images]{
		fixed("registries", "How registries are reached: a list of maps with host, mirror (a registry to ask first), ca, auth_file (credentials like docker's config.json, readable for the owner only) "+
			"and insecure (it may be reached without TLS). Others are reached over TLS and without credentials.",
			func(c *Images) *opt[[]Registry] { return &c.Registries }, document.ListOf(registryTable.Type())).noFlag(),
		fixed("allowed_registries", "Registries that images may come from; * stands for any text. Unset: all.",
			func(c *Images) *opt[[]string] { return &c.Allowed }, registryPatterns),
	}
}

func imagesGroup() *group[Images] {
	return newGroup(imageRows())
}

// NodeImages configures the images of a node.
type NodeImages struct {
	Images
	Preload               opt[[]string]
	CacheSize, MaxSize    opt[int64]
	MaxFiles, MaxAttempts opt[int]
}

func nodeImagesGroup() *group[NodeImages] {
	return newGroup(
		within(imageRows(), func(c *NodeImages) *Images { return &c.Images }),
		[]row[NodeImages]{
			fixed("preload", "Directories with images that need no registry: OCI layouts, and files *.tar that docker save wrote.",
				func(c *NodeImages) *opt[[]string] { return &c.Preload }, paths),
			fixed("cache_size", "How much the layers of images may take. If they take more, images that no job uses are deleted, the least recently used first, until four fifths are left.",
				func(c *NodeImages) *opt[int64] { return &c.CacheSize }, memory.Default(20<<30)),
			fixed("max_unpacked_size", "The largest image, unpacked.",
				func(c *NodeImages) *opt[int64] { return &c.MaxSize }, memory.Default(20<<30)),
			fixed("max_files", "The most files of an image.",
				func(c *NodeImages) *opt[int] { return &c.MaxFiles }, document.AtLeast(document.Ints, 1).Default(2_000_000)),
			fixed("max_attempts", "How often an image is asked for whose registry does not answer, with pauses that grow from a second to half a minute, before the job is aborted.",
				func(c *NodeImages) *opt[int] { return &c.MaxAttempts }, document.Between(document.Ints, 1, 1000).Default(6)),
		},
	)
}
