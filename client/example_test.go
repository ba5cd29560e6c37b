package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weirhq/weir/client"
)

// connect returns a client for the examples' cluster.
func connect() *client.Client {
	c, err := client.New(client.Options{Address: address})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// start starts an operation with one job in the pool research.
func start(ctx context.Context, c *client.Client, title, command string) (id string) {
	id, err := c.StartOperation(ctx, client.Vanilla, map[string]any{
		"pool": "research", "title": title,
		"tasks": map[string]any{"main": map[string]any{"command": command, "job_count": 1, "cpu_limit": 1.0}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return id
}

// Start an operation, wait until it ends, and read the standard error of its jobs.
func Example() {
	ctx := context.Background()
	c, err := client.New(client.Options{Address: address})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	id, err := c.StartOperation(ctx, client.Vanilla, map[string]any{
		"pool": "research",
		"tasks": map[string]any{"main": map[string]any{
			"command": "echo hello", "job_count": 2, "cpu_limit": 1.0, "memory_limit": 512 << 20,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	operation, err := c.WaitOperation(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(operation.State, operation.Jobs.Completed, "of", operation.Jobs.Total)
	for job, err := range c.Jobs(ctx, id, client.JobFilter{Finished: true}) {
		if err != nil {
			log.Fatal(err)
		}
		text, err := c.JobStderr(ctx, job.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s", job.State, text)
	}
	// Output:
	// completed 2 of 2
	// completed: hello
	// completed: hello
}

// A specification can be your own struct.
func ExampleClient_StartOperation() {
	type task struct {
		Command string  `yson:"command"`
		Jobs    int     `yson:"job_count"`
		CPU     float64 `yson:"cpu_limit"`
		Memory  int64   `yson:"memory_limit"` // zero is omitted, so the default applies
	}
	type specification struct {
		Pool     string          `yson:"pool"`
		Failures int             `yson:"max_failed_job_count"`
		Tasks    map[string]task `yson:"tasks"`
	}
	ctx, c := context.Background(), connect()
	defer c.Close()
	id, err := c.StartOperation(ctx, client.Vanilla, specification{
		Pool: "research", Failures: 1, Tasks: map[string]task{"main": {Command: "exit 3", Jobs: 1, CPU: 0.5}},
	})
	if err != nil {
		log.Fatal(err)
	}
	operation, err := c.WaitOperation(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(operation.State)
	for job, err := range c.Jobs(ctx, id, client.JobFilter{State: client.Failed}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("exit code", *job.ExitCode)
	}
	// Output:
	// failed
	// exit code 3
}

// List the operations of a pool, newest first.
func ExampleClient_Operations() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	for _, title := range []string{"first", "second", "third"} {
		if _, err := c.WaitOperation(ctx, start(ctx, c, title, "echo done")); err != nil {
			log.Fatal(err)
		}
	}
	shown := 0
	for operation, err := range c.Operations(ctx, client.OperationFilter{Pool: "research", Limit: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(operation.Title, operation.State)
		if shown++; shown == 3 {
			break
		}
	}
	// Output:
	// third completed
	// second completed
	// first completed
}

// Watch an operation until its job runs, then abort it.
func ExampleClient_WatchOperation() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	id := start(ctx, c, "long", "sleep 1000")
	for operation, err := range c.WatchOperation(ctx, id) {
		if err != nil {
			log.Fatal(err)
		}
		if operation.Jobs.Running > 0 {
			break
		}
	}
	if err := c.AbortOperation(ctx, id, "not needed any more"); err != nil {
		log.Fatal(err)
	}
	operation, err := c.WaitOperation(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(operation.State)
	fmt.Println(operation.Err() != nil)
	// Output:
	// aborted
	// true
}

// Find out why a job does not start.
func ExampleClient_ExplainOperation() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	id, err := c.StartOperation(ctx, client.Vanilla, map[string]any{
		"pool":  "research",
		"tasks": map[string]any{"main": map[string]any{"command": "echo", "job_count": 1, "cpu_limit": 100.0}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for operation, err := range c.WatchOperation(ctx, id) {
		if err != nil {
			log.Fatal(err)
		}
		if operation.State == client.Running {
			break
		}
	}
	why, err := c.ExplainOperation(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	for _, blocker := range why.Blockers {
		fmt.Println(blocker.Code)
	}
	if err := c.AbortOperation(ctx, id, ""); err != nil {
		log.Fatal(err)
	}
	// Output:
	// job_larger_than_any_node
}

// Create a pool, set one of its options, and remove it.
func ExampleClient_CreatePool() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	if _, err := c.CreatePool(ctx, "default", "research", "thesis", map[string]any{"weight": 2.0}); err != nil {
		log.Fatal(err)
	}
	if err := c.SetPoolOption(ctx, "default", "thesis", "resource_limits", map[string]any{"cpu": 4}); err != nil {
		log.Fatal(err)
	}
	path, err := c.PoolPath(ctx, "default", "thesis")
	if err != nil {
		log.Fatal(err)
	}
	limits, err := c.Get(ctx, path+"/@resource_limits", client.ReadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(path, limits)
	if err := c.RemovePool(ctx, "default", "thesis"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// //sys/pool_trees/default/research/thesis {"cpu"=4;}
}

// Show what a pool uses and what it is entitled to.
func ExampleClient_GetPool() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	pool, err := c.GetPool(ctx, "default", "research")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pool.Name, "below", pool.Parent, pool.Mode, "weight", pool.Weight)
	fmt.Println("guaranteed cores:", pool.StrongGuarantee.CPU) // Usage and FairShare change while operations come and go
	// Output:
	// research below <Root> fair_share weight 1
	// guaranteed cores: 0
}

// Configure a whole tree with a document: first plan the changes, then apply them.
func ExampleClient_ApplyPools() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	file := client.PoolsFile{Tree: "default", Text: "pools:\n  research: {}\n  production: {weight: 3}\n"}
	plan, err := c.PlanPools(ctx, file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("adds", plan.Added, "removes", plan.Removed, "fits", *plan.Feasible)
	if _, err := c.ApplyPools(ctx, file); err != nil {
		log.Fatal(err)
	}
	plan, err = c.PlanPools(ctx, file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("nothing differs:", plan.Empty)
	// Output:
	// adds [production] removes [] fits true
	// nothing differs: true
}

// Keep new jobs from a node, then allow them again.
func ExampleClient_Drain() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	if _, err := c.Drain(ctx, "node-2", "a new kernel tonight"); err != nil {
		log.Fatal(err)
	}
	node, err := c.GetNode(ctx, "node-2")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(node.Name, node.Limits.CPU, node.JobsDisabled, node.Maintenance[0].Comment)
	removed, err := c.RemoveMaintenance(ctx, "node-2", client.MaintenanceFilter{Mine: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(removed)
	// Output:
	// node-2 8 true a new kernel tonight
	// [{disable_scheduler_jobs 1}]
}

// Follow the events of an operation as they happen.
func ExampleClient_FollowEvents() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	id := start(ctx, c, "short", "echo done")
	filter := client.EventFilter{Operation: id, Types: []string{"job_started", "job_completed", "operation_completed"}}
	for event, err := range c.FollowEvents(ctx, filter, 0, 50*time.Millisecond) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type)
		if event.Type == "operation_completed" {
			break
		}
	}
	// Output:
	// job_started
	// job_completed
	// operation_completed
}

// Test for an error code with errors.Is.
func ExampleError() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	_, err := c.GetOperation(ctx, "1-2-3-4")
	fmt.Println(errors.Is(err, client.CodeNoOperation))
	var refusal *client.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Code, "-", refusal.Message)
	}
	// Output:
	// true
	// code 1915 - No such operation 1-2-3-4
}

// Run a command that has no method.
func ExampleClient_Do() {
	ctx, c := context.Background(), connect()
	defer c.Close()
	cluster, err := c.Do(ctx, "get_cluster", nil)
	if err != nil {
		log.Fatal(err)
	}
	nodes, _ := cluster.Get("online_node_count").Int()
	fmt.Println(nodes, "nodes")
	// Output:
	// 2 nodes
}
