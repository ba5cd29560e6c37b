package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// reloadPeriod is the interval between checks whether the files with keys and tokens have changed.
const reloadPeriod = 10 * time.Second

// reloader reads files again while a process runs: when they change, and when Reload is called.
type reloader struct {
	log   *slog.Logger
	asked chan struct{}

	mutex   sync.Mutex // held while sources are read
	sources []*source
}

// source is something that a process reads from files.
type source struct {
	// name is the setting or settings that name the files.
	name string
	// read reads the files and applies them. After an error the process continues with the previous
	// values.
	read func() error
	// files are watched for changes. If it is empty, the source is read only when Reload is called.
	files []string
	stamp string // of the files when they were read last
	wrong string // why that failed
}

func newReloader(log *slog.Logger) *reloader {
	return &reloader{log: log, asked: make(chan struct{}, 1)}
}

// add adds a source that has just been read.
func (r *reloader) add(name string, read func() error, files ...string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	files = slices.DeleteFunc(files, func(file string) bool { return file == "" })
	r.sources = append(r.sources, &source{name: name, read: read, files: files, stamp: stampOf(files)})
}

// Reload makes run read all sources again.
func (r *reloader) Reload() {
	select {
	case r.asked <- struct{}{}:
	default: // already requested
	}
}

// run reads changed sources again until ctx is cancelled. After each check it passes the current
// problems to tell; empty if there are none.
func (r *reloader) run(ctx context.Context, tell func(wrong string)) {
	ticker := time.NewTicker(reloadPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.look(false)
		case <-r.asked:
			r.look(true)
		}
		tell(strings.Join(r.problems(), "; "))
	}
}

// look reads the sources whose files have changed, or all sources.
func (r *reloader) look(all bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, s := range r.sources {
		stamp := stampOf(s.files) // before reading: a later change is found next time
		if !all && stamp == s.stamp {
			continue
		}
		s.stamp, s.wrong = stamp, ""
		if err := s.read(); err != nil {
			s.wrong = err.Error()
			r.log.Error("a changed file cannot be used; what was read before stays in use", "setting", s.name, "error", err)
			continue
		}
		r.log.Info("read again", "setting", s.name)
	}
}

// problems returns the sources whose last reading failed.
func (r *reloader) problems() (list []string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, s := range r.sources {
		if s.wrong != "" {
			list = append(list, fmt.Sprintf("%s: the files cannot be used, and what was read before stays in use: %s", s.name, s.wrong))
		}
	}
	return list
}

// stampOf returns a text that changes when one of the files does.
func stampOf(files []string) string {
	var b strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", file, err)
			continue
		}
		inode := uint64(0)
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = s.Ino
		}
		fmt.Fprintf(&b, "%s: %d %d %d\n", file, info.ModTime().UnixNano(), info.Size(), inode)
	}
	return b.String()
}
