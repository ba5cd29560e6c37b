package operation

import (
	"strings"
	"testing"
)

func TestOnlyFilesThatAreKeptCanBeRestored(t *testing.T) {
	read := func(task, rest string) error {
		_, err := parseSpec([]byte("{"+rest+"tasks: {a: {job_count: 1, command: x, restore_artifacts: true"+task+"}}}"), ReadOptions{})
		return err
	}
	if err := read(", artifact_paths: [out]", ""); err != nil {
		t.Error(err)
	}
	for _, test := range [][3]string{
		{"", "", "needs artifact_paths"},
		{", artifact_paths: [out], artifacts_on: completed", "", "cannot be combined with artifacts_on"},
		{", artifact_paths: [out]", "is_gang: true, ", "cannot be used in a gang"},
	} {
		if err := read(test[0], test[1]); err == nil || !strings.Contains(err.Error(), "tasks/a/restore_artifacts: "+test[2]) {
			t.Errorf("%v: %v", test, err)
		}
	}
}

func TestLayersAreFilesOfTheTreeAndTheOnlyRoot(t *testing.T) {
	read := func(options string) error {
		_, err := parseSpec([]byte("tasks: {a: {job_count: 1, command: x, "+options+"}}"), ReadOptions{})
		return err
	}
	if err := read("layer_paths: [//home/top, //home/base]"); err != nil {
		t.Error(err)
	}
	for options, want := range map[string]string{
		"layer_paths: [/opt/base]":                                           "must be the path of a file in the tree",
		"layer_paths: [{file_name: f, content: x}]":                          "must be the path of a file in the tree",
		"layer_paths: [//base], docker_image: registry.example/x":            "tasks/a/layer_paths: cannot be combined with docker_image",
		"layer_paths: [" + strings.Repeat("//base, ", maxLayers) + "//base]": "has 61 layers",
	} {
		if err := read(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", options, err)
		}
	}
}
