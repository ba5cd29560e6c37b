package gate

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	stdlog "log"
	"log/slog"
	"net/http"
	"time"
)

// Limits on the time that a caller keeps a connection busy.
const (
	// headerPatience is the time limit for the headers of a request, and for a TLS handshake.
	headerPatience = 10 * time.Second
	// idlePatience is how long a connection stays open between requests. It is longer than in our
	// own clients, so that the clients close connections.
	idlePatience = 2 * time.Minute
	// piece is how much is written between two checks of the clock.
	piece = 256 << 10
)

// pace is how fast callers must be.
type pace struct {
	// patience is how long a caller may make the server wait during one request, for data of the
	// request or for room for data of the answer, in addition to what slowest allows.
	patience time.Duration
	// slowest is the lowest speed of a large transfer, in bytes per second.
	slowest int64
	// linger is how long the server waits for the rest of a body that the handler does not read.
	linger time.Duration
}

var usualPace = pace{patience: 30 * time.Second, slowest: 32 << 10, linger: time.Second}

// maxHeader is the size limit of a request's headers. Clients put parameters there.
const maxHeader = 256 << 10

// NewServer returns an HTTP server whose callers cannot keep it busy. It has no timeout for
// whole requests, because some are held on purpose; see [Paced].
func NewServer(handler http.Handler, security *tls.Config, protocols *http.Protocols, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: Paced(handler), TLSConfig: security, Protocols: protocols,
		ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader,
		HTTP2:    &http.HTTP2Config{SendPingTimeout: usualPace.patience, PingTimeout: headerPatience, WriteByteTimeout: usualPace.patience},
		ErrorLog: stdlog.New(&serverLog{log}, "", 0), ConnContext: withOwner,
	}
}

// serverLog logs what a server reports. Callers can cause any number of failed handshakes, so these
// are not warnings.
type serverLog struct{ log *slog.Logger }

func (l *serverLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// Paced gives each request of a handler its deadlines. Only the time counts in which the server
// waits for the caller: a handler may hold a request for as long as it likes.
func Paced(next http.Handler) http.Handler { return usualPace.over(next) }

func (p pace) over(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Deadlines belong to the connection and outlive a request, so each request sets its own.
		// Only writers in tests have no deadlines.
		control := http.NewResponseController(w)
		out := &pacedWriter{ResponseWriter: w, control: control, pace: pacer{pace: p}}
		_ = control.SetWriteDeadline(time.Time{})
		if r.Body != nil && r.Body != http.NoBody {
			body := &pacedBody{ReadCloser: r.Body, control: control, pace: pacer{pace: p}}
			r.Body = body
			defer body.end()
		}
		next.ServeHTTP(out, r)
		out.extend() // for what is still in a buffer
	})
}

// pacer measures how long a caller has made the server wait.
type pacer struct {
	pace
	moved  int64
	waited time.Duration
}

// left returns how long the next step may take.
func (p *pacer) left() time.Duration {
	return p.patience + time.Duration(p.moved)*time.Second/time.Duration(p.slowest) - p.waited
}

// step records a step that started at began and moved n bytes.
func (p *pacer) step(began time.Time, n int) {
	p.waited += time.Since(began)
	p.moved += int64(n)
}

// pacedBody is a request body with a deadline that moves with the data. At the end of the body it
// clears the deadline: the server keeps reading to detect that the caller has disconnected.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	pace    pacer
	over    bool
}

func (b *pacedBody) Read(p []byte) (int, error) {
	began := time.Now()
	if !b.over {
		_ = b.control.SetReadDeadline(began.Add(b.pace.left()))
	}
	n, err := b.ReadCloser.Read(p)
	b.pace.step(began, n)
	if err == io.EOF && !b.over {
		b.over = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Unpaced lets a request take as long as it likes to send its body. It is for streams that both ends keep open.
func Unpaced(r *http.Request) {
	if body, ok := r.Body.(*pacedBody); ok {
		body.over = true
		_ = body.control.SetReadDeadline(time.Time{})
	}
}

// end stops waiting for a body that the handler did not read to its end.
func (b *pacedBody) end() {
	if !b.over {
		_ = b.control.SetReadDeadline(time.Now().Add(b.pace.linger))
	}
}

// pacedWriter writes an answer with a deadline that moves with the data.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	pace    pacer
}

// Unwrap is for http.ResponseController.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *pacedWriter) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(w.pace.left())) }

// Flush sends what is in a buffer. Streams need it.
func (w *pacedWriter) Flush() {
	w.extend()
	_ = w.control.Flush() // what cannot be sent fails with the next write
}

func (w *pacedWriter) WriteHeader(status int) {
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *pacedWriter) Write(data []byte) (written int, err error) {
	for {
		part := data[written:min(len(data), written+piece)]
		w.extend()
		began := time.Now()
		n, err := w.ResponseWriter.Write(part)
		w.pace.step(began, n)
		if written += n; err != nil || written == len(data) {
			return written, err
		}
	}
}
