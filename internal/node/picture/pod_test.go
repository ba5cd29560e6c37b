package picture

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

func TestWhatAPodCannotGiveIsRefusedByName(t *testing.T) {
	for option, spec := range map[string]*nodev1.JobSpec{
		"layer_paths":           {Image: &nodev1.JobImage{Layers: []*nodev1.Content{{}}}},
		"network":               {Network: "none"},
		"gpu_check_binary_path": {GpuCheck: &nodev1.GpuCheck{}},
		"inode_limit":           {InodeLimit: 5},
		"stdin":                 {Stdin: []byte("x")},
	} {
		if err := unsupported(spec); err == nil || !strings.HasPrefix(err.Error(), option) {
			t.Errorf("%s: %v", option, err)
		}
	}
	if err := unsupported(&nodev1.JobSpec{Image: &nodev1.JobImage{Name: "debian"}}); err != nil {
		t.Error(err)
	}
}
