package operation

import "testing"

func TestTheLimitOfDiskHasTwoSpellings(t *testing.T) {
	for _, options := range []string{"disk_request: {disk_space: 1GiB, inode_count: 5}", "disk_space_limit: 1GiB, inode_limit: 5"} {
		s, err := parseSpec([]byte("tasks: {a: {job_count: 1, command: x, "+options+"}}"), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if disk := s.Spec.Tasks[0].Value.Disk; disk.Space.Value() != 1<<30 || disk.Inodes.Value() != 5 {
			t.Errorf("%s: %d bytes, %d files", options, disk.Space.Value(), disk.Inodes.Value())
		}
	}
}
