package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/node/image"
)

// registriesOf is how registries are reached. It refuses files that cannot be used.
func registriesOf(c *config.Images) (*image.Registries, error) {
	r := &image.Registries{Allowed: c.Allowed.Value()}
	for _, entry := range c.Registries.Value() {
		r.List = append(r.List, image.Registry{
			Host: entry.Host.Value(), Mirror: entry.Mirror.Value(), CA: entry.CA.Value(), AuthFile: entry.AuthFile.Value(), Insecure: entry.Insecure.Value(),
		})
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	return r, nil
}

// imagesOf are the images of a node.
func imagesOf(c *config.NodeImages, directory string, log *slog.Logger) (agent.Images, error) {
	if os.Getuid() != 0 {
		return agent.Images{Missing: "jobs in images need an agent that runs as root"}, nil
	}
	registries, err := registriesOf(&c.Images)
	if err != nil {
		return agent.Images{}, err
	}
	cache, err := image.Open(imageOptions(c, filepath.Join(directory, "images"), registries, log))
	return agent.Images{Cache: cache}, err
}

func imageOptions(c *config.NodeImages, directory string, registries *image.Registries, log *slog.Logger) image.Options {
	o := image.DefaultOptions()
	o.Directory, o.Registries, o.Preload, o.Log = directory, registries, c.Preload.Value(), log
	o.Size = c.CacheSize.Or(o.Size)
	o.Largest = image.Limits{Size: c.MaxSize.Or(o.Largest.Size), Entries: c.MaxFiles.Or(o.Largest.Entries)}
	o.Attempts = c.MaxAttempts.Or(o.Attempts)
	return o
}
