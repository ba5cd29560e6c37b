package server

import (
	"github.com/weirhq/weir/internal/core"
	"github.com/weirhq/weir/internal/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/pooltree"
	"github.com/weirhq/weir/internal/resource"
	"github.com/weirhq/weir/internal/store"
)

// describeReserve tells a node how the memory of a job was reckoned.
func (t *term) describeReserve(identity *nodev1.JobIdentity, s *core.Started) {
	identity.Reserve = &nodev1.MemoryReserve{UserJob: s.Resources[resource.Memory]}
}

// usageDocument is what a revived controller must know of a job's use.
func usageDocument(*nodev1.JobResult) []byte { return nil }

// auditTrees writes down what changed in the configuration of pools.
func (t *term) auditTrees(before, after *Trees, who Caller) {
	for i := range after.List {
		tree := &after.List[i]
		old, there := before.Find(tree.Name)
		switch {
		case !there:
			t.audit(who, nil, mustJSON("+ tree "+tree.Name))
		case old.Tree != tree.Tree:
			t.audit(who, nil, mustJSON(pooltree.Diff(old.Tree, tree.Tree).String()))
		}
		t.event(store.Event{Type: "pools_changed", Tree: tree.Name}, fact{"user", who.User})
	}
	for i := range before.List {
		if _, kept := after.Find(before.List[i].Name); !kept {
			t.audit(who, mustJSON("- tree "+before.List[i].Name), nil)
		}
	}
	if before.Default != after.Default {
		t.audit(who, mustJSON(before.Default), mustJSON(after.Default))
	}
}
