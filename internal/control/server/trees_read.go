package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/ypath"
)

// treesOf reads a configuration from rows. One bad row must not keep the cluster from
// having a leader: a tree or pool that cannot be read is left out, with the pools below
// it, and reported. Its row stays in the store until a pool of its name is created again.
//
// A tree that templates would make invalid does without them.
func treesOf(rows *store.Rows, templates pooltree.Templates) (t *Trees, problems []string) {
	t = &Trees{templates: templates}
	for _, s := range rows.Settings {
		if s.Name == defaultTreeSetting {
			t.Default = string(s.Document)
		}
	}
	for _, row := range rows.Trees {
		var attributes storedTree
		err := json.Unmarshal(row.Attributes, &attributes)
		tree := TreeConfig{Name: row.Name, Object: attributes.Object, objects: map[string]Object{}, inForce: attributes.FilterInForce}
		var wrong []string
		if err == nil {
			plain := tree
			options := t.Options(row.Name)
			wrong, err = tree.read(row.Config, rows.Pools, options)
			if len(templates) > 0 && (err != nil || len(wrong) > 0) {
				because := err
				options.Template = pooltree.TreeConfig{}
				plain.objects = map[string]Object{}
				if less, without := plain.read(row.Config, rows.Pools, options); without == nil && (err != nil || len(less) < len(wrong)) {
					if because == nil {
						because = errors.New(strings.Join(wrong, "; "))
					}
					tree, wrong, err = plain, append(less, templateProblem(row.Name, because)), nil
				}
			}
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("pool tree %s: %v", row.Name, err))
			continue
		}
		problems = append(problems, wrong...)
		t.List = append(t.List, tree)
	}
	slices.SortStableFunc(t.List, func(a, b TreeConfig) int { return a.Object.Order - b.Object.Order })
	return t, problems
}

// storedChild is a pool as it is in its row.
type storedChild struct {
	order int
	name  string
	value document.Value
}

// read builds the tree from its own row and the rows of its pools. It reports the pools
// that it leaves out. It returns an error if there is no tree at all.
func (t *TreeConfig) read(config []byte, rows []store.Pool, options pooltree.Options) (problems []string, err error) {
	root, err := notation.ParseJSON("", config)
	if err != nil {
		return nil, err
	}
	leftOut := map[string]string{} // the reason, by pool
	children := map[string][]storedChild{}
	var own []store.Pool
	for _, row := range rows {
		if row.Tree != t.Name {
			continue
		}
		own = append(own, row)
		var attributes storedPool
		err := json.Unmarshal(row.Attributes, &attributes)
		var value document.Value
		if err == nil {
			value, err = notation.ParseJSON("", attributes.Config)
		}
		if err != nil {
			leftOut[row.Name] = err.Error()
			continue
		}
		t.objects[row.Name] = attributes.Object
		children[row.Parent] = append(children[row.Parent], storedChild{attributes.Order, row.Name, value})
	}
	for parent := range children {
		slices.SortFunc(children[parent], func(a, b storedChild) int {
			if a.order != b.order {
				return a.order - b.order
			}
			return strings.Compare(a.name, b.name)
		})
	}
	options.Limits = pooltree.DefaultLimits()
	options.Limits.MaxSubtreeSize = 0 // administrators may have raised it
	for {
		t.Tree, _, err = pooltree.FromValue(nestPools("", root, children, leftOut), options)
		if err == nil {
			break
		}
		if !blame(err, children, leftOut) {
			return nil, err
		}
	}
	slices.SortFunc(own, func(a, b store.Pool) int { return strings.Compare(a.Name, b.Name) })
	for _, row := range own {
		if _, there := t.Tree.Pool(row.Name); there {
			continue
		}
		delete(t.objects, row.Name)
		why, bad := leftOut[row.Name]
		if !bad {
			why = fmt.Sprintf("its parent pool %q is invalid or missing", row.Parent)
		}
		problems = append(problems, fmt.Sprintf("pool %s of tree %s: %s", row.Name, t.Name, why))
	}
	return problems, nil
}

// nestPools writes the pools below a parent into its document, without those left out.
func nestPools(parent string, value document.Value, children map[string][]storedChild, leftOut map[string]string) document.Value {
	var entries []document.Entry
	for _, c := range children[parent] {
		if _, bad := leftOut[c.name]; !bad && c.name != "" {
			entries = append(entries, document.Pair(c.name, nestPools(c.name, c.value, children, leftOut)))
		}
	}
	if len(entries) == 0 {
		return value
	}
	return value.With("pools", document.Map(entries...))
}

// blame leaves out the pools that a tree's problems are about: the lowest pool of each
// path. It reports whether there was one.
func blame(err error, children map[string][]storedChild, leftOut map[string]string) (found bool) {
	var problems document.Problems
	if !errors.As(err, &problems) {
		return false
	}
	for _, p := range problems {
		steps, err := ypath.ParseSteps("/" + p.Path)
		if err != nil {
			continue
		}
		lowest := ""
		for _, step := range steps {
			if slices.ContainsFunc(children[lowest], func(c storedChild) bool { return c.name == step.Name }) {
				lowest = step.Name
			} else if step.Name != "pools" {
				break
			}
		}
		if _, already := leftOut[lowest]; lowest != "" && !already {
			leftOut[lowest], found = p.Message, true
		}
	}
	return found
}

// unreadableTokens describes token rows that cannot be read. They authenticate nobody.
func unreadableTokens(rows *store.Rows) string {
	var wrong []string
	for _, row := range rows.Tokens {
		if _, err := auth.ParseTokenHash(row.Hash); err != nil {
			wrong = append(wrong, fmt.Sprintf("token of user %q: %v", row.User, err))
		}
	}
	return strings.Join(wrong, "; ")
}
