package jobproxy

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/node/jobinit"
)

// ownVariables are those of the job even if its image sets them: its directories must be its own.
var ownVariables = []string{"HOME", "TMPDIR", "USER", "LOGNAME", "SHELL"}

// addTo adds the variables of an image. A job without an image has none.
func (i *Image) addTo(variables map[string]string) {
	if i == nil {
		return
	}
	for _, text := range i.Environment {
		name, value, _ := strings.Cut(text, "=")
		if name != "" && !slices.Contains(ownVariables, name) && strings.IndexByte(text, 0) < 0 {
			variables[name] = value
		}
	}
}

// changesOf is the directory for the changes of a job in its image; empty if it must not change it.
func changesOf(dir string, job *Description) string {
	if job.Image == nil || !job.Image.Writable {
		return ""
	}
	return filepath.Join(dir, changesDir)
}

// Where the kernel keeps the changes of a job in its image, below the directory for them.
const (
	changedFiles = "files"
	changedWork  = "work"
)

// prepareImage makes room for what a job may change in its image.
func (s *sandbox) prepareImage(dir string, job *Description) error {
	if s.changes = changesOf(dir, job); s.changes == "" {
		return nil
	}
	files := filepath.Join(s.changes, changedFiles)
	return errors.Join(os.Mkdir(s.changes, 0o700), os.Mkdir(files, 0o755), os.Mkdir(filepath.Join(s.changes, changedWork), 0o700),
		chown(files, job.Credential))
}

// addImage makes the init assemble the root from the job's image.
func (p *proxy) addImage(plan *jobinit.Plan) {
	i := p.job.Image
	if i == nil {
		return
	}
	plan.LayerDir, plan.Layers = i.Directory, i.Layers
	if i.WorkingDir != "" {
		plan.Dir = i.WorkingDir
	}
	if p.sandbox.changes != "" {
		plan.Upper, plan.Work = filepath.Join(p.sandbox.changes, changedFiles), filepath.Join(p.sandbox.changes, changedWork)
	}
	for _, f := range i.Files {
		plan.Binds = append(plan.Binds, jobinit.Bind{Source: f.Source, Target: f.Path})
	}
}
