package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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

// runtimePatience is how long an OCI runtime may take to answer.
const runtimePatience = 10 * time.Second

// useRuntime has an OCI runtime make the containers of jobs in images. If it cannot be used, the node runs no such jobs and says so.
func useRuntime(ctx context.Context, images *agent.Images, c *config.Node) (alerts []string) {
	name, given := c.OCIRuntime.Get()
	if !given || images.Cache == nil {
		return nil
	}
	path, err := exec.LookPath(name)
	switch {
	case err != nil:
	case !c.Supervisor.Value():
		err = errors.New("it needs node/supervisor")
	default:
		ctx, cancel := context.WithTimeout(ctx, runtimePatience)
		defer cancel()
		var out []byte
		if out, err = exec.CommandContext(ctx, path, "--version").CombinedOutput(); err != nil {
			err = fmt.Errorf("%s --version: %w: %s", path, err, strings.TrimSpace(string(out)))
		}
	}
	if err != nil {
		text := "oci_runtime_unusable: " + name + ": " + err.Error()
		*images = agent.Images{Missing: text}
		return []string{text}
	}
	images.Runtime = path
	return nil
}

func imageOptions(c *config.NodeImages, directory string, registries *image.Registries, log *slog.Logger) image.Options {
	o := image.DefaultOptions()
	o.Directory, o.Registries, o.Preload, o.Log = directory, registries, c.Preload.Value(), log
	o.Size = c.CacheSize.Or(o.Size)
	o.Largest = image.Limits{Size: c.MaxSize.Or(o.Largest.Size), Entries: c.MaxFiles.Or(o.Largest.Entries)}
	o.Attempts = c.MaxAttempts.Or(o.Attempts)
	return o
}
