package app

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// Node is the agent of one machine, ready to run.
type Node struct {
	Agent  *agent.Agent
	Name   string
	client *nodeproto.Client
	driver cgroup.Driver
	health *health
	jobs   string // the directory of its jobs
	reload *reloader
}

// NewNode adopts what an earlier process left and prepares to register. version is that of this program.
func NewNode(ctx context.Context, c *config.Node, version string, log *slog.Logger) (*Node, error) {
	name := c.Name.Value()
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name: %w", err)
		}
		name = host
	}
	directory, err := filepath.Abs(c.DataDir.Value())
	if err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	driver, alerts, err := openCgroup(&c.Cgroup, groupOf(name, directory), log)
	if err != nil {
		return nil, err
	}
	reload := newReloader(log.With("node", name))
	client, err := nodeClient(c, reload)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	detected, err := detectResources()
	if err != nil {
		return nil, err
	}
	supervisor, initCommand, err := programsOf(c, program, directory, log)
	if err != nil {
		client.Close()
		return nil, err
	}
	isolation, err := isolationOf(&c.Isolation, os.Getuid() == 0, prober(initCommand, directory))
	if err != nil {
		client.Close()
		return nil, err
	}
	tellIsolation(&isolation, log.With("node", name))
	gpus, more, err := gpusOf(ctx, c, directory, isolation.Level, driver, log)
	if err != nil {
		client.Close()
		return nil, err
	}
	alerts = append(alerts, more...)
	detected[resource.GPU] = int64(len(gpus.Devices))
	isolation.ReadOnly = append(isolation.ReadOnly, c.GPUs.Libraries.Value()...)
	offered := offeredOf(c, detected)
	hidden := c.Resources.Value().Or(detected)[resource.Memory] - offered[resource.Memory]
	images, err := imagesOf(&c.Images, directory, log.With("node", name))
	if err != nil {
		client.Close()
		return nil, err
	}
	alerts = append(alerts, useRuntime(ctx, &images, c)...)
	health, err := newHealth(c, log)
	if err != nil {
		client.Close()
		return nil, err
	}
	rules, err := rulesOf(c), error(nil)
	if rules.Disk.Project, err = projectQuota(c.Disk.Quota.Value(), directory, &isolation, log.With("node", name)); err != nil {
		client.Close()
		return nil, errors.Join(err, health.close())
	}
	a, err := agent.New(ctx, agent.Options{
		Caller: client, Directory: directory, Proxy: []string{program, ProxyCommand}, Driver: driver, Rules: rules, Pace: paceOf(&c.Heartbeat),
		Supervisor: supervisor, Isolation: isolation, Files: c.Files.Allow.Value(), CacheSize: c.Files.CacheSize.Value(), GPUs: gpus, Images: images, Check: checkOf(&c.Health),
		NoShells:  !c.Shells.Value(),
		Watermark: hidden, Replace: c.Replace.Value(), Log: log.With("node", name), Alerts: alerts, MoreAlerts: reload.problems,
		Description: &nodev1.NodeDescription{
			Name: name, Address: health.addressOr(name), Resources: nodeproto.ToAmounts(offered), Tags: c.Tags.Value(),
			SoftwareVersion: version, OperatingSystem: runtime.GOOS + "/" + runtime.GOARCH, Cgroups: driver.Mode().String(), DiskQuota: diskQuota(&rules.Disk),
		},
	})
	if err != nil {
		client.Close()
		return nil, errors.Join(err, health.close())
	}
	return &Node{health: health, Agent: a, Name: name, client: client, driver: driver, jobs: filepath.Join(directory, "jobs"), reload: reload}, nil
}

// Hidden commands of this program, which agents run.
const (
	ProxyCommand      = "job-proxy"  // the job proxy
	SupervisorCommand = "supervisor" // the supervisor of all jobs, if there is no smaller program for it
)

// checkOf is the administrator's health check.
func checkOf(c *config.NodeHealth) agent.Check {
	return agent.Check{
		Command: c.Command.Value(), Period: c.Period.Value(), Timeout: c.Timeout.Value(), AlertOnly: c.OnFailure.Value() == "alert",
	}
}

// Run works until ctx is cancelled. Jobs keep running.
func (n *Node) Run(ctx context.Context) error {
	defer n.client.Close()
	served := n.health.serve(n.Agent)
	looking, stop := context.WithCancel(ctx)
	defer stop()
	go n.reload.run(looking, func(string) {}) // the agent reports what is wrong
	err := errors.Join(n.Agent.Run(ctx), n.health.close(), served())
	if dirs, scanned := jobproxy.Scan(n.jobs); scanned == nil && len(dirs) == 0 {
		err = errors.Join(err, n.driver.Close())
	}
	return err
}

// Reload reads the token and the certificates again.
func (n *Node) Reload() { n.reload.Reload() }

// groupOf names the control group of a node. An agent ends processes that it does not know in its group, so two
// agents on one machine must not share it. They cannot share the data directory, so the name depends on that.
func groupOf(name, directory string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, name)
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(directory)) // it never fails
	return fmt.Sprintf("%s-%08x", strings.TrimLeft(plain[:min(len(plain), 100)], "."), sum.Sum32())
}

// openCgroup finds out how this machine can contain jobs. If control groups cannot be used, it reports that in an
// alert and uses process limits.
func openCgroup(c *config.Cgroup, group string, log *slog.Logger) (driver cgroup.Driver, alerts []string, err error) {
	parent := c.Parent.Value() + "/" + group
	if c.Mode.Value() == "off" {
		driver, err = cgroup.NewProcessLimits(parent)
		return driver, []string{"control groups are switched off: jobs are held by process limits"}, err
	}
	driver, err = cgroup.Detect(parent)
	var unavailable *cgroup.Unavailable
	switch {
	case errors.As(err, &unavailable) && c.Mode.Value() == "auto":
		message := "jobs are held by process limits: " + unavailable.Error()
		log.Warn("control groups cannot be used", "reason", unavailable.Error())
		driver, err = cgroup.NewProcessLimits(parent)
		return driver, []string{message}, err
	case err != nil:
		return nil, nil, fmt.Errorf("control groups: %w", err)
	}
	if wanted := c.Mode.Value(); !isMode(driver.Mode(), wanted) {
		return nil, nil, errors.Join(fmt.Errorf("cgroup/mode is %s, and the machine has %s", wanted, driver.Mode()), driver.Close())
	}
	if !driver.LimitsProcesses() {
		alerts = append(alerts, "the machine has no pids controller: the number of processes of a job is not limited")
	}
	return driver, alerts, nil
}

// isMode reports whether control groups are of the configured version. A hybrid machine has its controllers in
// version 1.
func isMode(mode cgroup.Mode, wanted string) bool {
	switch wanted {
	case "v1":
		return mode == cgroup.V1 || mode == cgroup.Hybrid
	case "v2":
		return mode == cgroup.V2
	}
	return true
}

// nodeClient calls the schedulers, with keys that are read again when their files change.
func nodeClient(c *config.Node, reload *reloader) (*nodeproto.Client, error) {
	security, token, err := nodeKeys(c)
	if err != nil {
		return nil, err
	}
	schedulers, err := nodeproto.NewClient(c.Schedulers.Value(), security, token)
	if err != nil {
		return nil, err
	}
	if !c.TLS.Enabled.Value() && !c.Token.IsSet() && !c.TokenFile.IsSet() {
		schedulers.DialWith(dialLocally)
	}
	reload.add("node/token_file and node/tls", func() error {
		security, token, err := nodeKeys(c)
		if err == nil {
			schedulers.Renew(security, token)
		}
		return err
	}, c.TokenFile.Value(), c.TLS.CA.Value(), c.TLS.Certificate.Value(), c.TLS.Key.Value())
	return schedulers, nil
}

// dialLocally connects to a scheduler over its socket if it is on this machine, since a node without a token or
// a certificate is known there only.
func dialLocally(ctx context.Context, network, address string) (net.Conn, error) {
	if local, found := client.LocalAddress(address); found {
		network, address = "unix", strings.TrimPrefix(local, "unix:")
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// offeredOf is the part of the machine's resources that a node offers to the scheduler. The rest of the memory is
// for jobs that outgrow their reserves.
func offeredOf(c *config.Node, detected resource.Amounts) resource.Amounts {
	offered := c.Resources.Value().Or(detected)
	memory := offered[resource.Memory]
	if given, ok := c.Resources.Value().Get(resource.Memory); !ok || given > detected[resource.Memory] {
		memory -= c.Memory.Watermark.Value()
	}
	memory -= int64(c.Memory.WatermarkMultiplier.Value() * float64(memory))
	offered[resource.Memory] = max(memory, 0)
	return offered
}

func paceOf(c *config.Heartbeat) agent.Pace {
	period := c.Period.Value()
	return agent.Pace{
		Period: period, Splay: c.Splay.Or(period / 5), CallTimeout: c.Timeout.Value(),
		BackoffMin: c.MinBackoff.Value(), BackoffMax: c.MaxBackoff.Value(), BackoffFactor: c.Multiplier.Value(),
	}
}

func rulesOf(node *config.Node) agent.Rules {
	r, c := agent.DefaultRules(), &node.Memory
	r.Ahead = c.Ahead.Or(r.Ahead)
	r.WatchdogPeriod = c.WatchdogPeriod.Or(r.WatchdogPeriod)
	r.AdjustmentPeriod = c.AdjustmentPeriod.Or(r.AdjustmentPeriod)
	r.MemoryPatience = c.MemoryOverdraftTimeout.Or(r.MemoryPatience)
	r.CPUPatience = c.CPUOverdraftTimeout.Or(r.CPUPatience)
	r.AbortOnOverdraft = c.AbortOnOverdraft.Or(r.AbortOnOverdraft)
	r.IgnoreLimit = !c.CheckLimit.Or(true)
	r.OOMScoreAdj = c.OOMScoreAdj.Value()
	d := &node.Disk
	r.Disk = agent.DiskRules{
		LowRatio: d.LowRatio.Or(r.Disk.LowRatio), LowSize: d.LowSize.Or(r.Disk.LowSize),
		FullRatio: d.FullRatio.Or(r.Disk.FullRatio), FullSize: d.FullSize.Or(r.Disk.FullSize),
		CriticalRatio: d.CriticalRatio.Or(r.Disk.CriticalRatio), CriticalSize: d.CriticalSize.Or(r.Disk.CriticalSize),
		LimitJobs: d.Quota.Value() != "none", JobSize: d.DefaultLimit.Or(r.Disk.JobSize),
	}
	r.ProcessLimit = int64(node.Cgroup.ProcessLimit.Or(int(r.ProcessLimit)))
	return r
}

// projectQuota reports whether the file system limits the files of jobs. It does if the settings allow it, jobs run as users of their own, and the
// file system of the data directory has project quotas.
func projectQuota(quota, directory string, i *agent.Isolation, log *slog.Logger) (bool, error) {
	if quota != "auto" && quota != "project" {
		return false, nil
	}
	err := errors.New("jobs do not run as users of their own (isolation/run_as: job)")
	if i.UIDs != (agent.UIDRange{}) {
		if err = os.MkdirAll(directory, 0o711); err == nil {
			err = jobproxy.ProbeQuota(directory, i.UIDs.Last)
		}
	}
	switch {
	case err == nil:
		log.Info("the file system limits the files of jobs", "quota", "project")
	case quota == "project":
		return false, fmt.Errorf("disk/quota: project: %w; auto watches the files of jobs instead", err)
	default:
		log.Info("the files of jobs are watched: the file system does not limit them", "quota", "watch", "cause", err)
	}
	return err == nil, nil
}

// diskQuota names how the files of jobs are held to their limits.
func diskQuota(r *agent.DiskRules) string {
	switch {
	case !r.LimitJobs:
		return "none"
	case r.Project:
		return "project"
	}
	return "watch"
}

// slotsPerCore is the default number of jobs that a node offers to run per core.
const slotsPerCore = 4

// detectResources is the machine's resources for jobs.
func detectResources() (a resource.Amounts, err error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return a, fmt.Errorf("memory of this machine: %w", err)
	}
	fields := strings.Fields(string(data))
	for i, field := range fields {
		if field == "MemAvailable:" && i+1 < len(fields) {
			kib, err := strconv.ParseInt(fields[i+1], 10, 64)
			if err != nil {
				return a, fmt.Errorf("memory of this machine: %w", err)
			}
			a[resource.Memory] = kib << 10
		}
	}
	cores := int64(runtime.NumCPU())
	a[resource.CPU], a[resource.UserSlots], a[resource.Network] = cores*100, cores*slotsPerCore, 100
	return a, nil
}

// endPatience is how long jobs may take to end when a node shuts down permanently.
const endPatience = 20 * time.Second

// End ends all jobs of the node and removes everything that the node created. Run must have returned.
func (n *Node) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	return errors.Join(agent.EndAll(ctx, n.jobs, n.driver), n.driver.Close())
}
