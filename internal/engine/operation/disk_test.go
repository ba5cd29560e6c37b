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

func TestTheNetworkOfATaskIsAWordOrAnAmount(t *testing.T) {
	for text, want := range map[string]struct {
		network string
		limit   int64
	}{"network: none": {NoNetwork, 0}, "network: host": {HostNetwork, 0}, "network: 7": {HostNetwork, 7}, "network_limit: 7": {HostNetwork, 7}, "network: none, network_limit: 3": {NoNetwork, 3}} {
		task := &mustSpec(t, "tasks: {main: {job_count: 1, command: 'true', "+text+"}}\n").Tasks[0].Value
		if task.Network.Value() != want.network || task.NetworkLimit.Value() != want.limit {
			t.Errorf("%s: %q and %d", text, task.Network.Value(), task.NetworkLimit.Value())
		}
	}
}
