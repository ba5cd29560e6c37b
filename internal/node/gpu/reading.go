package gpu

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Reading is the state of a device at one moment.
type Reading struct {
	// Utilization is the part of the last second in which the device worked, in percent; negative if not known.
	Utilization int64
	MemoryUsed  int64
	MemoryTotal int64 // zero if not known
	// Fault is why jobs must not use the device; empty if it is well.
	Fault string
	// Processes are the ids of the processes that use the device.
	Processes []int
}

// A Reader reads the state of devices, by id. A device that is missing has no reading.
type Reader interface {
	Read(ctx context.Context) (map[string]Reading, error)
}

// Tool reads with nvidia-smi, which is at this path.
type Tool string

// What the tool is asked for, in the order of record's fields.
const (
	deviceQuery  = "uuid,utilization.gpu,memory.used,memory.total,ecc.errors.uncorrected.volatile.total,remapped_rows.failure,remapped_rows.pending"
	processQuery = "gpu_uuid,pid"
)

// Read runs the tool twice: for the devices and for the processes that compute on them.
func (t Tool) Read(ctx context.Context) (map[string]Reading, error) {
	devices, err := t.run(ctx, "--query-gpu="+deviceQuery)
	if err != nil {
		return nil, err
	}
	processes, err := t.run(ctx, "--query-compute-apps="+processQuery)
	if err != nil {
		return nil, err
	}
	return parseReadings(devices, processes)
}

func (t Tool) run(ctx context.Context, query string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, string(t), query, "--format=csv,noheader,nounits").Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s did not answer: %w", t, ctx.Err())
	}
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return nil, fmt.Errorf("%s: %w: %s", t, err, firstLine(append(failed.Stderr, out...)))
		}
		return nil, err
	}
	return out, nil
}

// parseReadings reads the tool's tables. A field that the device does not support is a word in brackets.
func parseReadings(devices, processes []byte) (map[string]Reading, error) {
	readings := map[string]Reading{}
	rows, err := table(devices, 7)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		r := Reading{Utilization: -1}
		if n, ok := number(row[1]); ok {
			r.Utilization = n
		}
		if n, ok := number(row[2]); ok {
			r.MemoryUsed = n << 20
		}
		if n, ok := number(row[3]); ok {
			r.MemoryTotal = n << 20
		}
		errorCount, _ := number(row[4])
		switch {
		case errorCount > 0:
			r.Fault = fmt.Sprintf("%d uncorrected memory errors", errorCount)
		case isYes(row[5]):
			r.Fault = "a row of its memory could not be remapped"
		case isYes(row[6]):
			r.Fault = "a row of its memory waits to be remapped: reset the device"
		}
		readings[row[0]] = r
	}
	if rows, err = table(processes, 2); err != nil {
		return nil, err
	}
	for _, row := range rows {
		pid, ok := number(row[1])
		if r, found := readings[row[0]]; ok && found {
			r.Processes = append(r.Processes, int(pid))
			readings[row[0]] = r
		}
	}
	return readings, nil
}

// table splits the lines of the tool, each of which has this many fields.
func table(out []byte, fields int) ([][]string, error) {
	reader := csv.NewReader(bytes.NewReader(out))
	reader.FieldsPerRecord, reader.TrimLeadingSpace = fields, true
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("output of the tool for GPUs: %w", err)
	}
	return rows, nil
}

func number(field string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
	return n, err == nil && n >= 0
}

func isYes(field string) bool {
	switch strings.TrimSpace(field) {
	case "Yes", "1":
		return true
	}
	return false
}

// Fakes reads fake devices. A device has the fault that is written in the file gpu-fault-INDEX of this directory.
type Fakes struct {
	Inventory *Inventory
	Directory string
}

// Read looks for the files with faults.
func (f Fakes) Read(context.Context) (map[string]Reading, error) {
	readings := map[string]Reading{}
	for i, device := range f.Inventory.Devices {
		text, err := os.ReadFile(filepath.Join(f.Directory, "gpu-fault-"+strconv.Itoa(i)))
		r := Reading{MemoryTotal: device.Memory}
		if err == nil {
			r.Fault = firstLine(text)
		}
		readings[device.ID] = r
	}
	return readings, nil
}
