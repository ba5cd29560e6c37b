package app

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/agent"
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
	return gpu.Detect()
}

// gpusOf are the GPUs that a node offers and how it reads their state. Alerts tell what it cannot do.
func gpusOf(ctx context.Context, c *config.Node, directory string, level jobinit.Level, driver cgroup.Driver, log *slog.Logger) (g agent.GPUs, alerts []string, err error) {
	found, err := inventoryOf(ctx, &c.GPUs)
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
	case c.GPUs.Command.Value() != "": // another maker's, which this tool does not know
	case err != nil:
		log.Warn("the state of GPUs cannot be read", "error", err)
		alerts = append(alerts, "gpus/tool: nobody notices a broken GPU: "+err.Error())
	default:
		g.Reader = gpu.Tool(path)
	}
	return g, alerts, nil
}
