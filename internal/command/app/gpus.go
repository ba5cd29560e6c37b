package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/node/cdi"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/gpu"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/resource"
)

// inventoryOf finds the GPUs of this machine.
func inventoryOf(ctx context.Context, c *config.NodeGPUs) (*gpu.Inventory, error) {
	if count := c.Fake.Value(); count > 0 {
		return gpu.Fake(count), nil
	}
	if command := c.Command.Value(); command != "" {
		found, err := gpu.Ask(ctx, command)
		if err != nil {
			return nil, fmt.Errorf("gpus/command: %w", err)
		}
		return found, nil
	}
	found, err := gpu.Detect()
	if err != nil || len(found.Devices) == 0 {
		return found, err
	}
	tool, err := exec.LookPath(c.Tool.Value())
	if err != nil { // nobody can tell whether GPUs are split
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolPatience)
	defer cancel()
	return gpu.Split(ctx, found, tool)
}

// toolPatience is how long the tool may take to list the instances of GPUs.
const toolPatience = 30 * time.Second

// defaultCDI is the kind of NVIDIA's GPUs in CDI files.
const defaultCDI = "nvidia.com/gpu"

// describeGPUs adds what CDI files say to the GPUs of this machine.
func describeGPUs(c *config.NodeGPUs, found *gpu.Inventory, log *slog.Logger) (*gpu.Inventory, error) {
	kind := cmp.Or(c.CDI.Value(), defaultCDI)
	if len(found.Devices) == 0 && !c.CDI.IsSet() {
		return found, nil
	}
	devices, err := cdi.Read(c.CDIDirectories.Value(), kind)
	if err != nil {
		log.Warn("CDI files cannot be read", "error", err)
	}
	matched, hooks := 0, 0
	if len(found.Devices) == 0 {
		found = cdi.Inventory(devices)
		matched = len(found.Devices)
	} else {
		matched = cdi.Attach(found, devices)
	}
	for _, d := range devices {
		hooks += d.Hooks
	}
	if matched == 0 && c.CDI.IsSet() {
		return nil, errors.Join(fmt.Errorf("gpus/cdi: %s: no CDI file in %s describes a device of this node", kind, strings.Join(c.CDIDirectories.Value(), ", ")), err)
	}
	if hooks > 0 {
		log.Info("CDI files have hooks, which are not run", "kind", kind, "count", hooks)
	}
	return found, nil
}

// gpusOf are the GPUs that a node offers and how it reads their state. Alerts tell what it cannot do.
func gpusOf(ctx context.Context, c *config.Node, directory string, level jobinit.Level, driver cgroup.Driver, log *slog.Logger) (g agent.GPUs, alerts []string, err error) {
	found, err := inventoryOf(ctx, &c.GPUs)
	if err == nil {
		found, err = describeGPUs(&c.GPUs, found, log)
	}
	if err != nil {
		return g, nil, err
	}
	if wanted, given := c.Resources.Value().Get(resource.GPU); given {
		if wanted > int64(len(found.Devices)) {
			return g, nil, fmt.Errorf("resources/gpu is %d, and the machine has %d; gpus/fake makes devices for tests", wanted, len(found.Devices))
		}
		found = found.First(int(wanted))
	}
	g = agent.GPUs{Inventory: *found, Period: c.GPUs.Period.Value()}
	if len(found.Devices) == 0 {
		return g, nil, nil
	}
	if level != jobinit.Full && !driver.LimitsDevices() {
		alerts = append(alerts, "isolation_lowered: the machine has no devices controller: jobs can open the GPUs of other jobs")
	}
	switch path, err := exec.LookPath(c.GPUs.Tool.Value()); {
	case c.GPUs.Fake.Value() > 0:
		g.Reader = gpu.Fakes{Inventory: found, Directory: directory}
	case c.GPUs.Command.Value() != "" || cmp.Or(c.GPUs.CDI.Value(), defaultCDI) != defaultCDI: // another maker's, which this tool does not know
	case err != nil:
		log.Warn("the state of GPUs cannot be read", "error", err)
		alerts = append(alerts, "gpus/tool: nobody notices a broken GPU: "+err.Error())
	default:
		g.Reader = gpu.Tool(path)
	}
	return g, alerts, nil
}
