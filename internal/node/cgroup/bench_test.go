package cgroup

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

func benchDriver(b *testing.B) Driver {
	d, err := Detect("weir-bench-cgroup")
	if err != nil {
		b.Skipf("NO CONTROL GROUPS HERE: %v", err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

func BenchmarkCreateAndRemove(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		c, err := d.Create("bench", Limits{CPU: CPU{Guarantee: 1}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart measures a program that does nothing, from the call to its end.
func BenchmarkStart(b *testing.B) {
	d := benchDriver(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := d.Create("bench", Limits{CPU: CPU{Guarantee: 1}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Remove()
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer nothing.Close()
	for b.Loop() {
		pid, err := Start(c, Command{Args: []string{"/bin/true"}, Files: []*os.File{nothing, nothing, nothing}})
		if err != nil {
			b.Fatal(err)
		}
		syscall.Wait4(pid, nil, 0, nil)
	}
}

func BenchmarkSetCPU(b *testing.B) {
	d := benchDriver(b)
	c, err := d.Create("bench", Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Remove()
	for i := 0; b.Loop(); i++ {
		if err := c.SetCPU(CPU{Guarantee: 1 + float64(i%100)/100}); err != nil {
			b.Fatal(err)
		}
	}
}
