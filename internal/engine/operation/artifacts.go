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
}
