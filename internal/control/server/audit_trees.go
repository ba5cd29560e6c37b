package server

import "github.com/weirhq/weir/internal/control/store"

// auditTrees records what changed in the configuration of pools, and emits an event for
// each tree that changed.
func (t *term) auditTrees(next *nextTrees, who Caller) {
	before, after := next.before, next.after
	for i := range after.List {
		tree := &after.List[i]
		old, there := before.Find(tree.Name)
		switch {
		case !there:
			t.audit(who, nil, mustJSON("+ tree "+tree.Name))
		case old.Tree != tree.Tree:
			t.audit(who, nil, mustJSON(next.differences[tree.Name].String()))
		default:
			continue
		}
		t.event(store.Event{Type: "pools_changed", Tree: tree.Name}, fact{"user", who.User})
	}
	for i := range before.List {
		if _, kept := after.Find(before.List[i].Name); !kept {
			t.audit(who, mustJSON("- tree "+before.List[i].Name), nil)
			t.event(store.Event{Type: "pools_changed", Tree: before.List[i].Name}, fact{"user", who.User})
		}
	}
	if before.Default != after.Default {
		t.audit(who, mustJSON(before.Default), mustJSON(after.Default))
	}
}
