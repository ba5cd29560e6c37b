package weir_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/weirhq/weir/test/fakeimage"
)

func exists(name string) bool {
	_, err := os.Stat(filepath.FromSlash(name))
	return err == nil
}

// shellCommand is one command line of a document.
type shellCommand struct {
	document string
	line     int
	text     string
	exit     int      // the exit code that the document states
	output   []string // the lines of output that the document shows, in order
}

var (
	weirCommand = regexp.MustCompile(`^(weir|\./bin/weir)( |$)`)
	notRun      = regexp.MustCompile(`#\s*not run: \S+`)
	promised    = regexp.MustCompile(`#\s*exit (\d+)`)
)

// documentCommands returns the weir command lines to run from the ```sh blocks of a document. A
// line may contain "# exit 1" if it must fail with that code, or "# not run: reason"; a backslash
// at its end continues it. The lines of a ```output block belong to the preceding command; a line
// "…" matches anything.
func documentCommands(document, text string) []shellCommand {
	var commands []shellCommand
	language, continued := "", false
	skipped := true // whether the last command line is one that is not run
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if fence, ok := strings.CutPrefix(trimmed, "```"); ok {
			if language != "" {
				language = ""
			} else {
				language = fence + " "               // an open block has a language, if only a space
				skipped = skipped || fence == "bash" // other tests run these, and their output is not of a command before
			}
			continue
		}
		switch language {
		case "sh ":
			last := len(commands) - 1
			if continued {
				if !skipped {
					commands[last].text += "\n" + line
				}
			} else if weirCommand.MatchString(trimmed) {
				if skipped = notRun.MatchString(line); !skipped {
					commands = append(commands, shellCommand{document: document, line: i + 1, text: trimmed})
					last++
				}
			} else if trimmed != "" && !strings.HasPrefix(trimmed, "#") {
				skipped = true
			}
			if found := promised.FindStringSubmatch(line); found != nil && !skipped {
				commands[last].exit, _ = strconv.Atoi(found[1])
			}
			continued = strings.HasSuffix(trimmed, `\`)
		case "output ":
			if !skipped && trimmed != "…" && trimmed != "" {
				commands[len(commands)-1].output = append(commands[len(commands)-1].output, strings.TrimRight(line, " "))
			}
		}
	}
	return commands
}

// workshop is a directory that looks like the repository's root with a built bin/weir. Commands of
// documents run in it and leave their files there.
type workshop struct {
	dir     string
	address string // of the scheduler that commands use, if there is one
}

func newWorkshop(t *testing.T) workshop {
	t.Helper()
	w := workshop{dir: t.TempDir()}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if err := os.Symlink(filepath.Join(root, entry.Name()), filepath.Join(w.dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(w.dir, "bin"), 0o755), os.Symlink(program, filepath.Join(w.dir, "bin", "weir"))); err != nil {
		t.Fatal(err)
	}
	return w
}

// program is the path of weir, built once for all tests, or the one that WEIR_BINARY names.
var program = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("WEIR_BINARY"); given != "" {
		return filepath.Abs(given)
	}
	path := filepath.Join(programDir, "weir")
	if out, err := exec.Command("go", "build", "-o", path, "./cmd/weir").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return path, nil
})

// programDir is the directory in which the tests build weir.
var programDir string

func TestMain(m *testing.M) {
	var err error
	if programDir, err = os.MkdirTemp("", "weir-documents-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programDir)
	os.Exit(code)
}

// run executes a command line as a user would type it and returns its output.
func (w workshop) run(t *testing.T, line string) (output string, exit int) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", line)
	shell.Dir = w.dir
	shell.Env = append(os.Environ(), "HOME="+w.dir, "XDG_CONFIG_HOME="+filepath.Join(w.dir, ".config"), "NO_COLOR=1", "WEIR_ADDR="+w.address,
		"PATH="+filepath.Join(w.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	if err := shell.Run(); err != nil && shell.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), shell.ProcessState.ExitCode()
}

func TestCommandsInDocumentsWork(t *testing.T) {
	t.Parallel()
	var commands []shellCommand
	texts := readSource(t).texts
	for name, text := range texts {
		if name == "README.md" || path.Dir(name) == "docs" && path.Ext(name) == ".md" {
			commands = append(commands, documentCommands(name, text)...)
		}
	}
	slices.SortFunc(commands, func(a, b shellCommand) int {
		if a.document != b.document {
			return strings.Compare(a.document, b.document)
		}
		return a.line - b.line
	})
	if len(commands) == 0 {
		t.Fatal("the documents show no command")
	}
	workshop := newWorkshop(t)
	workshop.serve(t)
	for _, command := range commands {
		t.Run(fmt.Sprintf("%s:%d", command.document, command.line), func(t *testing.T) {
			output, exit, missing := workshop.follow(t, command)
			if exit != command.exit {
				t.Fatalf("%s\nexit code %d, want %d; output:\n%s", command.text, exit, command.exit, output)
			}
			if missing != "" {
				t.Errorf("%s\ndoes not print, or not in this order: %q; output:\n%s", command.text, missing, output)
			}
		})
	}
}

// looks matches commands of documents that change nothing.
var looks = regexp.MustCompile(`^(\./bin/)?weir (get|list|pools|explain|events|report|nodes( -.*)?$|op (get|list|jobs))[^|>;&]*$`)

// follow runs a command of a document. A reader types more slowly than the scheduler works, so
// commands that only read are repeated until they show what the document shows.
func (w workshop) follow(t *testing.T, command shellCommand) (output string, exit int, missing string) {
	t.Helper()
	began := time.Now()
	for {
		output, exit = w.run(t, command.text)
		missing = firstMissing(output, command.output)
		if exit == command.exit && missing == "" || !looks.MatchString(command.text) || time.Since(began) > patience/4 {
			return output, exit, missing
		}
	}
}

// firstMissing returns the first of the lines that output does not contain after the previous ones.
func firstMissing(output string, lines []string) string {
	printed := strings.Split(output, "\n")
	for _, line := range lines {
		at := slices.IndexFunc(printed, func(p string) bool { return strings.TrimRight(p, " ") == line })
		if at < 0 {
			return line
		}
		printed = printed[at+1:]
	}
	return ""
}

// proposal matches a command that the demonstration suggests; a remark may follow after spaces.
var proposal = regexp.MustCompile(`(?m)^  (\./bin/weir .*?)(   .*)?$`)

func TestTheDemonstrationRuns(t *testing.T) {
	t.Parallel()
	workshop := newWorkshop(t)
	output, exit := workshop.run(t, "scripts/demo.sh bin/weir")
	if exit != 0 {
		t.Fatalf("exit code %d; output:\n%s", exit, output)
	}
	for _, want := range []string{"$ weir shares ", "--explain", "\nfits: ", "\ndoes not fit: ", "The picture is bin/burst.svg", "Three things to try:"} {
		if !strings.Contains(output, want) {
			t.Errorf("does not show %q; output:\n%s", want, output)
		}
	}
	if !exists(filepath.Join(workshop.dir, "bin", "burst.svg")) {
		t.Error("there is no picture")
	}
	proposals := proposal.FindAllStringSubmatch(output, -1)
	if len(proposals) < 2 {
		t.Errorf("proposes %d commands; output:\n%s", len(proposals), output)
	}
	for _, found := range proposals {
		if output, exit := workshop.run(t, found[1]); exit != 0 {
			t.Errorf("%s\nexit code %d; output:\n%s", found[1], exit, output)
		}
	}
}

// plainExample matches an example in a help text that has no side effect outside the directory.
var plainExample = regexp.MustCompile(`^  (weir [^|<>$&;~]*)$`)

func TestExamplesOfHelpTextsWork(t *testing.T) {
	t.Parallel()
	workshop := newWorkshop(t)
	workshop.serve(t)
	ran := 0
	layer := fakeimage.Layer(t, fakeimage.Entry{Name: "etc/release", Content: "fake\n"})
	fakeimage.Save(t, filepath.Join(workshop.dir, "train.tar"), "team/train:v1", fakeimage.Image(t, v1.Config{}, layer))
	for _, topic := range helpTopics(t, workshop, nil) {
		if topic.command == "kube" || strings.HasPrefix(topic.command, "kube ") {
			continue // test/kube has a cluster of Kubernetes
		}
		_, examples, _ := strings.Cut(topic.help, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\nAvailable Commands:")
		examples, _, _ = strings.Cut(examples, "\n\nFlags:")
		if strings.Contains(examples, "'*") || strings.Contains(examples, "research") {
			workshop.refresh(t)
		}
		for line := range strings.Lines(examples) {
			found := plainExample.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if found == nil {
				continue
			}
			command, want := found[1], 0
			if code := promised.FindStringSubmatch(command); code != nil {
				want, _ = strconv.Atoi(code[1])
			}
			ran++
			if output, exit := workshop.run(t, command); exit != want {
				t.Errorf("help of weir %s: %s\nexit code %d, want %d; output:\n%s", topic.command, command, exit, want, output)
			}
		}
	}
	if ran == 0 {
		t.Error("the help texts show no example")
	}
}

// helpTopic is a command without "weir", and its help.
type helpTopic struct{ command, help string }

// helpTopics returns the given command and the commands below it, as weir lists them.
func helpTopics(t *testing.T, w workshop, parent []string) []helpTopic {
	t.Helper()
	topic := helpTopic{command: strings.Join(parent, " ")}
	var exit int
	if topic.help, exit = w.run(t, "weir "+topic.command+" --help"); exit != 0 {
		t.Errorf("weir %s --help: exit code %d", topic.command, exit)
	}
	topics := []helpTopic{topic}
	_, list, found := strings.Cut(topic.help, "\nAvailable Commands:\n")
	if !found {
		return topics
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if words := strings.Fields(line); len(words) > 0 {
			topics = append(topics, helpTopics(t, w, append(slices.Clone(parent), words[0]))...)
		}
	}
	return topics
}

func TestReadersAreWarnedOfTheOrchid(t *testing.T) {
	text, err := os.ReadFile("docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "It is not a stable API") {
		t.Error("docs/cli.md uses the orchid and does not warn that it is not a stable API")
	}
}

// picture is an image that a document shows.
var picture = regexp.MustCompile(`!\[[^\]]*\]\(([^)]+)\)`)

// mostPictures limits the total size of docs/screenshots in bytes, because every clone contains
// them.
const mostPictures = 1 << 20

func TestEveryPictureIsShownByADocument(t *testing.T) {
	shown := map[string]bool{}
	for name, text := range readSource(t).texts {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, match := range picture.FindAllStringSubmatch(text, -1) {
			file := path.Join(path.Dir(name), match[1])
			if shown[file] = true; !exists(file) {
				t.Errorf("%s shows %s, which is not there", name, file)
			}
		}
	}
	kept, err := filepath.Glob("docs/screenshots/*")
	if err != nil || len(kept) == 0 {
		t.Fatalf("%d pictures, %v", len(kept), err)
	}
	size := int64(0)
	for _, file := range kept {
		if !shown[filepath.ToSlash(file)] {
			t.Errorf("no document shows %s", file)
		}
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	if size > mostPictures {
		t.Errorf("the pictures have %d bytes; the limit is %d", size, mostPictures)
	}
}
