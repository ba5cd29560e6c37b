package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// runCall is one call of weir run.
type runCall struct {
	pool, tree, title string
	cpu               float64
	gpu               int64
	memory, timeLimit string
	jobs, retries     int64
	environment       []string
	large             []largeFile
	files             []string
	image             string
	outputs           []string // patterns of files to keep
	resume            bool     // a job that restarts finds them again
	tag               string
	notify            []string
	weight            float64
	detach, quiet     bool
	admission         admission
}

func newRunCommand(opts *options) *cobra.Command {
	r, c := newRemote(opts), &runCall{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT]...",
		Short: "Run a command on the cluster and wait for it",
		Long: `Run a command on the cluster as an operation with one task, and wait until it ends. The output of jobs
is printed when they end; with several jobs every line starts with the job's number. A single
COMMAND goes to the shell unchanged, so it may have pipes; several words are quoted.

Jobs run on other machines, in an empty directory: they see no files of yours but those that
--file takes along.

The exit code is that of the job that failed first, 0 if all completed, 1 if there is none.
Ctrl-C aborts the operation; on a terminal it asks first.`,
		Example: `  weir run -- echo hello
  weir run -p research --cpu 2 --memory 1GiB --jobs 3 -- 'echo job $YT_JOB_COOKIE'
  weir run --detach --title later -- sleep 1
  weir run --file README.md:notes -- wc -l notes
  weir run --file docs:texts -- 'ls texts | wc -l'
  weir run -- false  # exit 1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageErrorf("run needs a command, after --")
			}
			return nil
		},
		RunE: r.do(c.run),
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the command are the command's
	flags.StringVarP(&c.pool, "pool", "p", "", "pool; if unset, the one named after you")
	flags.StringVar(&c.tree, "tree", "", "pool tree; the default one if unset")
	flags.StringVar(&c.title, "title", "", "title of the operation; if unset, the command")
	flags.Float64Var(&c.cpu, "cpu", 1, "cores per job")
	flags.StringVar(&c.memory, "memory", "512MiB", "memory limit per job")
	flags.Int64Var(&c.gpu, "gpu", 0, "GPUs per job")
	flags.Int64VarP(&c.jobs, "jobs", "n", 1, "number of jobs; YT_JOB_COOKIE has the job's number")
	flags.Int64Var(&c.retries, "retries", 0, "how many job failures the operation tolerates")
	flags.StringArrayVarP(&c.environment, "env", "e", nil, "environment variable of the jobs: NAME=VALUE, or NAME to pass your own (repeatable)")
	flags.StringArrayVarP(&c.files, "file", "f", nil, "file or directory to put into the jobs' directory: PATH, or PATH:NAME to give it another name; .weirignore in a directory names what stays here (repeatable)")
	flags.StringVar(&c.image, "image", "", "container image to run in, such as registry.example/train:v1, or one of weir image list; if unset, jobs see the programs of their node")
	flags.StringArrayVar(&c.outputs, "output", nil, "files to keep of the jobs' directory, such as out/ or 'log/*.txt'; weir op artifacts fetches them (repeatable)")
	flags.BoolVar(&c.resume, "resume", false, "give a job that restarts, for example after preemption, the files of --output that its last attempt left")
	flags.StringVar(&c.timeLimit, "time-limit", "", "time limit per job, such as 90s or 2h")
	flags.StringVar(&c.tag, "tag", "", "run only on nodes with this tag, or that match a filter such as 'ssd & !old'")
	flags.StringArrayVar(&c.notify, "notify", nil, "notification target of the cluster that is told when the operation ends (repeatable)")
	flags.Float64Var(&c.weight, "weight", 0, "weight among the operations of the pool")
	c.admission.addTo(cmd)
	flags.BoolVarP(&c.detach, "detach", "d", false, "print the id and do not wait")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "print only the jobs' output")
	r.mustComplete(cmd, "pool", r.completePools())
	r.mustComplete(cmd, "tree", r.completeTrees())
	return r.addTo(cmd)
}

func (c *runCall) run(s *session, args []string) error {
	defer c.forgetFiles()
	spec, err := c.spec(args)
	if err != nil {
		return err
	}
	if err := c.admission.checkPool(s, c.pool, c.tree); err != nil {
		return err
	}
	if err := c.sendFiles(s); err != nil {
		return err
	}
	id, err := c.admission.start(s, client.Vanilla, spec)
	if err != nil {
		return err
	}
	if c.detach {
		return s.printID("operation_id", id)
	}
	c.say(s, "weir: operation %s started\n", id)
	output := &runOutput{s: s, id: id, several: c.jobs > 1, seen: map[string]bool{}, bar: newWatchBar(s)}
	defer output.bar.clear()
	last, err := c.follow(output)
	output.bar.clear()
	if err != nil {
		if s.ctx.Err() != nil {
			c.interrupted(s, id)
		}
		return err
	}
	if last.State == client.Completed {
		c.say(s, "weir: operation %s completed: %s\n", id, countsText(last.Jobs))
		return nil
	}
	err = s.verdict(id, last)
	if output.exit > 0 && output.exit < 256 {
		c.adviseFile(s, args, output.exit)
		return &jobExit{output.exit}
	}
	return err
}

// follow shows the operation's progress and its jobs' output until the operation ends.
func (c *runCall) follow(output *runOutput) (last *client.Operation, err error) {
	s, told := output.s, false
	for o, err := range s.WatchOperation(s.ctx, output.id) {
		if err != nil {
			return nil, err
		}
		last = o
		output.bar.show(o)
		if err := output.show(o); err != nil {
			return nil, err
		}
		if !told && !o.State.Ended() && output.bar.waits(o) {
			told = true
			output.bar.clear()
			c.say(s, "weir: no job has started yet; weir explain %s shows why\n", output.id)
		}
	}
	return last, nil
}

// start starts the operation. If the command is interrupted during the request, it still waits for the
// answer for a moment: a started operation can be aborted only by its id.
func start(s *session, kind string, spec any) (id string, err error) {
	const patience = 3 * time.Second
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	defer cancel()
	defer context.AfterFunc(s.ctx, func() {
		timer := time.AfterFunc(patience, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})()
	return s.StartOperation(ctx, kind, spec)
}

func (c *runCall) say(s *session, format string, args ...any) {
	if !c.quiet {
		fmt.Fprintf(s.errs, format, args...)
	}
}

// spec describes the operation.
func (c *runCall) spec(args []string) (map[string]any, error) {
	command := args[0]
	if len(args) > 1 {
		command = quoteAll(args)
	}
	memory, err := resource.ParseAmount(resource.Memory, c.memory)
	if err != nil {
		return nil, usageErrorf("--memory: %v", err)
	}
	if memory > 0 && memory < 1<<20 && strings.Trim(c.memory, "0123456789") == "" {
		return nil, usageErrorf("--memory %s means %[1]s bytes; write %[1]sMiB or %[1]sGiB", c.memory)
	}
	limit := time.Duration(0)
	if c.timeLimit != "" {
		if limit, err = document.ParseDuration(c.timeLimit); err != nil {
			return nil, usageErrorf("--time-limit must be a duration, such as 90s or 2h, not %q", c.timeLimit)
		}
	}
	if c.resume && len(c.outputs) == 0 {
		return nil, usageErrorf("--resume needs --output, which names the files that the next attempt gets")
	}
	if c.jobs < 1 {
		return nil, usageErrorf("--jobs must be at least 1, not %d", c.jobs)
	}
	environment := map[string]any{}
	for _, variable := range c.environment {
		name, value, given := strings.Cut(variable, "=")
		if !given {
			if value, given = os.LookupEnv(name); !given {
				return nil, usageErrorf("--env: the variable %s is not set here: give %[1]s=VALUE", name)
			}
		}
		environment[name] = value
	}
	files, err := c.readFiles()
	if err != nil {
		return nil, err
	}
	task := map[string]any{
		"command": command, "job_count": c.jobs, "cpu_limit": c.cpu, "memory_limit": memory, "redirect_stdout_to_stderr": true,
	}
	spec := map[string]any{
		"title": firstNonEmpty(c.title, document.Shorten(command)), "max_failed_job_count": c.retries + 1,
		"tasks": map[string]any{"run": task},
	}
	for _, option := range []struct {
		in    map[string]any
		name  string
		given bool
		value any
	}{
		{task, "file_paths", len(files) > 0, files}, {task, "docker_image", c.image != "", c.image},
		{task, "artifact_paths", len(c.outputs) > 0, c.outputs},
		{task, "restore_artifacts", c.resume, true},
		{task, "gpu_limit", c.gpu != 0, c.gpu}, {task, "environment", len(environment) > 0, environment},
		{task, "job_time_limit", limit != 0, limit}, {spec, "pool", c.pool != "", c.pool},
		{spec, "pool_trees", c.tree != "", []string{c.tree}}, {spec, "weight", c.weight != 0, c.weight},
		{spec, "scheduling_tag_filter", c.tag != "", c.tag}, {spec, "notify", len(c.notify) > 0, c.notify},
	} {
		if option.given {
			option.in[option.name] = option.value
		}
	}
	return spec, nil
}

// quoteAll joins words so that a shell splits them again.
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quoteWord(word)
	}
	return strings.Join(quoted, " ")
}

func quoteWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./-_", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// interrupted aborts the operation of an interrupted command. On a terminal it asks the user first; a
// second Ctrl-C there leaves the operation running.
func (c *runCall) interrupted(s *session, id string) {
	if in, ok := s.cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		fmt.Fprintf(s.errs, "\nAbort operation %s? [Y/n] ", id)
		line, _ := bufio.NewReader(in).ReadString('\n')
		if word := strings.ToLower(strings.TrimSpace(line)); word == "n" || word == "no" {
			fmt.Fprintf(s.errs, "weir: operation %s continues; weir op abort %s ends it\n", id, id)
			return
		}
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
	defer cancel()
	if err := s.AbortOperation(ctx, id, "weir run was interrupted"); err != nil {
		fmt.Fprintf(s.errs, "weir: operation %s continues, because aborting it failed: %v\n", id, err)
		return
	}
	fmt.Fprintf(s.errs, "weir: operation %s was aborted\n", id)
}

// runOutput prints the output of jobs, each job once, as they end.
type runOutput struct {
	s       *session
	id      string
	several bool
	seen    map[string]bool
	exit    int // of the job that failed first
	bar     *watchBar
}

// show finds the jobs that have ended since the last call.
func (o *runOutput) show(op *client.Operation) error {
	if finishedJobs(op) <= int64(len(o.seen)) && !op.State.Ended() {
		return nil
	}
	var found []*client.Job
	filter := client.JobFilter{Finished: true, SortBy: "finish_time", Descending: true}
	for {
		page, err := o.s.ListJobs(o.s.ctx, o.id, filter)
		if err != nil {
			return err
		}
		before := len(found)
		for i := range page.Jobs {
			if job := &page.Jobs[i]; !o.seen[job.ID] {
				o.seen[job.ID] = true
				found = append(found, job)
			}
		}
		if filter.Token = page.Token; filter.Token == "" || len(found) == before {
			break
		}
	}
	for _, job := range slices.Backward(found) {
		o.bar.clear()
		if err := o.print(job); err != nil {
			return err
		}
	}
	return nil
}

func (o *runOutput) print(job *client.Job) error {
	if job.State == client.Failed && o.exit == 0 && job.ExitCode != nil {
		o.exit = int(*job.ExitCode)
	}
	if job.StderrSize == 0 {
		return nil
	}
	data, err := o.s.JobStderr(o.s.ctx, job.ID)
	if err != nil {
		return err
	}
	if o.several {
		data = prefixLines(fmt.Sprintf("[%d] ", job.Cookie), data)
	}
	_, err = o.s.out.Write(data)
	return err
}

// prefixLines adds a prefix to every line and terminates the last one.
func prefixLines(prefix string, data []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(data) {
		b.WriteString(prefix)
		b.Write(line)
	}
	if b.Len() > 0 && b.Bytes()[b.Len()-1] != '\n' {
		b.WriteByte('\n')
	}
	return b.Bytes()
}
