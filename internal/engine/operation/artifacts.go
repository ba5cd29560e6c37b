package operation

import (
	"path/filepath"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// Artifacts are the files of a job's sandbox that are kept with the operation.
type Artifacts struct {
	Paths    []string
	On       document.Optional[string]
	MaxSize  document.Optional[int64]
	MaxCount document.Optional[int]
	// Restore lets a job continue with the files of the last attempt at the same work, whatever ended that attempt.
	Restore document.Optional[bool]
}

// Values of artifacts_on.
const (
	ArtifactsFinished  = "finished"
	ArtifactsCompleted = "completed"
)

var artifactsOn = document.Enum(
	document.Word[string]{Name: ArtifactsFinished, Value: ArtifactsFinished}, document.Word[string]{Name: ArtifactsCompleted, Value: ArtifactsCompleted},
)

var artifactPath = document.Texts.That("a path inside the sandbox, in which * stands for any part of a name and ** for any number of directories",
	document.RuleBadFormat, isArtifactPath)

// isArtifactPath reports whether a pattern stays inside the sandbox and can be matched.
func isArtifactPath(pattern string) bool {
	if !filepath.IsLocal(pattern) || filepath.Clean(pattern) == "." || strings.ContainsRune(pattern, 0) {
		return false
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := filepath.Match(part, ""); err != nil {
			return false
		}
	}
	return true
}

var artifactOptions = []document.Option[Artifacts]{
	document.Plain("artifact_paths", "Files of the sandbox that are kept when a job has ended, such as out/** or model.bin. weir op artifacts fetches them.",
		func(c *Artifacts) *[]string { return &c.Paths }, document.ListOf(artifactPath)),
	document.Maybe("artifacts_on", "finished: keep the files of jobs that completed or failed; completed: only those of jobs that completed.",
		func(c *Artifacts) *opt[string] { return &c.On }, artifactsOn.Default(ArtifactsFinished)),
	document.Maybe("max_artifact_size", "The most that a job's artifacts may have together. Further files are left out, with a warning.",
		func(c *Artifacts) *opt[int64] { return &c.MaxSize }, document.Between(memoryAmount, 1, 64<<30).Default(1<<30)),
	document.Maybe("max_artifact_count", "The most files among a job's artifacts.",
		func(c *Artifacts) *opt[int] { return &c.MaxCount }, document.Between(document.Ints, 1, 100_000).Default(10_000)),
	document.Maybe("restore_artifacts", "A job that restarts finds the artifacts of its last attempt in its sandbox. Those of aborted jobs are kept too, and only those of the last attempt stay.",
		func(c *Artifacts) *opt[bool] { return &c.Restore }, switched.Default(false)),
}

// checkArtifacts refuses to restore files that are not kept.
func checkArtifacts(r *document.Reader, v document.Value, t *Task, spec *Spec) {
	const option = "restore_artifacts"
	switch a := &t.Artifacts; {
	case !a.Restore.Value():
	case len(a.Paths) == 0:
		refuseOption(r, taskTable, v, option, RuleNothingToRestore, "needs artifact_paths, which says what is kept for the next attempt")
	case a.On.Value() == ArtifactsCompleted:
		refuseOption(r, taskTable, v, option, RuleNothingToRestore, "cannot be combined with artifacts_on = completed: jobs that restart have not completed")
	case spec.IsGang.Value():
		refuseOption(r, taskTable, v, option, RuleNothingToRestore, "cannot be used in a gang, whose jobs restart at once, before the files of the others are kept")
	}
}
