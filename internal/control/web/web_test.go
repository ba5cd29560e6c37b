package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// builtPage returns a page of three files as vite builds it.
func builtPage() http.Handler {
	return newPage(fstest.MapFS{
		"index.html":         {Data: []byte("<!doctype html><script src=/assets/app-1a2b.js></script>" + strings.Repeat(" ", 200))},
		"assets/app-1a2b.js": {Data: []byte(strings.Repeat("let weir = 1;\n", 100))},
		"weir.svg":           {Data: []byte("<svg/>")},
		".keep":              {},
	}, "1.2.3")
}

func ask(t *testing.T, h http.Handler, method, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestPlacesInsideThePageGetItsFirstFile(t *testing.T) {
	for _, target := range []string{"/", "/scheduling", "/operations/1-2-3-4?tab=why", "/scheduling/default/..%2fetc", "/.keep", "/../secret"} {
		r := ask(t, builtPage(), "GET", target)
		if text := body(t, r); r.StatusCode != http.StatusOK || !strings.HasPrefix(text, "<!doctype html>") {
			t.Errorf("%s: %d %q", target, r.StatusCode, text)
		}
		if got := r.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q: an old page would ask for files that are gone", target, got)
		}
	}
}

func TestFilesWithAHashInTheirNameAreKept(t *testing.T) {
	r := ask(t, builtPage(), "GET", "/assets/app-1a2b.js")
	if got := r.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("Cache-Control is %q", got)
	}
	if got := r.Header.Get("Content-Type"); !strings.Contains(got, "javascript") {
		t.Errorf("Content-Type is %q", got)
	}
}

func TestAFileOfAnOlderBuildIsNotAnsweredWithThePage(t *testing.T) {
	if r := ask(t, builtPage(), "GET", "/assets/app-0000.js"); r.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", r.StatusCode)
	}
}

func TestFilesAreCompressedForBrowsersThatTakeIt(t *testing.T) {
	plain := body(t, ask(t, builtPage(), "GET", "/assets/app-1a2b.js"))
	for accept, want := range map[string]string{"gzip": "gzip", "br, gzip;q=0.5": "gzip", "br": "", "gzip;q=0": ""} {
		r := ask(t, builtPage(), "GET", "/assets/app-1a2b.js", "Accept-Encoding", accept)
		if got := r.Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: Content-Encoding %q", accept, got)
			continue
		}
		from := io.Reader(r.Body)
		if want != "" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			from = unpacked
		}
		data, err := io.ReadAll(from)
		if err != nil || string(data) != plain {
			t.Errorf("Accept-Encoding %q: %d bytes, %v", accept, len(data), err)
		}
	}
}

func TestABrowserThatHasAFileIsToldSo(t *testing.T) {
	tag := ask(t, builtPage(), "GET", "/weir.svg").Header.Get("ETag")
	if r := ask(t, builtPage(), "GET", "/weir.svg", "If-None-Match", tag); tag == "" || r.StatusCode != http.StatusNotModified {
		t.Errorf("tag %q, status %d", tag, r.StatusCode)
	}
}

func TestEveryAnswerHasAStrictPolicy(t *testing.T) {
	for _, target := range []string{"/", "/assets/app-1a2b.js", "/assets/none.js", "/weir.svg"} {
		r := ask(t, builtPage(), "GET", target)
		got := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(got, "default-src 'none'") || strings.Contains(got, "unsafe") || strings.Contains(got, "http") {
			t.Errorf("%s: policy %q", target, got)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", target, r.Header)
		}
	}
}

func TestThePageIsOnlyRead(t *testing.T) {
	if r := ask(t, builtPage(), "POST", "/scheduling"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("status %d", r.StatusCode)
	}
	if r := ask(t, builtPage(), "HEAD", "/"); r.StatusCode != http.StatusOK || body(t, r) != "" {
		t.Errorf("HEAD: status %d", r.StatusCode)
	}
}

func TestAProgramWithoutThePageSaysSo(t *testing.T) {
	r := ask(t, newPage(fstest.MapFS{".keep": {}}, "1.2.3"), "GET", "/scheduling")
	if text := body(t, r); r.StatusCode != http.StatusOK || !strings.Contains(text, "built without its web page") {
		t.Errorf("%d %q", r.StatusCode, text)
	}
}

func TestTheHandlerServesAPageOrThePlaceholder(t *testing.T) {
	text := body(t, ask(t, Handler("1.2.3"), "GET", "/"))
	if IsBuilt() == strings.Contains(text, "built without its web page") {
		t.Errorf("built: %t, and the page is %q", IsBuilt(), text)
	}
}
