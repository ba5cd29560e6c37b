// Package imagename reads names of container images as tasks give them:
//
//	[REGISTRY/]IMAGE[:TAG][@DIGEST]
//
// REGISTRY has a dot or a port. A name without one means an image that the nodes of the cluster have themselves; it is
// never completed to a registry on the network. The tag is "latest" if the name has neither a tag nor a digest.
package imagename

import (
	"errors"
	"fmt"
	"strings"
)

// Name is the name of an image.
type Name struct {
	Registry   string // a host, perhaps with a port; empty for an image of the nodes
	Repository string
	Tag        string // empty if only the digest is given
	Digest     string // sha256:…; empty if not known
}

// Limits on the parts of a name.
const (
	maxRepository = 255
	maxTag        = 128
	algorithm     = "sha256:"
	digestSize    = 64
)

// Parse reads a name.
func Parse(text string) (n Name, err error) {
	rest := text
	if at := strings.IndexByte(rest, '@'); at >= 0 {
		n.Digest, rest = rest[at+1:], rest[:at]
		if !IsDigest(n.Digest) {
			return Name{}, refuse(text, "the digest must be sha256: and 64 hexadecimal digits in lower case")
		}
	}
	if first, after, found := strings.Cut(rest, "/"); found && strings.ContainsAny(first, ".:") {
		if !isHost(first) {
			return Name{}, refuse(text, "the registry must be a host, perhaps with a port")
		}
		n.Registry, rest = first, after
	}
	if at := strings.IndexByte(rest, ':'); at >= 0 {
		n.Tag, rest = rest[at+1:], rest[:at]
		if !isTag(n.Tag) {
			return Name{}, refuse(text, "a tag has at most 128 letters, digits and . _ -, and begins with none of . -")
		}
	}
	if n.Repository = rest; !isRepository(rest) {
		return Name{}, refuse(text, "an image has a name of lower-case letters, digits and . _ - /, at most 255 bytes")
	}
	if n.Tag == "" && n.Digest == "" {
		n.Tag = "latest"
	}
	return n, nil
}

func refuse(text, rule string) error {
	const longest = 100
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return fmt.Errorf("%q is no name of an image: %w", text, errors.New(rule))
}

// String returns the whole name.
func (n Name) String() string {
	text := n.Repository
	if n.Registry != "" {
		text = n.Registry + "/" + text
	}
	if n.Tag != "" {
		text += ":" + n.Tag
	}
	if n.Digest != "" {
		text += "@" + n.Digest
	}
	return text
}

// Tagged returns the name without its digest.
func (n Name) Tagged() Name {
	n.Digest = ""
	return n
}

// IsDigest reports whether a text is a digest.
func IsDigest(text string) bool {
	hex, found := strings.CutPrefix(text, algorithm)
	return found && len(hex) == digestSize && strings.Trim(hex, "0123456789abcdef") == ""
}

func isAlphanumeric(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' }
func isLower(c byte) bool        { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// isHost accepts names and IPv4 addresses, with or without a port.
func isHost(text string) bool {
	host, port, hasPort := strings.Cut(text, ":")
	if hasPort && (port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "") {
		return false
	}
	for _, label := range strings.Split(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isAlphanumeric(label[i]) && label[i] != '-' {
				return false
			}
		}
	}
	return len(host) <= 253
}

func isTag(text string) bool {
	if text == "" || len(text) > maxTag || text[0] == '.' || text[0] == '-' {
		return false
	}
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && !strings.ContainsRune("._-", rune(text[i])) {
			return false
		}
	}
	return true
}

// isRepository accepts components of letters and digits with single separators between them: one dot, one or two
// underscores, or any number of dashes.
func isRepository(text string) bool {
	if len(text) > maxRepository {
		return false
	}
	for _, component := range strings.Split(text, "/") {
		if component == "" || !isLower(component[0]) || !isLower(component[len(component)-1]) {
			return false
		}
		for i := 0; i < len(component); {
			if isLower(component[i]) {
				i++
				continue
			}
			start := i
			for i < len(component) && !isLower(component[i]) {
				i++
			}
			switch separator := component[start:i]; {
			case separator == "." || separator == "_" || separator == "__" || strings.Trim(separator, "-") == "":
			default:
				return false
			}
		}
	}
	return true
}
