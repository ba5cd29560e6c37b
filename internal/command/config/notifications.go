package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/document"
)

// Notifications configures who is told outside the cluster what happens in it.
type Notifications struct {
	Targets       opt[[]document.Named[NotificationTarget]]
	Rules         opt[[]NotificationRule]
	AllowCommands opt[bool]
}

// NotificationTarget is a webhook or a command.
type NotificationTarget struct {
	URL        opt[string]
	Headers    opt[[]document.Named[string]]
	SecretFile opt[string]
	Allow      opt[[]string]
	Command    opt[[]string]
}

// NotificationRule selects what targets are told.
type NotificationRule struct {
	Kinds            opt[[]string]
	Tree, Pool, User opt[string]
	States           opt[[]string]
	After            opt[time.Duration]
	Targets          opt[[]string]
}

var (
	webhookURLs   = document.Texts.That("an address like https://chat.example/hook", document.RuleBadFormat, isWebhook)
	prefixes      = document.Texts.That("an address or a network like 127.0.0.1 or 127.0.0.0/8", document.RuleBadFormat, isPrefix)
	noticeKinds   = wordsOf("operation_started", "operation_ended", "starvation", "scheduler_away", "guarantee_broken", "preemption_cycle", "volume_low", "budget")
	finalStates   = wordsOf("completed", "failed", "aborted")
	notifications = newGroup([]row[Notifications]{
		fixed("targets", "Named webhooks and commands. Users choose among the names and choose no address. Only the configuration file can set them.",
			func(c *Notifications) *opt[[]document.Named[NotificationTarget]] { return &c.Targets }, document.MapOf(notificationTarget.Type())).secret(),
		fixed("rules", "What the targets are told, besides the operations that name them in `notify`.",
			func(c *Notifications) *opt[[]NotificationRule] { return &c.Rules }, document.ListOf(notificationRule.Type())).noFlag(),
		fixed("allow_commands", "Targets may be commands, which run as the scheduler's user.",
			func(c *Notifications) *opt[bool] { return &c.AllowCommands }, document.Bools.Default(false)),
	})
	notificationTarget = document.NewTable(
		document.Maybe("url", "The webhook: it gets messages with POST, as JSON.",
			func(c *NotificationTarget) *opt[string] { return &c.URL }, webhookURLs),
		document.Maybe("headers", "More headers of the requests.",
			func(c *NotificationTarget) *opt[[]document.Named[string]] { return &c.Headers }, document.MapOf(document.Texts)),
		document.Maybe("secret_file", "File with the secret that signs the requests.",
			func(c *NotificationTarget) *opt[string] { return &c.SecretFile }, document.Words),
		document.Maybe("allow", "Loopback and link-local addresses that the webhook may have.",
			func(c *NotificationTarget) *opt[[]string] { return &c.Allow }, document.ListOf(prefixes)),
		document.Maybe("command", "A program and its arguments. It reads a message from its standard input.",
			func(c *NotificationTarget) *opt[[]string] { return &c.Command }, document.ListOf(document.Words)),
	)
	notificationRule = document.NewTable(
		document.Maybe("kinds", "What it is about. Unset: everything.",
			func(c *NotificationRule) *opt[[]string] { return &c.Kinds }, document.ListOf(noticeKinds)),
		document.Maybe("tree", "Only this pool tree.",
			func(c *NotificationRule) *opt[string] { return &c.Tree }, document.Words),
		document.Maybe("pool", "Only this pool.",
			func(c *NotificationRule) *opt[string] { return &c.Pool }, document.Words),
		document.Maybe("user", "Only operations of this user.",
			func(c *NotificationRule) *opt[string] { return &c.User }, document.Words),
		document.Maybe("states", "Only operations that ended in these states.",
			func(c *NotificationRule) *opt[[]string] { return &c.States }, document.ListOf(finalStates)),
		document.Maybe("after", "How long a starvation must last.",
			func(c *NotificationRule) *opt[time.Duration] { return &c.After }, timeouts.Default(0)),
		document.Maybe("targets", "The names of targets.",
			func(c *NotificationRule) *opt[[]string] { return &c.Targets }, document.ListOf(document.Words)),
	)
)

func isWebhook(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

func isPrefix(s string) bool {
	_, err := ParsePrefix(s)
	return err == nil
}

// ParsePrefix reads a network, or one address.
func ParsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	address, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	return address.Prefix(address.BitLen())
}

// notifications applies the rules between settings of notifications.
func (c *checker) notifications(n *Notifications) {
	const at = "scheduler/notifications/"
	var names []string
	for _, target := range n.Targets.Value() {
		path := at + "targets/" + target.Name
		names = append(names, target.Name)
		hasURL, hasCommand := target.Value.URL.IsSet(), len(target.Value.Command.Value()) > 0
		switch {
		case !isName(target.Name):
			c.refuse(path, document.RuleBadFormat, "a name has letters, digits and . _ - :, at most 100 bytes")
		case hasURL == hasCommand:
			c.refuse(path, RuleEither, "needs a url or a command")
		case hasCommand && !n.AllowCommands.Value():
			c.refuse(path+"/command", RuleTogether, "needs notifications/allow_commands")
		}
	}
	for i, rule := range n.Rules.Value() {
		path := fmt.Sprintf("%srules/%d/targets", at, i)
		if len(rule.Targets.Value()) == 0 {
			c.refuse(path, document.RuleMissing, "a rule needs targets")
		}
		for _, target := range rule.Targets.Value() {
			if !slices.Contains(names, target) {
				c.refuse(path, document.RuleUnknownValue, "there is no target %q%s", target, didYouMean(target, names))
			}
		}
	}
}
