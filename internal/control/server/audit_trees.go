package server

import "github.com/weirhq/weir/internal/control/store"

// auditTrees writes down what changed in the configuration of pools.
func (t *term) auditTrees(before, after *Trees, differences treeDifferences, who Caller) {
	for i := range after.List {
		tree := &after.List[i]
		old, there := before.Find(tree.Name)
		switch {
		case !there:
			t.audit(who, nil, mustJSON("+ tree "+tree.Name))
		case old.Tree != tree.Tree:
			t.audit(who, nil, mustJSON(differences[tree.Name].String()))
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
