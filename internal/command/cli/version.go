package cli

import (
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build describes what this binary was built from. The Go toolchain records it; no build flag is
// needed.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.time":
			b.Time = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func newVersionCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and build information",
		Example: `  weir version
  weir version -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := readBuild()
			return opts.print(cmd.OutOrStdout(), b, func(w io.Writer) error {
				t := newTable(w)
				t.row("version", b.Version)
				if b.Revision != "" {
					revision := b.Revision
					if b.Modified {
						revision += " (modified)"
					}
					t.row("revision", revision)
					t.row("time", b.Time)
				}
				t.row("go", b.Go)
				t.row("platform", b.Platform)
				return t.flush()
			})
		},
	}
}
