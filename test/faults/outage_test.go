//go:build linux

package faults

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/fakenode"
)

// TestPostgresMayCrashUnderLoad crashes the database: schedulers wait, raise an alert, and continue.
func TestPostgresMayCrashUnderLoad(t *testing.T) {
	c := onPostgres(t, 20)
	l := c.underLoad()
	stored := archive{}
	for range max(2, kills()/20) {
		finished := c.nodes.Totals().Acknowledged
		c.awaitNodes(func(t fakenode.Totals) bool { return t.Acknowledged > finished+20 })
		stop := c.watchAlerts("store_unavailable")
		postgres.Restart(t, "immediate")
		first := c.gateway.watch()
		select {
		case <-first:
		case <-time.After(patience):
			t.Fatal("nothing is acknowledged after the database is back")
		}
		if seen := stop(); len(seen) == 0 {
			t.Error("no scheduler has raised an alert while the database was away")
		}
		await(t, "the alert is taken down", func() bool {
			return !slices.ContainsFunc(c.alerts(), func(a string) bool { return strings.HasPrefix(a, "store_unavailable") })
		})
		c.checkOperations(l, stored)
	}
	for _, s := range c.schedulers {
		if !s.running() {
			t.Errorf("%s has ended", s.address)
		}
	}
	c.finish(l, stored)
}

// watchAlerts polls all schedulers for alerts; stop returns the messages of one kind that it saw.
func (c *cluster) watchAlerts(kind string) (stop func() []string) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var mutex sync.Mutex
	var seen []string
	var watchers sync.WaitGroup
	for i := range c.schedulers {
		watchers.Go(func() {
			for ctx.Err() == nil {
				attempt, done := context.WithTimeout(ctx, attemptTimeout)
				answer, err := c.gateway.once(attempt, i, get("//sys/scheduler/@alerts"))
				done()
				for _, alert := range answer.Items() {
					word, _ := dig(alert, "attributes", "alert_type")
					message, _ := dig(alert, "message")
					text, _ := message.Text()
					if got, _ := word.Text(); err == nil && got == kind {
						mutex.Lock()
						seen = append(seen, text)
						mutex.Unlock()
					}
				}
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	return func() []string {
		cancel()
		watchers.Wait()
		return seen
	}
}

// TestAFullDiskIsToldAndOutlived fills the disk of a scheduler on SQLite and then frees space.
func TestAFullDiskIsToldAndOutlived(t *testing.T) {
	disk := smallDisk(t, "size=48m")
	s := quickly()
	s.data = filepath.Join(disk, "data")
	c := newCluster(t, s, 1, 20)
	l := c.underLoad()
	stored := archive{}
	scheduler := c.schedulers[0]
	process := scheduler.process.Process.Pid
	for range 2 {
		finished := c.nodes.Totals().Acknowledged
		c.awaitNodes(func(t fakenode.Totals) bool { return t.Acknowledged > finished+20 })
		filler := fill(t, disk)
		var message string
		await(t, "an alert says that the disk is full", func() bool {
			for _, alert := range c.alerts() {
				if strings.HasPrefix(alert, "store_unavailable") {
					message = alert
				}
			}
			return message != ""
		})
		if !strings.Contains(message, "no room on the disk") {
			t.Errorf("the alert does not say why: %s", message)
		}
		await(t, "a change is refused with a code that clients repeat", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), attemptTimeout)
			defer cancel()
			_, err := c.gateway.once(ctx, 0, set("//sys/pool_trees/default/savings/@weight", yson.Double(2)))
			return err != nil && !refused(err) && ctx.Err() == nil
		})
		t.Log(message)
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		first := c.gateway.watch()
		select {
		case <-first:
		case <-time.After(patience):
			t.Fatal("nothing is acknowledged although there is room")
		}
		await(t, "the alert is taken down", func() bool { return len(c.alerts()) == 0 })
		c.checkOperations(l, stored)
	}
	if !scheduler.running() || scheduler.process.Process.Pid != process {
		t.Error("the scheduler was started again")
	}
	c.finish(l, stored)
	scheduler.kill()
	checkIntegrity(t, strings.TrimPrefix(c.url, "sqlite:"))
	scheduler.start()
	c.leader()
	for _, o := range l.operations() {
		o.over = false
	}
	if left := c.checkOperations(l, archive{}); left > 0 {
		t.Errorf("%d operations that were over are not any more", left)
	}
	c.checkPools(l)
}

// smallDisk mounts a separate file system. Only root can.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	directory := t.TempDir()
	if err := syscall.Mount("weir-test", directory, "tmpfs", 0, options); err != nil {
		t.Skipf("NOT TESTED WITH A FULL DISK: a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(directory, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// fill uses up all free space and returns the file that occupies it.
func fill(t *testing.T, disk string) string {
	t.Helper()
	path := filepath.Join(disk, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			_, err = file.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return path
}

func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("the file is damaged: %s, %v", verdict, err)
	}
}
