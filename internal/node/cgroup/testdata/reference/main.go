// Command reference uses known amounts of memory and CPU, as a reference for measurements of containers and jobs. It
// imports no room: it must use only what its arguments request. It is a separate program because a test binary built
// with the race detector uses more than that.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() { os.Exit(run(os.Args[1:])) }

// run runs the steps that the arguments name, one after another, and returns the exit code. Steps:
//
//	alloc=BYTES      allocate anonymous memory and touch it
//	free             free what alloc allocated
//	map=FILE:BYTES   write a file of this size and map it
//	burn=DURATION    use this much CPU time with one thread
//	cpu              print to stderr how many microseconds of CPU time the process has used so far
//	say=TEXT         print a line to stdout
//	touch=FILE       create an empty file
//	wait             read stdin until it ends
//	sleep=DURATION   do nothing for this long
//	ignore=SIGNAL    ignore the signal of this number from now on
//	await=SIGNAL     wait for the signal of this number
//	exit=CODE        end with this code
//	kill=SIGNAL      send itself a signal
func run(steps []string) int {
	var held [][]byte
	for _, step := range steps {
		verb, value, _ := strings.Cut(step, "=")
		var err error
		switch verb {
		case "alloc":
			var area []byte
			area, err = allocate(value)
			held = append(held, area)
		case "free":
			for _, area := range held {
				err = unix.Munmap(area)
			}
			held = nil
		case "map":
			err = mapFile(value)
		case "burn":
			err = burn(value)
		case "cpu":
			_, err = fmt.Fprintln(os.Stderr, cpuTime().Microseconds())
		case "exit":
			code, _ := strconv.Atoi(value)
			return code
		default:
			err = wait(verb, value)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, step+":", err)
			return 99
		}
	}
	return 0
}

// wait runs the steps that only wait.
func wait(verb, value string) error {
	number, _ := strconv.Atoi(value)
	switch verb {
	case "say":
		_, err := fmt.Println(value)
		return err
	case "touch":
		return os.WriteFile(value, nil, 0o644)
	case "wait":
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "sleep":
		d, err := time.ParseDuration(value)
		time.Sleep(d)
		return err
	case "ignore":
		signal.Ignore(syscall.Signal(number))
	case "await":
		arrived := make(chan os.Signal, 1)
		signal.Notify(arrived, syscall.Signal(number))
		fmt.Println("awaiting")
		<-arrived
	case "kill":
		return syscall.Kill(os.Getpid(), syscall.Signal(number))
	default:
		return fmt.Errorf("unknown step %q", verb)
	}
	return nil
}

func allocate(value string) ([]byte, error) {
	size, err := strconv.Atoi(value)
	if err != nil {
		return nil, err
	}
	area, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	touch(area)
	return area, err
}

func touch(area []byte) {
	for i := 0; i < len(area); i += unix.Getpagesize() {
		area[i] = 1
	}
}

func mapFile(value string) error {
	name, length, _ := strings.Cut(value, ":")
	size, err := strconv.Atoi(length)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(int64(size)); err != nil {
		return err
	}
	area, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	_ = unix.Mlock(area) // otherwise the kernel reclaims file pages when memory is short; locking might not be permitted
	touch(area)
	return nil
}

func burn(value string) error {
	want, err := time.ParseDuration(value)
	if err != nil {
		return err
	}
	for start, x := cpuTime(), 1; cpuTime()-start < want; {
		for range 1 << 16 {
			x = x*31 + 7
		}
		if x == 0 {
			fmt.Println(x) // keep the loop
		}
	}
	return nil
}

func cpuTime() time.Duration {
	var usage unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
