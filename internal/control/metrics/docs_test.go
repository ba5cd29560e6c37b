package metrics

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/test/expected"
)

const (
	docsFile  = "../../../docs/metrics.md"
	dashboard = "../../../docs/grafana/weir.json"
	rules     = "../../../docs/grafana/alerts.yaml"
)

func reference() string {
	var b strings.Builder
	b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range Definitions {
		labels := ""
		if len(d.Labels) > 0 {
			labels = expected.Codes(d.Labels)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, labels, d.Help)
	}
	return b.String()
}

func TestTheTableOfMetricsIsUpToDate(t *testing.T) {
	expected.Page(t, docsFile, reference())
}

// Names start with weir, end with a unit that the page explains, and are explained themselves.
func TestMetricsAreNamedByTheRules(t *testing.T) {
	_, table, _ := strings.Cut(expected.Read(t, docsFile), "## Units")
	table, _, _ = strings.Cut(table, "\n## ")
	units := map[string]bool{}
	for _, match := range regexp.MustCompile("`_([a-z]+)`").FindAllStringSubmatch(table, -1) {
		units[match[1]] = true
	}
	used, seen := map[string]bool{}, map[string]bool{}
	for _, d := range Definitions {
		if seen[d.Name] || !regexp.MustCompile(`^weir(_[a-z]+)+$`).MatchString(d.Name) {
			t.Errorf("%q is no name, or stands twice", d.Name)
		}
		seen[d.Name] = true
		if !units[d.Unit()] {
			t.Errorf("%s ends with %q, which is no unit of %s", d.Name, d.Unit(), docsFile)
		}
		used[d.Unit()] = true
		if (d.Type == "counter") != (d.Unit() == "total") {
			t.Errorf("%s is a %s", d.Name, d.Type)
		}
		if len(d.Help) < 7 || strings.HasSuffix(d.Help, ".") || strings.ContainsAny(d.Help, "|\n") {
			t.Errorf("%s: help %q", d.Name, d.Help)
		}
	}
	for unit := range units {
		if !used[unit] {
			t.Errorf("%s explains the unit %s, which nothing has", docsFile, unit)
		}
	}
}

// queryable returns the names that queries can use: the metrics and the parts of histograms.
func queryable() map[string]*Definition {
	names := map[string]*Definition{}
	for i := range Definitions {
		d := &Definitions[i]
		if d.Type != "histogram" {
			names[d.Name] = d
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			names[d.Name+part] = d
		}
	}
	return names
}

var (
	nameInQuery  = regexp.MustCompile(`\bweir_[a-z_]+\b`)
	labelInQuery = regexp.MustCompile(`\b(weir_[a-z_]+)\{([^}]*)\}`)
	labelName    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// checkQuery returns the names in a query, and the names and labels that do not exist.
func checkQuery(query string) (names []string, problems []string) {
	known := queryable()
	for _, name := range nameInQuery.FindAllString(query, -1) {
		if known[name] == nil {
			problems = append(problems, name+" does not exist")
		}
		names = append(names, name)
	}
	for _, match := range labelInQuery.FindAllStringSubmatch(query, -1) {
		for _, label := range labelName.FindAllStringSubmatch(match[2], -1) {
			d := known[match[1]]
			if d != nil && !slices.Contains(append([]string{"job", "instance", "le"}, d.Labels...), label[1]) {
				problems = append(problems, match[1]+" has no label "+label[1])
			}
		}
	}
	return names, problems
}

func TestQueriesAreChecked(t *testing.T) {
	for query, want := range map[string]int{
		`rate(weir_api_requests_total{code="5xx"}[5m])`:        0,
		`weir_heartbeat_latency_seconds_bucket{le="1"}`:        0,
		`weir_heartbeat_latency_seconds`:                       1,
		`weir_nonsense > weir_leading_status`:                  1,
		`weir_pool_operations{user="anna", tree=~"$tree"} > 0`: 1,
	} {
		if _, problems := checkQuery(query); len(problems) != want {
			t.Errorf("%s: %q", query, problems)
		}
	}
}

// panel is the part of a dashboard panel that these tests check.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr  string
		RefID string `json:"refId"`
	}
	Panels []panel
}

func TestTheDashboardAsksForWhatThereIs(t *testing.T) {
	var board struct {
		UID           string
		Title         string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Query, Type string }
		}
	}
	if err := json.Unmarshal([]byte(expected.Read(t, dashboard)), &board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || board.Title == "" || board.SchemaVersion < 30 {
		t.Errorf("uid %q, title %q, schema %d: Grafana would not load it", board.UID, board.Title, board.SchemaVersion)
	}
	variables := map[string]bool{}
	for _, v := range board.Templating.List {
		variables[v.Name] = true
		if _, problems := checkQuery(v.Query); len(problems) > 0 {
			t.Errorf("variable %s: %q", v.Name, problems)
		}
	}
	ids, asked := map[int]bool{}, map[string]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q is not well placed", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			names, problems := checkQuery(target.Expr)
			if len(problems) > 0 || len(names) == 0 && !strings.Contains(target.Expr, "go_") && !strings.Contains(target.Expr, "process_") {
				t.Errorf("panel %q: %s: %q", p.Title, target.Expr, problems)
			}
			for _, name := range names {
				asked[name] = true
			}
			for _, v := range regexp.MustCompile(`\$([a-z]+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !variables[v[1]] {
					t.Errorf("panel %q: %s: there is no variable %s", p.Title, target.Expr, v[1])
				}
			}
		}
	}
	if len(asked) < 30 {
		t.Errorf("the dashboard asks for %d metrics only", len(asked))
	}
}

func TestAlertRulesAskForWhatThereIs(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(expected.Read(t, rules)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			names, problems := checkQuery(rule.Expr)
			if len(problems) > 0 || len(names) == 0 && rule.Alert != "WeirSchedulerDown" {
				t.Errorf("%s: %s: %q", rule.Alert, rule.Expr, problems)
			}
			if rule.Alert == "" || seen[rule.Alert] || rule.For == "" || rule.Labels["severity"] == "" ||
				rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("rule %q is not complete", rule.Alert)
			}
			for _, match := range regexp.MustCompile(`alert="([a-z_]+)"`).FindAllStringSubmatch(rule.Expr, -1) {
				if !slices.ContainsFunc(alertKinds, func(k server.AlertKind) bool { return string(k) == match[1] }) {
					t.Errorf("%s: the scheduler has no alert %q", rule.Alert, match[1])
				}
			}
			seen[rule.Alert] = true
		}
	}
	if len(seen) < 10 {
		t.Errorf("there are %d rules only", len(seen))
	}
}

// Every kind of alert that the server can raise has its series.
func TestAllAlertsOfTheServerAreShown(t *testing.T) {
	kinds := regexp.MustCompile(`AlertKind = "([a-z_]+)"`).FindAllStringSubmatch(expected.Read(t, "../server/alerts.go"), -1)
	if len(kinds) == 0 {
		t.Fatal("no alerts were found")
	}
	for _, kind := range kinds {
		if !slices.ContainsFunc(alertKinds, func(k server.AlertKind) bool { return string(k) == kind[1] }) {
			t.Errorf("alert %s has no series", kind[1])
		}
	}
}
