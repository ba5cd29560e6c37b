package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/notify"
)

// targetsOf returns the notification targets of a configuration. It reads their secrets.
func targetsOf(c *config.Notifications) (targets []*notify.Target, err error) {
	for _, named := range c.Targets.Value() {
		given := &named.Value
		t := &notify.Target{Name: named.Name, URL: given.URL.Value(), Command: given.Command.Value(), Header: http.Header{}}
		if len(t.Command) > 0 && !c.AllowCommands.Value() {
			return nil, fmt.Errorf("scheduler/notifications/targets/%s: commands are not allowed", t.Name)
		}
		for _, header := range given.Headers.Value() {
			t.Header.Set(header.Name, header.Value)
		}
		for _, text := range given.Allow.Value() {
			prefix, err := config.ParsePrefix(text)
			if err != nil {
				return nil, err
			}
			t.Allow = append(t.Allow, netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()))
		}
		if file, there := given.SecretFile.Get(); there {
			text, err := os.ReadFile(file)
			if t.Secret = bytes.TrimSpace(text); err == nil && len(t.Secret) == 0 {
				err = errors.New("the file is empty")
			}
			if err != nil {
				return nil, fmt.Errorf("scheduler/notifications/targets/%s/secret_file: %w", named.Name, err)
			}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// rulesOfNotifications returns what the targets are told.
func rulesOfNotifications(c *config.Notifications) (rules []notify.Rule) {
	for i := range c.Rules.Value() {
		given := &c.Rules.Value()[i]
		r := notify.Rule{
			Tree: given.Tree.Value(), Pool: given.Pool.Value(), User: given.User.Value(), States: given.States.Value(),
			After: given.After.Value(), Targets: given.Targets.Value(),
		}
		for _, kind := range given.Kinds.Value() {
			r.Kinds = append(r.Kinds, notify.Kind(kind))
		}
		rules = append(rules, r)
	}
	return rules
}

// leadershipPoll is how often the notifier checks whether its scheduler leads.
const leadershipPoll = 500 * time.Millisecond

// notify delivers notifications whenever the scheduler leads, until ctx ends.
func (s *Scheduler) notify(ctx context.Context) {
	if len(s.notifier.Names()) == 0 {
		return
	}
	var running sync.WaitGroup
	stop := func() {}
	leads := false
	ticks := time.NewTicker(leadershipPoll)
	defer ticks.Stop()
	for {
		if now := s.Server.Leading(); now != leads {
			stop()
			running.Wait()
			stop, leads = func() {}, now
			if now {
				term, cancel := context.WithCancel(ctx)
				stop = cancel
				running.Go(func() { s.notifier.Run(term) })
			}
		}
		select {
		case <-ctx.Done():
			stop()
			running.Wait()
			return
		case <-ticks.C:
		}
	}
}
