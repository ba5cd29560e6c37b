package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
)

func TestImagesOfANodeAreListed(t *testing.T) {
	n := &client.Node{Name: "n1", Images: []client.Image{
		{Name: "registry.example/train:v1", Digest: "sha256:1", Size: 3 << 30, Jobs: 2},
		{Name: "tools:v3", Digest: "sha256:2", Size: 1 << 20, LastUse: time.Date(2026, 11, 16, 10, 0, 0, 0, time.UTC)},
		{Name: "new:v1", Digest: "sha256:3"},
	}}
	var out strings.Builder
	if err := writeNode(&out, n); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"registry.example/train:v1@sha256:1, 3 GiB, 2 jobs", "tools:v3@sha256:2, 1 MiB, last used ", "new:v1@sha256:3, not used yet",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestRunNamesTheImage(t *testing.T) {
	c := &runCall{memory: "1GiB", jobs: 1, cpu: 1, image: "registry.example/train:v1"}
	spec, err := c.spec([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	task := spec["tasks"].(map[string]any)["run"].(map[string]any)
	if task["docker_image"] != "registry.example/train:v1" {
		t.Errorf("%v", task)
	}
}
