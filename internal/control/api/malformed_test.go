package api

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/expected"
)

// handlerOf returns the handler of a cluster, to be called without a network.
func handlerOf(c *cluster) http.Handler {
	return New(c.Server, Options{Version: "test", Log: quiet, TrustLoopback: true})
}

// ask passes a request to a handler, as if it came from this machine.
func ask(h http.Handler, method, target string, header http.Header, body string) answer {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	r.RequestURI = target
	r.Header = header
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost:80"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Result().Header, w.Body.String()}
}

// tester is a test of rapid or of Go.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// isProper checks that an answer is a success or a refusal with a code.
func isProper(t tester, what string, a answer) {
	t.Helper()
	if a.status == http.StatusOK {
		return
	}
	if a.status < 400 || a.status >= 500 {
		t.Fatalf("%s: status %d: %s", what, a.status, a.body)
	}
	n, err := yson.ParseJSON([]byte(a.body), yson.JSONOptions{UTF8: true})
	if err != nil {
		t.Fatalf("%s: the refusal is not JSON: %v: %s", what, err, a.body)
	}
	e := errorFrom(t, n)
	if e.Code == 0 || e.Message == "" || a.header.Get("X-YT-Response-Code") != fmt.Sprint(e.Code) {
		t.Fatalf("%s: the refusal has no code or message: %s", what, a.body)
	}
	if strings.HasPrefix(e.Message, "Internal error") {
		t.Fatalf("%s: a panic", what)
	}
	for name, values := range a.header {
		for _, value := range values {
			if strings.ContainsAny(value, "\r\n\x00") {
				t.Fatalf("%s: header %s breaks the line: %q", what, name, value)
			}
		}
	}
}

// Parts of requests: valid, almost valid and invalid.
var (
	somePaths = []string{
		"//sys/pools/a", "//sys/pools/a/b/@weight", "//sys/pool_trees/default/@config", "//sys/pool_trees/default/@config/nodes_filter",
		"//sys/pool_trees/@default_tree", "//tmp/x", "//tmp/x/y/z", "//tmp/x/-1", "//tmp/x/end", "//tmp/x/@", "//tmp/x/@a/b", "//tmp/*", "//tmp/@*",
		"//sys/users/guest/@banned", "//sys/users/u", "//sys/groups/admins/@members", "//sys/cluster_nodes/h:1/@user_tags/end",
		"//sys/cluster_nodes/h:1/@resource_limits_overrides/cpu", "//sys/scheduler/config/a/b", "//sys/scheduler/@alerts", "//sys/operations/00/1-2-3-4/@state",
		"//sys/scheduler/orchid/scheduler/pool_trees/default/pools/a", "/", "//@", "#1-2-3-4", "#1-2-3-4/@x", "//sys/pools&/@target_path",
	}
	badPaths = []string{
		"", "/", "///", "//", "x", "//a//b", "//tmp/\\", "//tmp/\\xZZ", "#", "#x", "//tmp/@x/@y", "//tmp[#1:#2]", "//tmp{a}", "<", "<a=1>//tmp", "//tmp/\x00\xff",
		"//" + strings.Repeat("a/", 300) + "a", "//tmp/" + strings.Repeat("k", 5000),
	}
	someValues = []string{
		"1", "-1", "1.5", "%true", "#", "text", `"\xD0\xBF"`, "[]", "{}", "[1;2;3]", "{cpu=1}", "{cpu=-1}", "{a={b={c=[1;#]}}}", "%nan", "%inf", "18446744073709551615u",
		"<a=1>5", "{guarantee_type=burst;resource_flow={cpu=1};burst_guarantee_resources={cpu=1}}", "{name=x;pool_tree=default}", "{name=y;weight=heavy}",
		"[{action=allow;subjects=[root];permissions=[read]}]", "[{action=maybe}]", "-9223372036854775808", "1e308",
	}
	badValues = []string{
		"{", "}", "[", "]", ";", "=", "\"", "<", "{a=}", "{a=1;a=2}", "{=1}", "%maybe", "1u1", "\x01\xff\xff\xff\xff\xff", "\x02", "\x03123", "\xff\xfe",
		strings.Repeat("[", 300), strings.Repeat("{a=", 300), strings.Repeat("<a=1>", 300),
	}
	someKeys = []string{
		"path", "type", "attributes", "recursive", "force", "ignore_existing", "value", "requests", "transaction_id", "timeout", "mode", "user", "permission", "group",
		"member", "source_path", "destination_path", "target_path", "link_path", "pool_tree", "source_pool", "destination_pool", "resource_delta", "max_size",
		"return_only_value", "mutation_id", "retry", "input_format", "output_format", "operation_id", "operation_alias", "operation_type", "spec", "job_id", "limit", "offset",
		"parameters", "cursor_time", "from_time", "state", "name", "filter", "include_archive", "description", "token", "component", "address", "comment", "ids", "mine", "all",
	}
	someHeaders = []string{
		"X-YT-Header-Format", "X-YT-Output-Format", "X-YT-Input-Format", "Accept", "Content-Type", "Content-Encoding", "X-YT-User-Name", "Authorization",
		"X-YT-Parameters0", "X-YT-Parameters-1", "X-YT-Correlation-Id", "Range", "Expect",
	}
	someHeaderValues = []string{
		"<format=text>yson", "json", "yson", "dsv", "<format=odd>yson", "<encode_utf8=%false>json", "<attributes_mode=odd>json", "application/json", "application/x-yt-yson-text",
		"application/x-yt-yson-binary", "*/*", "gzip", "br", "identity", "root", "nobody", "OAuth x", "Bearer weir_x", "Basic eDp5", "{", "\"", "e30=", "!!!", strings.Repeat("x", 3000),
	}
)

// mostly draws from good, and sometimes from bad.
func mostly(good, bad []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 15).Draw(t, "good") > 0 {
			return rapid.SampledFrom(good).Draw(t, "piece")
		}
		return word(append(slices.Clip(bad), good...)).Draw(t, "bad")
	})
}

// word draws one of the given parts and sometimes damages it.
func word(from []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := rapid.SampledFrom(from).Draw(t, "piece")
		if rapid.IntRange(0, 9).Draw(t, "damage") > 0 || text == "" {
			return text
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		return text[:at] + rapid.StringN(0, 3, 9).Draw(t, "with") + text[at:]
	})
}

// randomParameters draws a map of parameters as text YSON, usually a valid one.
func randomParameters(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("{")
	keys := []string{}
	for _, usual := range []string{"path", "type", "source_path", "destination_path", "target_path", "link_path", "transaction_id", "operation_id", "job_id", "group", "member"} {
		if rapid.IntRange(0, 4).Draw(t, usual) > 0 {
			keys = append(keys, usual)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "parameters") {
		if key := rapid.SampledFrom(someKeys).Draw(t, "key"); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		value := mostly(someValues, badValues).Draw(t, "value")
		switch {
		case strings.HasSuffix(key, "path"):
			value = fmt.Sprintf("%q", mostly(somePaths, badPaths).Draw(t, "path"))
		case strings.HasSuffix(key, "_id"):
			value = mostly([]string{`"1-2-3-4"`, `"1-2-3e8-4"`, `<a=1>"0-1-3ff0384-1000001"`}, someValues).Draw(t, "id")
		case key == "group" || key == "member":
			value = mostly([]string{"admins", "root", "guest", "users", "nobody"}, someValues).Draw(t, "subject")
		case key == "type":
			value = mostly([]string{"map_node", "document", "scheduler_pool", "scheduler_pool_tree", "user", "group", "file", "string_node", "cluster_node"}, someValues).Draw(t, "type")
		}
		fmt.Fprintf(&b, "%s=%s;", key, value)
	}
	b.WriteString("}")
	return b.String()
}

// sendRandom draws a request and passes it to a handler.
func sendRandom(t *rapid.T, h http.Handler, names []string, token string) answer {
	name := mostly(names, names).Draw(t, "command")
	version := rapid.SampledFrom([]string{"v4", "v4", "v4", "v4", "v4", "v4", "v3", "v5"}).Draw(t, "version")
	method := rapid.SampledFrom([]string{"PUT", "GET", "PUT", "POST", "DELETE"}).Draw(t, "method")
	header := http.Header{"Authorization": {"OAuth " + token}}
	target := "/api/" + version + "/" + strings.ReplaceAll(name, "?", "")
	body := ""
	parameters := randomParameters(t)
	switch rapid.SampledFrom([]int{1, 3, 2, 0, 1, 3, 2, 4}).Draw(t, "where") {
	case 0:
		target += "?path=" + mostly(somePaths, badPaths).Draw(t, "path") + "&" + rapid.StringN(0, 20, 60).Draw(t, "query")
	case 1:
		header.Set("X-YT-Header-Format", "<format=text>yson")
		header.Set("X-YT-Parameters", parameters)
		body = mostly(someValues, badValues).Draw(t, "body")
	case 2:
		header.Set("X-YT-Header-Format", "<format=text>yson")
		header.Set("X-YT-Parameters0", base64.StdEncoding.EncodeToString([]byte(parameters)))
		body = mostly(someValues, badValues).Draw(t, "body")
	case 3:
		method, body = http.MethodPost, parameters
	case 4:
		body = rapid.StringN(0, 40, 100).Draw(t, "body")
		header.Set("X-YT-Parameters", rapid.StringN(0, 40, 100).Draw(t, "parameters"))
	}
	for range max(0, rapid.IntRange(-3, 2).Draw(t, "headers")) {
		header.Set(rapid.SampledFrom(someHeaders).Draw(t, "header"), word(someHeaderValues).Draw(t, "header value"))
	}
	what := fmt.Sprintf("%s %s %v %q", method, target, header, body)
	a := ask(h, method, target, header, body)
	if a.status == http.StatusMovedPermanently || a.status == http.StatusTemporaryRedirect {
		return a // redirect of a path such as /api/v4/a/../b
	}
	isProper(t, what, a)
	return a
}

func TestMalformedRequestsAreRefusedProperly(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a", "a/b")
	h := handlerOf(c)
	// The names that come first are drawn more often.
	names := []string{"set", "get", "create", "remove", "multiset_attributes", "move", "list", "exists", "copy", "link", "execute_batch"}
	names = append(names, slices.Sorted(maps.Keys(allCommands().v4))...)
	names = append(names, slices.Sorted(maps.Keys(allCommands().v3))...)
	token := c.give("root")
	requests, codes := 0, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			requests++
			codes[sendRandom(t, h, names, token).header.Get("X-YT-Response-Code")]++
		}
	})
	t.Logf("%d requests, by code: %v", requests, codes)
	if requests < expected.Fewer(10_000) {
		t.Errorf("only %d requests were made", requests)
	}
	// Random requests must get far enough to be refused for many different reasons.
	if codes[""] < requests/50 || codes["500"] < requests/50 || codes["1"] < requests/10 {
		t.Errorf("the requests are too much alike: %v", codes)
	}
}

func FuzzRequest(f *testing.F) {
	for i, path := range slices.Concat(somePaths, badPaths) {
		f.Add("get", fmt.Sprintf("{path=%q}", path), someValues[i%len(someValues)], uint8(i))
	}
	for i, value := range slices.Concat(someValues, badValues) {
		f.Add("set", fmt.Sprintf("{path=%q}", somePaths[i%len(somePaths)]), value, uint8(i))
	}
	c := newCluster(f)
	h := handlerOf(c)
	f.Fuzz(func(t *testing.T, command, parameters, body string, how uint8) {
		header := http.Header{"X-Yt-Header-Format": {"<format=text>yson"}}
		method := []string{"GET", "PUT", "POST"}[how%3]
		switch how / 3 % 3 {
		case 0:
			header.Set("X-YT-Parameters", parameters)
		case 1:
			header.Set("X-YT-Parameters0", base64.StdEncoding.EncodeToString([]byte(parameters)))
		case 2:
			method, body = "POST", parameters
		}
		if _, known := allCommands().v4[command]; !known {
			return
		}
		isProper(t, command, ask(h, method, "/api/v4/"+command, header, body))
	})
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"a=1&b[c]=x&l[]=y", "a[0]=1&a[1]=2", "a[$value]=1&a[$attributes][b]=2", "a[", "a]=1", "%zz=1", "a[b]=1&a=2", "&&=&", "a[][b][]=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		n, err := wire.QueryParameters(raw)
		if err != nil {
			if wire.AsError(err).Code == 0 {
				t.Fatal("a refusal without a code")
			}
			return
		}
		text, err := yson.Append(nil, n, yson.Text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := yson.Parse(text)
		if err != nil || !back.Equal(n) {
			t.Fatalf("%q became %s, which is not read back: %v", raw, text, err)
		}
	})
}

func FuzzFormat(f *testing.F) {
	expected.Corpus(f)
	for _, seed := range someHeaderValues {
		f.Add(seed, "{a=[1;2.5;#]}")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		n, err := wire.HeaderValue("X", name)
		if err != nil {
			return
		}
		as, err := wire.FormatOf(n)
		if err != nil {
			return
		}
		v, err := as.Read([]byte(value))
		if err != nil {
			return
		}
		if _, err := as.Write(v); err != nil && !as.JSON {
			t.Fatalf("%s was read and cannot be written as %s: %v", value, name, err)
		}
	})
}
