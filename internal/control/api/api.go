package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/gate"
	"github.com/weirhq/weir/internal/control/notify"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// Options configure the API of a server.
type Options struct {
	// Version is this program's version, as clients read it.
	Version string
	Log     *slog.Logger
	// LeaderScheme is the scheme of forwarded requests to the leader: "http" or "https". Empty means http.
	LeaderScheme string
	// CheckConfig validates a patch of the scheduler's configuration. ApplyConfig applies a patch that was
	// validated and stored. Without them //sys/scheduler/config is a document like others.
	CheckConfig func(patch document.Value) (warnings document.Problems, err error)
	ApplyConfig func(patch document.Value)
	// Transport sends forwarded requests; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// TrustLoopback makes every process of this machine root until the first token exists.
	TrustLoopback bool
	// Key lets its holder act as root; nil means that there is none.
	Key *Key
	// Review returns the user of a token that is none of Weir's own; nil means that there are no such users. The error is
	// ErrForeignToken if nobody has the token.
	Review func(ctx context.Context, token string) (auth.Visitor, error)
	// Images are the registries that tags of images are resolved with; nil means all, over TLS and without credentials.
	Images *image.Registries
	// Pods returns the pods of others that Weir schedules, of all namespaces and names if these are empty; nil means that jobs
	// are no pods here.
	Pods func(ctx context.Context, namespace, name string) ([]picture.Pod, error)
	// Notifier delivers notifications; nil means that there are no targets.
	Notifier *notify.Notifier
	// Budget is the memory for bodies of requests; nil means one with the default limits.
	Budget *gate.Budget
}

// API answers requests in the dialect of YTsaurus.
type API struct {
	server    *server.Server
	options   Options
	log       *slog.Logger
	mutations mutations
	tree      *pathtree.Tree
	proxy     *httputil.ReverseProxy
	paths     *http.ServeMux
	commands  *table
}

// New returns the handler for all paths that clients of YTsaurus use.
func New(s *server.Server, options Options) *API {
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if options.Version == "" {
		options.Version = "unknown"
	}
	if options.Images == nil {
		options.Images = &image.Registries{}
	}
	if options.Budget == nil {
		options.Budget = gate.NewBudget(gate.DefaultLimits)
	}
	a := &API{server: s, options: options, log: options.Log, commands: allCommands()}
	a.tree = pathtree.New(s, pathtree.Options{
		Version: options.Version, Log: options.Log, CheckConfig: options.CheckConfig, ApplyConfig: options.ApplyConfig, Live: orchid.Live(),
	})
	a.proxy = a.newProxy()
	mux := http.NewServeMux()
	mux.HandleFunc("/api", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, []string{"v3", "v4"}) })
	mux.HandleFunc("/api/v3", a.describe(3))
	mux.HandleFunc("/api/v4", a.describe(4))
	mux.HandleFunc("/api/v3/{command}", a.serve(3))
	mux.HandleFunc("/api/v4/{command}", a.serve(4))
	mux.HandleFunc("/api/", a.notFound)
	mux.HandleFunc("/hosts", a.hosts)
	mux.HandleFunc("/hosts/all", a.hosts)
	mux.HandleFunc("/auth/whoami", a.whoami)
	mux.HandleFunc("POST /auth/signin", a.signIn)
	mux.HandleFunc("/ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.options.Version) })
	mux.HandleFunc("/service", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]string{"start_time": a.tree.Started.UTC().Format(wire.TimeLayout), "version": a.options.Version})
	})
	a.paths = mux
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.paths.ServeHTTP(w, r) }

// ReadersOnly passes requests to another handler only if the caller may read //sys. The rules are those of
// commands: as long as there are no tokens, any caller on this machine may; after that, callers need a token
// or the scheduler's socket.
func (a *API) ReadersOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().UTC()
		who, subjects, err := a.authenticate(r, now)
		if err != nil {
			a.refuse(w, wire.AsError(err))
			return
		}
		c := &call{api: a, Request: &pathtree.Request{Context: r.Context(), Server: a.server, Tree: a.tree, Who: who, Subjects: subjects, Now: now}}
		if err := c.mayReadAt("//sys"); err != nil {
			a.refuse(w, c.refusal(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// A disconnected client is not our error.
	_ = json.NewEncoder(w).Encode(v)
}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	e := wire.Errorf(wire.CodeGeneric, "There is nothing at %s; commands are at /api/v4/ and /api/v3/", wire.CutText(r.URL.Path, 200))
	e.Status = http.StatusNotFound
	a.refuse(w, e)
}

func (a *API) describe(version int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := yson.AppendJSON(nil, a.commands.descriptors(version), yson.JSONOptions{})
		if err != nil {
			a.refuse(w, wire.AsError(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}
}

// hosts lists the hosts that accept heavy commands: this one.
func (a *API) hosts(w http.ResponseWriter, r *http.Request) {
	list := []string{}
	if host := r.Host; host != "" {
		list = append(list, host)
	}
	writeJSON(w, list)
}

func (a *API) whoami(w http.ResponseWriter, r *http.Request) {
	who, _, err := a.authenticate(r, time.Now())
	if err != nil {
		a.refuse(w, wire.AsError(err))
		return
	}
	realm := "token"
	switch {
	case who.Local:
		realm = "socket"
	case who.Open:
		realm = "loopback"
	}
	writeJSON(w, map[string]string{"login": who.User, "realm": realm})
}

// serve runs one command.
func (a *API) serve(version int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := pathtree.NewID(guid.Object).String()
		w.Header().Set("X-YT-Request-Id", id)
		w.Header().Set("X-YT-Proxy", a.server.Address())
		w.Header().Set("Cache-Control", "no-store")
		cmd, known := a.commands.find(version, r.PathValue("command"))
		if !known {
			e := wire.Errorf(wire.CodeGeneric, "Command %q is not known", wire.CutText(r.PathValue("command"), 100))
			e.Status = http.StatusNotFound
			a.refuse(w, e)
			return
		}
		if err := cmd.checkMethod(r.Method); err != nil {
			w.Header().Set("Allow", strings.Join(cmd.methods(), ", "))
			a.refuse(w, wire.AsError(err))
			return
		}
		c, m, err := a.receive(w, r, version, cmd, id)
		if m != nil {
			defer m.account.Close()
		}
		if err != nil {
			a.refuse(w, wire.AsError(err))
			return
		}
		if a.forwards(c) {
			a.forward(w, r, c, m)
			return
		}
		n, err := c.run()
		if err != nil {
			e := c.refusal(err)
			if e.Status == http.StatusServiceUnavailable && !cmd.changes && a.mayForward(r) {
				a.forward(w, r, c, m)
				return
			}
			a.refuse(w, e)
			return
		}
		a.reply(w, c, m, n)
	}
}

// receive identifies the caller, and reads the request if the caller may give the command. Callers without a
// token cannot make the server read a body, except a short one of a public command. The message, if there is
// one, has an account to close.
func (a *API) receive(w http.ResponseWriter, r *http.Request, version int, cmd *command, id string) (*call, *message, error) {
	now := time.Now().UTC()
	who, subjects, err := a.authenticate(r, now)
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.admit(who); err != nil {
		return nil, nil, err
	}
	if who.Open && cmd.changes && r.Method == http.MethodGet && !sentByProgram(r) {
		return nil, nil, wire.Errorf(auth.CodeAuthorization, "Access denied: a link in a page could send this; use POST, or make a token first")
	}
	m, err := a.readMessage(w, r, cmd, who)
	if err != nil {
		return nil, m, err
	}
	c := &call{
		Request: &pathtree.Request{
			Context: r.Context(), Server: a.server, Tree: a.tree, Command: cmd.name, Who: who, Subjects: subjects, Now: now,
			Parameters: wire.Parameters{Node: cmd.declared(m.parameters)}, ID: id,
		},
		api: a, command: cmd, version: version, data: m.input, dataAs: m.inputAs,
		outputAs: &m.outputAs, stream: m.stream,
	}
	return c, m, c.readMutation()
}

// readMutation reads the parameters that identify a request. The user and the command are part of the key, so
// ids of different users and commands never collide.
func (c *call) readMutation() error {
	if !c.command.changes || c.command.steps {
		return nil
	}
	id, err := c.Parameters.ID("mutation_id")
	if err != nil || id.IsZero() {
		return err
	}
	c.Mutation = c.Who.User + "/" + c.command.name + "/" + id.String()
	c.retry, err = c.Parameters.Boolean("retry", false)
	return err
}

// reply writes the answer of a command that succeeded.
func (a *API) reply(w http.ResponseWriter, c *call, m *message, n yson.Node) {
	a.tellWarnings(w, c)
	var body []byte
	switch c.command.outputIn(c.version) {
	case noData:
		w.WriteHeader(http.StatusOK)
		return
	case structured:
		if c.whole != nil {
			a.replyWhole(w, c, m, n)
			return
		}
		var err error
		if body, err = m.outputAs.Write(n); err != nil {
			a.refuse(w, wire.Errorf(wire.CodeGeneric, "The answer cannot be written in this format").Because(err))
			return
		}
		w.Header().Set("Content-Type", m.outputAs.MediaType())
	default:
		body = c.answer
		w.Header().Set("Content-Type", "application/octet-stream")
		if about, err := yson.Append(nil, c.about, yson.Text); err == nil && len(c.about.Entries()) > 0 {
			w.Header().Set("X-YT-Response-Parameters", string(about))
		}
		if c.answerStream != nil {
			a.replyStream(w, c)
			return
		}
	}
	if !c.command.changes { // what has been done is not refused for its answer
		if err := m.account.TakeAnswer(int64(len(body))); err != nil {
			a.refuse(w, wire.AsError(requestBroken(err)))
			return
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// replyStream copies an answer to the client. If it breaks off, the client gets less than the announced length, and the
// connection is closed.
func (a *API) replyStream(w http.ResponseWriter, c *call) {
	defer c.answerStream.Close()
	w.Header().Set("Content-Length", strconv.FormatInt(c.answerSize, 10))
	if n, err := io.Copy(w, c.answerStream); err == nil && n != c.answerSize && c.Context.Err() == nil {
		a.log.Error("a file is shorter than its row states", "request", c.ID, "got", n, "want", c.answerSize)
	}
}

// tellWarnings writes warnings into a header. Clients that do not know the header ignore it.
func (a *API) tellWarnings(w http.ResponseWriter, c *call) {
	if len(c.Warnings) == 0 {
		return
	}
	var list []yson.Node
	size := 0
	for _, p := range c.Warnings {
		text := strings.ToValidUTF8(p.String(), "?")
		if size += len(text); size > wire.MaxErrorHeader/4 {
			break
		}
		list = append(list, yson.String(text))
	}
	if text, err := yson.AppendJSON(nil, yson.List(list...), yson.JSONOptions{UTF8: true}); err == nil {
		w.Header().Set("X-Weir-Warnings", string(wire.AsciiJSON(text)))
	}
}

// refuse writes an error: in headers, and in full in the body.
func (a *API) refuse(w http.ResponseWriter, e *wire.Error) {
	if e.Status == http.StatusServiceUnavailable || e.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-YT-Error", e.Header())
	w.Header().Set("X-YT-Response-Code", strconv.Itoa(e.Code))
	w.Header().Set("X-YT-Response-Message", headerText(e.Message))
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	w.WriteHeader(status)
	_, _ = w.Write(e.JSON())
}

// headerText makes text safe for a header.
func headerText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, wire.CutText(text, 1000))
}

// authenticate identifies the caller of a request. A server that has not read its state does not know its
// tokens yet, and refuses nobody for that: it asks all to come again.
func (a *API) authenticate(r *http.Request, now time.Time) (auth.Identity, *auth.Directory, error) {
	if !a.server.Loaded() {
		return auth.Identity{}, nil, wire.Unavailable("the scheduler has not read its state yet; try again")
	}
	subjects, tokens, err := a.tree.People.Current(a.tree, now)
	if err != nil {
		return auth.Identity{}, nil, err
	}
	shown := auth.Credentials{
		Authorization: r.Header.Get("Authorization"), Impersonate: r.Header.Get("X-YT-User-Name"),
		Local: isDirect(r) && gate.IsOwner(r), Loopback: isLoopback(r), Trusted: a.options.TrustLoopback,
	}
	if a.options.Key.opens(shown.Authorization) {
		shown.Local, shown.Authorization = true, ""
	}
	if a.options.Review != nil {
		if subjects, err = a.review(r.Context(), subjects.Welcoming(), &shown); err != nil {
			return auth.Identity{}, nil, err
		}
	}
	who, err := subjects.Authenticate(tokens, shown, now)
	if err == nil && who.Open {
		err = a.checkOrigin(r)
	}
	return who, subjects, err
}

// ErrForeignToken is the error for a token that nobody has.
var ErrForeignToken = errors.New("nobody has the token")

// review admits the user of a token that is none of Weir's own.
func (a *API) review(ctx context.Context, subjects *auth.Directory, shown *auth.Credentials) (*auth.Directory, error) {
	token, foreign := auth.ForeignToken(shown.Authorization)
	if !foreign {
		return subjects, nil
	}
	visitor, err := a.options.Review(ctx, token)
	if errors.Is(err, ErrForeignToken) {
		return nil, &auth.Unauthenticated{Cause: err}
	}
	if err != nil {
		return nil, wire.Unavailable(err.Error())
	}
	admitted, err := subjects.Admit(visitor)
	if err != nil {
		return nil, &auth.Unauthenticated{Cause: err}
	}
	shown.Visitor = visitor.User
	return admitted, nil
}

// Identify returns the user who makes a request, by the rules of commands, and the user's groups, the user
// included. It is for handlers beside this one.
func (a *API) Identify(r *http.Request) (user string, groups []string, _ error) {
	who, subjects, err := a.authenticate(r, time.Now())
	if err != nil {
		return "", nil, err
	}
	return who.User, subjects.Closure(who.User), nil
}

// isLoopback reports whether a request came from this machine and no proxy forwarded it for another.
func isLoopback(r *http.Request) bool {
	if !isDirect(r) {
		return false
	}
	if gate.IsLocal(r) {
		return true
	}
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// isDirect reports whether no proxy forwarded a request for another client.
func isDirect(r *http.Request) bool {
	return len(r.Header.Values("X-Forwarded-For")) == 0 && len(r.Header.Values("Forwarded")) == 0
}

// sentByProgram reports whether a request has a header of YTsaurus's clients. A link or a picture in a page
// cannot send one, and a script of another site must ask first.
func sentByProgram(r *http.Request) bool {
	for name := range r.Header { // the order does not matter
		if strings.HasPrefix(name, "X-Yt-") {
			return true
		}
	}
	return false
}

// checkOrigin refuses requests of other sites' pages while callers on this machine need no token: a browser
// here also sends the requests of foreign pages.
func (a *API) checkOrigin(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	_, origin, _ := strings.Cut(r.Header.Get("Origin"), "://")
	if site != "" && site != "same-origin" && site != "none" || r.Header.Get("Origin") != "" && origin != r.Host {
		return wire.Errorf(auth.CodeAuthorization, "Access denied: pages of other sites must not send requests without a token; create a token first")
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	own, _, err := net.SplitHostPort(a.server.Address())
	if err != nil {
		own = a.server.Address()
	}
	_, err = netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil && host != "" && host != "localhost" && !strings.HasSuffix(host, ".localhost") && host != own && strings.Contains(host, ".") {
		return wire.Errorf(auth.CodeAuthorization, "Access denied: the server is not called %q; make a token first", wire.CutText(host, 100))
	}
	return nil
}
