package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Types of values. Periods are never zero, because a period of zero would be a busy loop; timeouts
// may be.
var (
	periods  = document.Between(document.Durations, time.Millisecond, 24*time.Hour)
	timeouts = document.Durations
	counts   = document.AtLeast(document.Ints, 1)
	ratios   = document.Between(document.Numbers, 0, 1)

	fairSharePeriods = document.Between(document.Durations, 10*time.Millisecond, time.Minute)
	memory           = memoryType()
	resources        = resourcesType()
	addresses        = addressType(true)
	peers            = addressType(false)
	storeURLs        = storeURLType()
	blobURLs         = document.Texts.That("s3://BUCKET?region=REGION", document.RuleBadFormat, isBlobURL)
	names            = document.Texts.That("a name of letters, digits and . _ - :, at most 100 bytes", document.RuleBadFormat, isName)
	paths            = document.Distinct(document.ListOf(absolutePaths), func(a, b string) bool { return a == b })
	absolutePaths    = document.Texts.That("an absolute path without . and .., below the root", document.RuleBadFormat, isCleanPath)
	tags             = document.Distinct(document.ListOf(nodeTags), func(a, b string) bool { return a == b })
	nodeTags         = document.Texts.That("a tag of letters, digits and . _ - / :, at most 100 bytes", document.RuleBadFormat, isTag)
)

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,100}$`)
	tagPattern  = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,100}$`)
)

func isName(s string) bool { return namePattern.MatchString(s) }
func isTag(s string) bool  { return tagPattern.MatchString(s) }

func isCleanPath(s string) bool { return path.IsAbs(s) && path.Clean(s) == s && s != "/" }

func memoryType() document.Type[int64] {
	return document.NewType(document.Shape{Kind: "memory", Says: "an amount of memory like 512MiB, or bytes", Minimum: document.Int(0)},
		func(r *document.Reader, v document.Value) (int64, bool) {
			return pooltree.ReadAmount(r, resource.Memory, v)
		},
		func(bytes int64, style document.Style) document.Value {
			return writeAmount(resource.Memory, bytes, style)
		},
		func(a, b int64) bool { return a == b })
}

// writeAmount writes an amount so that it reads back exactly.
func writeAmount(k resource.Kind, amount int64, style document.Style) document.Value {
	const exact = 1 << 53
	switch {
	case k == resource.CPU && amount <= exact:
		return document.Number(float64(amount) / float64(k.Scale()))
	case k == resource.CPU, k == resource.Memory && style == document.ForPeople && amount >= 1024 && amount%1024 == 0:
		return document.Text(resource.FormatExact(k, amount))
	}
	return document.Int(amount)
}

// resourcesType reads a map from names of resources to amounts.
func resourcesType() document.Type[resource.Partial] {
	const says = "a map of resources (user_slots, cpu, gpu, memory, network)"
	return document.NewType(document.Shape{Kind: "resources", Says: says},
		func(r *document.Reader, v document.Value) (amounts resource.Partial, ok bool) {
			if v.Kind() != document.MapKind {
				r.Refuse(v.Position(), document.RuleWrongType, "must be "+says)
				return amounts, false
			}
			ok = true
			for _, e := range v.Entries() {
				r.Enter(e.Key)
				k, known := resource.ParseKind(document.Normal(e.Key))
				amount, read := int64(0), false
				switch {
				case !known:
					r.Refuse(e.At, document.RuleUnknownKey, "unknown resource"+didYouMean(e.Key, resourceNames()))
				case amounts.Has(k):
					r.Refuse(e.At, document.RuleTwoNames, fmt.Sprintf("%v is given twice", k))
				default:
					amount, read = pooltree.ReadAmount(r, k, e.Value)
				}
				if read {
					amounts = amounts.With(k, amount)
				}
				ok = ok && read
				r.Leave()
			}
			return amounts, ok
		},
		func(amounts resource.Partial, style document.Style) document.Value {
			var entries []document.Entry
			for _, k := range resource.Kinds {
				if v, ok := amounts.Get(k); ok {
					entries = append(entries, document.Pair(k.String(), writeAmount(k, v, style)))
				}
			}
			return document.Map(entries...)
		},
		func(a, b resource.Partial) bool { return a == b })
}

func resourceNames() (names []string) {
	for _, k := range resource.Kinds {
		names = append(names, k.String())
	}
	return names
}

// addressType reads host:port. To listen, the host may be omitted and the port may be 0, which
// means any free one.
func addressType(listen bool) document.Type[string] {
	says := "an address like scheduler.example.com:7070"
	if listen {
		says = "an address to listen on, like 127.0.0.1:7070 or :7070"
	}
	return document.Texts.That(says, document.RuleBadFormat, func(s string) bool {
		host, port, err := net.SplitHostPort(s)
		if err != nil || strings.ContainsAny(host, " /@?#") {
			return false
		}
		number, err := strconv.ParseUint(port, 10, 16)
		return err == nil && (listen || host != "" && number > 0)
	})
}

const storeSays = "sqlite:PATH or postgres://USER@HOST:PORT/DATABASE"

// storeURLType reads the address of the store. Its messages never repeat the text, which may hold a
// password.
func storeURLType() document.Type[string] {
	return document.NewType(document.Shape{Kind: "string", Says: storeSays},
		func(r *document.Reader, v document.Value) (string, bool) {
			text, ok := v.Text()
			rule := document.RuleWrongType
			if ok {
				rule = document.RuleBadFormat
				ok = isStoreURL(text)
			}
			if !ok {
				r.Refuse(v.Position(), rule, "must be "+storeSays)
			}
			return text, ok
		},
		func(s string, _ document.Style) document.Value { return document.Text(s) },
		func(a, b string) bool { return a == b })
}

func isStoreURL(text string) bool {
	parsed, err := url.Parse(text)
	if err != nil {
		return false
	}
	switch parsed.Scheme {
	case "sqlite":
		return (parsed.Opaque != "" || parsed.Path != "") && parsed.Host == "" && parsed.User == nil
	case "postgres", "postgresql":
		return parsed.Host != "" && strings.Trim(parsed.Path, "/") != ""
	}
	return false
}

func isBlobURL(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Scheme == "s3" && parsed.Host != "" && parsed.User == nil
}

// secretType reads text without ever repeating it.
func secretType(says string) document.Type[string] {
	return document.NewType(document.Shape{Kind: "string", Says: says},
		func(r *document.Reader, v document.Value) (string, bool) {
			text, ok := v.Text()
			if ok = ok && text != "" && !strings.ContainsAny(text, " \t\r\n"); !ok {
				r.Refuse(v.Position(), document.RuleBadFormat, "must be "+says)
			}
			return text, ok
		},
		func(s string, _ document.Style) document.Value { return document.Text(s) },
		func(a, b string) bool { return a == b })
}

// wordsOf is an enumeration whose values are their names.
func wordsOf(words ...string) document.Type[string] {
	list := make([]document.Word[string], len(words))
	for i, w := range words {
		list[i] = document.Word[string]{Name: w, Value: w}
	}
	return document.Enum(list...)
}

func didYouMean(name string, candidates []string) string {
	if nearest, ok := document.Nearest(name, candidates); ok {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// Redacted replaces a secret.
const Redacted = "(hidden)"

// redact returns a setting's value in printable form.
func redact(s Setting, v document.Value) document.Value {
	text, isText := v.Text()
	if !s.Secret() || v.IsNull() {
		return v
	}
	if !isText || s.Info.Shape.Says != storeSays {
		return document.Text(Redacted)
	}
	return document.Text(redactURL(text))
}

// redactURL hides the password in a store's address, wherever drivers look for one. An address that
// cannot be parsed is hidden as a whole.
func redactURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return Redacted
	}
	hidden := url.UserPassword(parsed.User.Username(), "hidden")
	if _, has := parsed.User.Password(); has {
		parsed.User = hidden
	}
	query := parsed.Query()
	changed := false
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if isSecretParameter(key) {
			query.Set(key, "hidden")
			changed = true
		}
	}
	if changed {
		parsed.RawQuery = query.Encode()
	}
	return parsed.String()
}

func isSecretParameter(key string) bool {
	key = strings.ToLower(key)
	return strings.Contains(key, "password") || strings.Contains(key, "secret") || strings.Contains(key, "token")
}

// hasPassword reports whether redaction would change a store's address.
func hasPassword(text string) bool {
	parsed, err := url.Parse(text)
	if err != nil {
		return false
	}
	if _, has := parsed.User.Password(); has {
		return true
	}
	for key := range parsed.Query() {
		if isSecretParameter(key) {
			return true
		}
	}
	return false
}
