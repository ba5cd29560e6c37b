package packaging_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/command/config"
)

var units = []string{"weir-scheduler.service", "weir-node.service"}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// settings reads a unit: the values of each key of each section, in their order.
func settings(t *testing.T, unit string) map[string][]string {
	t.Helper()
	found, section := map[string][]string{}, ""
	for number, line := range strings.Split(read(t, unit), "\n") {
		line = strings.TrimSpace(line)
		switch name, value, pair := strings.Cut(line, "="); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line
		case !pair || section == "" || !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(name):
			t.Errorf("%s:%d: %q is no setting", unit, number+1, line)
		default:
			found[section+name] = append(found[section+name], value)
		}
	}
	return found
}

func TestUnitsStartWhatTheySay(t *testing.T) {
	for _, unit := range units {
		s := settings(t, unit)
		role := strings.TrimSuffix(strings.TrimPrefix(unit, "weir-"), ".service")
		for key, want := range map[string]string{
			"[Service]ExecStart":      "/usr/local/bin/weir " + role + " --config /etc/weir/weir.yaml",
			"[Service]StateDirectory": "weir/" + role,
			"[Service]Restart":        "always",
			"[Install]WantedBy":       "multi-user.target",
		} {
			if got := s[key]; !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %s is %q, want %q", unit, key, got, want)
			}
		}
	}
	node := settings(t, "weir-node.service")
	for key, want := range map[string]string{"[Service]KillMode": "process", "[Service]Delegate": "yes"} {
		if got := node[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q: jobs must survive the agent", key, got, want)
		}
	}
	for _, private := range []string{"PrivateTmp", "PrivateDevices", "ProtectSystem", "ProtectHome", "PrivateMounts", "SystemCallFilter", "NoNewPrivileges", "User"} {
		if got := node["[Service]"+private]; got != nil {
			t.Errorf("the node has %s=%q, which its jobs would inherit", private, got)
		}
	}
	if got := settings(t, "weir-scheduler.service")["[Service]User"]; !slices.Equal(got, []string{"weir"}) {
		t.Errorf("the scheduler runs as %q", got)
	}
}

// The default data directories are those that the units make.
func TestUnitsMakeTheDataDirectories(t *testing.T) {
	defaults := config.Default()
	for unit, directory := range map[string]string{
		"weir-scheduler.service": defaults.Scheduler.DataDir.Value(), "weir-node.service": defaults.Node.DataDir.Value(),
	} {
		if got := settings(t, unit)["[Service]StateDirectory"]; len(got) != 1 || "/var/lib/"+got[0] != directory {
			t.Errorf("%s makes %q, the program wants %s", unit, got, directory)
		}
	}
}

func TestSystemdAcceptsTheUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	directory := t.TempDir()
	var paths []string
	for _, unit := range units {
		// The program is not installed on the machine that tests.
		text := strings.ReplaceAll(read(t, unit), "/usr/local/bin/weir", "/bin/true")
		path := filepath.Join(directory, unit)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", append([]string{"verify", "--man=no"}, paths...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), ".service:") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheExampleConfigurationIsRight(t *testing.T) {
	loaded, warnings, err := config.Load(config.Sources{File: "weir.yaml", Data: []byte(read(t, "weir.yaml"))})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", err, warnings)
	}
	for _, section := range []string{config.SchedulerSection, config.NodeSection} {
		if err := loaded.Require(section); err != nil {
			t.Error(err)
		}
	}
}

// Images come by name from wherever the builder gets them, and start what the units start.
func TestTheContainerFileHasBothRoles(t *testing.T) {
	text := read(t, "Containerfile")
	for _, match := range regexp.MustCompile(`(?m)^FROM (\S+) AS (\S+)$`).FindAllStringSubmatch(text, -1) {
		if host, _, named := strings.Cut(match[1], "/"); named || strings.Contains(host, ".") {
			t.Errorf("%s names a registry", match[1])
		}
		if !strings.Contains(text, `ENTRYPOINT ["/usr/local/bin/weir", "`+match[2]+`"]`) {
			t.Errorf("nothing starts %s", match[2])
		}
	}
	if n := strings.Count(text, "\nFROM "); n != 2 {
		t.Errorf("%d images, want 2", n)
	}
}

// What make dist makes, for the architecture of this machine.
func TestDistMakesStaticBinariesWithChecksums(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	directory := filepath.Join(t.TempDir(), "dist")
	build := exec.CommandContext(t.Context(), "../scripts/dist.sh", directory, runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary := filepath.Join(directory, "weir-linux-"+runtime.GOARCH)
	facts, err := exec.CommandContext(t.Context(), "go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath=true", "GOOS=linux"} {
		if !strings.Contains(string(facts), want) {
			t.Errorf("built without %s", want)
		}
	}
	out, err := exec.CommandContext(t.Context(), binary, "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var version struct{ Version, Platform string }
	if err := json.Unmarshal(out, &version); err != nil || version.Version == "" || version.Platform != "linux/"+runtime.GOARCH {
		t.Errorf("%v: %s", err, out)
	}
	sums := bufio.NewScanner(strings.NewReader(read(t, filepath.Join(directory, "SHA256SUMS"))))
	var names []string
	for sums.Scan() {
		sum, name, _ := strings.Cut(sums.Text(), "  ")
		hash := sha256.Sum256([]byte(read(t, filepath.Join(directory, name))))
		if hex.EncodeToString(hash[:]) != sum {
			t.Errorf("%s has another checksum", name)
		}
		names = append(names, name)
	}
	if len(names) != 2 || !strings.HasSuffix(names[0], "linux-"+runtime.GOARCH+".tar.gz") && !strings.HasSuffix(names[1], "linux-"+runtime.GOARCH+".tar.gz") {
		t.Fatalf("made %q", names)
	}
	archive := names[slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, ".tar.gz") })]
	list, err := exec.CommandContext(t.Context(), "tar", "-tzf", filepath.Join(directory, archive)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append([]string{"weir", "LICENSE", "NOTICES", "weir.yaml", "weir.sysusers.conf", "installation.md"}, units...) {
		if !strings.Contains(string(list), "/"+want+"\n") {
			t.Errorf("%s lacks %s", archive, want)
		}
	}
}

// notices are the texts of a file of notices by the titles of its sections.
func notices(text string) map[string]string {
	found := map[string]string{}
	line := strings.Repeat("=", 80)
	parts := strings.Split(text, "\n"+line+"\n")
	for i := 1; i+1 < len(parts); i += 2 {
		found[parts[i]] = parts[i+1]
	}
	return found
}

var licenceWords = regexp.MustCompile(`(?i)copyright|permission is hereby granted|public domain|apache license|mozilla public license`)

// Everything that is linked into the program has its licence in the archives.
func TestNoticesHaveTheLicenceOfEveryLinkedModule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "NOTICES")
	if out, err := exec.CommandContext(t.Context(), "../scripts/notices.sh", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sections := notices(read(t, file))
	for title, text := range sections {
		if !licenceWords.MatchString(text) {
			t.Errorf("%s has no licence: %.200q", title, text)
		}
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "../cmd/weir")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := slices.Compact(slices.Sorted(strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == '\n' })))
	for _, module := range modules {
		if sections["Go module "+module] == "" {
			t.Errorf("there is no notice of %s", module)
		}
	}
	if len(modules) < 10 {
		t.Errorf("only %d modules: %q", len(modules), modules)
	}
	if _, err := os.Stat("../internal/control/web/dist/index.html"); err == nil {
		var lock struct {
			Packages map[string]struct {
				Version, License string
				Dev, Optional    bool
			}
		}
		if err := json.Unmarshal([]byte(read(t, "../web/package-lock.json")), &lock); err != nil {
			t.Fatal(err)
		}
		for folder, about := range lock.Packages {
			if folder == "" {
				continue // the page itself
			}
			name := folder[strings.LastIndex(folder, "node_modules/")+len("node_modules/"):]
			if about.Dev || about.Optional || strings.HasPrefix(name, "@types/") {
				continue
			}
			if title := "npm package " + name + " " + about.Version + " (" + about.License + ")"; sections[title] == "" {
				t.Errorf("there is no notice of %s", title)
			}
		}
	}
}
