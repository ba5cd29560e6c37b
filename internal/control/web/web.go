package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed all:dist
var built embed.FS

//go:embed placeholder.html
var placeholder []byte

// policy allows the page only its own files and its own server: no inline script or style, no other
// host, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one file of the page.
type file struct {
	plain []byte
	// packed compresses the file once, when a browser asks for it; nil where gzip does not help.
	packed func() []byte
	media  string
	tag    string
	// lasting reports whether the name changes with the contents.
	lasting bool
}

// page is all files by address, and the index file, which answers for places inside the page.
type page struct {
	files   map[string]*file
	index   *file
	version string
}

// Handler serves the page. Addresses without a file are places inside the page and get its index
// file. A header carries the version.
func Handler(version string) http.Handler {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return newPage(dist, version)
}

// IsBuilt reports whether this program contains the built page.
func IsBuilt() bool {
	_, err := built.Open("dist/index.html")
	return err == nil
}

// newPage reads the files of a built page once. It skips files that cannot be read.
func newPage(dist fs.FS, version string) *page {
	p := &page{files: map[string]*file{}, version: version}
	_ = fs.WalkDir(dist, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return nil
		}
		if data, err := fs.ReadFile(dist, name); err == nil {
			p.files["/"+name] = newFile(name, data)
		}
		return nil
	})
	if p.index = p.files["/index.html"]; p.index == nil {
		p.index = newFile("index.html", placeholder)
	}
	return p
}

// newFile prepares a file. Names under assets contain a hash of the contents.
func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	f := &file{plain: data, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, lasting: strings.HasPrefix(name, "assets/")}
	if f.media = mime.TypeByExtension(path.Ext(name)); f.media == "" {
		f.media = http.DetectContentType(data)
	}
	switch path.Ext(name) {
	case ".html", ".js", ".css", ".svg", ".json", ".map", ".txt":
		f.packed = sync.OnceValue(func() []byte { return pack(data) })
	}
	return f
}

// pack compresses data; nil if that makes it no shorter.
func pack(data []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil
	}
	if _, err := w.Write(data); err != nil || w.Close() != nil || out.Len() >= len(data) {
		return nil
	}
	return out.Bytes()
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Weir-Version", p.version)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
		return
	}
	f, there := p.files[path.Clean(r.URL.Path)]
	if !there {
		if strings.HasPrefix(r.URL.Path, "/assets/") {
			// A page of an older build requests its files: the answer must not be a page.
			http.NotFound(w, r)
			return
		}
		f = p.index
	}
	f.send(w, r)
}

// send writes the file, compressed if the browser accepts that, or answers that the browser's copy
// is current.
func (f *file) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.media)
	switch {
	case f.lasting:
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	case strings.HasPrefix(f.media, "text/html"):
		h.Set("Cache-Control", "no-store")
	default:
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", f.tag)
		if r.Header.Get("If-None-Match") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	data := f.plain
	if f.packed != nil {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Get("Accept-Encoding")) {
			if packed := f.packed(); packed != nil {
				h.Set("Content-Encoding", "gzip")
				data = packed
			}
		}
	}
	h.Set("Content-Length", fmt.Sprint(len(data)))
	if r.Method == http.MethodHead {
		return
	}
	// A disconnected browser is not our error.
	_, _ = w.Write(data)
}

// acceptsGzip reads a list such as "br, gzip;q=0.5".
func acceptsGzip(list string) bool {
	for item := range strings.SplitSeq(list, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.ReplaceAll(strings.ReplaceAll(quality, " ", ""), "q=0.0", "q=0") != "q=0"
		}
	}
	return false
}
