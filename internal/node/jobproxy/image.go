package jobproxy

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// accountsOf are the accounts that a job with an image sees: root, whose the image's files are, and itself.
func accountsOf(uid, gid int) (passwd, group string) {
	passwd, group = "root:x:0:0:root:/:/bin/sh\n", "root:x:0:\n"
	if uid != 0 {
		id, of := strconv.Itoa(uid), strconv.Itoa(gid)
		passwd += "weir:x:" + id + ":" + of + "::" + jobinit.SandboxPath + ":/bin/sh\n"
		group += "weir:x:" + of + ":\n"
	}
	return passwd, group
}

// prepareImage makes what a job with an image has of its own.
func (s *sandbox) prepareImage(dir string, job *Description) error {
	uid, gid := os.Getuid(), os.Getgid()
	if c := job.Credential; c != nil {
		uid, gid = int(c.UID), int(c.GID)
	}
	passwd, group := accountsOf(uid, gid)
	problems := []error{
		os.WriteFile(filepath.Join(dir, passwdFile), []byte(passwd), 0o644),
		os.WriteFile(filepath.Join(dir, groupFile), []byte(group), 0o644),
	}
	if s.changes = changesOf(dir, job); s.changes != "" {
		files := filepath.Join(s.changes, changedFiles)
		problems = append(problems, os.Mkdir(s.changes, 0o700), os.Mkdir(files, 0o755), os.Mkdir(filepath.Join(s.changes, changedWork), 0o700),
			chown(files, job.Credential))
	}
	return errors.Join(problems...)
}

// nodeFiles are files of the node that replace those of an image.
var nodeFiles = []string{"/etc/hosts", "/etc/resolv.conf"}

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
	plan.Binds = []jobinit.Bind{
		{Source: filepath.Join(p.dir, passwdFile), Target: "/etc/passwd"}, {Source: filepath.Join(p.dir, groupFile), Target: "/etc/group"},
	}
	for _, path := range nodeFiles {
		if _, err := os.Stat(path); err == nil {
			plan.Binds = append(plan.Binds, jobinit.Bind{Source: path, Target: path})
		}
	}
}
