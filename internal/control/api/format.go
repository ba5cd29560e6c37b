package api

import (
	"mime"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// format is how a value is written or read: YSON of a flavour, or JSON with
// options.
type format struct {
	json    bool
	flavour yson.Format
	options yson.JSONOptions
}

// mediaType names the format in an answer.
func (f format) mediaType() string {
	if f.json {
		return "application/json"
	}
	return "application/x-yt-yson-" + f.flavour.String()
}

// write returns a value in the format.
func (f format) write(n yson.Node) ([]byte, error) {
	if f.json {
		return yson.AppendJSON(nil, n, f.options)
	}
	return yson.Append(nil, n, f.flavour)
}

// read reads a value. YSON may be of any flavour, whatever was declared.
func (f format) read(data []byte) (yson.Node, error) {
	if f.json {
		return yson.ParseJSON(data, f.options)
	}
	return yson.Parse(data)
}

// formatOfMedia reads a media type; ok is false for one that is no format of
// ours.
func formatOfMedia(text string) (f format, ok bool) {
	media, _, err := mime.ParseMediaType(strings.TrimSpace(text))
	if err != nil {
		return format{}, false
	}
	switch media {
	case "application/json", "text/json":
		return format{json: true}, true
	case "application/x-yt-yson-text", "application/x-yt-yson", "application/yson":
		return format{}, true
	case "application/x-yt-yson-binary":
		return format{flavour: yson.Binary}, true
	case "application/x-yt-yson-pretty":
		return format{flavour: yson.Pretty}, true
	}
	return format{}, false
}

// formatOf reads a format as parameters and headers have it: a string with
// attributes.
func formatOf(n yson.Node) (format, error) {
	name, ok := n.Text()
	if !ok {
		return format{}, errorf(codeGeneric, "A format must be a string such as yson or json, not %s", n.Kind())
	}
	attribute := func(key string) yson.Node {
		value, _ := n.Attribute(key)
		return value
	}
	flavour, _ := attribute("format").Text()
	switch name {
	case "yson":
		switch flavour {
		case "", "binary":
			return format{flavour: yson.Binary}, nil
		case "text":
			return format{flavour: yson.Text}, nil
		case "pretty":
			return format{flavour: yson.Pretty}, nil
		}
		return format{}, errorf(codeGeneric, "Error parsing YSON format %q: it must be text, binary or pretty", cutText(flavour, 100))
	case "json":
		o, err := jsonOptions(attribute, flavour)
		return format{json: true, options: o}, err
	}
	if f, ok := formatOfMedia(name); ok {
		return f, nil
	}
	return format{}, errorf(codeGeneric, "Format %q is not supported: it must be yson or json", cutText(name, 100))
}

// jsonOptions reads the attributes of the format json. Unknown ones are passed
// over: clients put some of their own there.
func jsonOptions(attribute func(string) yson.Node, flavour string) (yson.JSONOptions, error) {
	isSet := func(key string) bool {
		b, _ := attribute(key).Boolean()
		return b
	}
	o := yson.JSONOptions{
		Pretty: flavour == "pretty", AnnotateWithTypes: isSet("annotate_with_types"), Stringify: isSet("stringify"),
		StringifyNaN: isSet("stringify_nan_and_infinity"), Plain: isSet("plain"),
	}
	if utf8, given := attribute("encode_utf8").Boolean(); given {
		o.UTF8 = !utf8
	}
	if limit, given := attribute("string_length_limit").Int64(); given && limit > 0 {
		o.StringLimit = int(min(limit, 1<<30))
	}
	switch mode, _ := attribute("attributes_mode").Text(); mode {
	case "", "on_demand":
	case "always":
		o.Attributes = yson.AttributesAlways
	case "never":
		o.Attributes = yson.AttributesNever
	default:
		return o, errorf(codeGeneric, "Error parsing attributes_mode %q: it must be on_demand, always or never", cutText(mode, 100))
	}
	return o, nil
}

// headerValue reads a header that has YSON or, as older clients write it, JSON.
func headerValue(name, text string) (yson.Node, error) {
	n, err := yson.Parse([]byte(text))
	if err == nil {
		return n, nil
	}
	if n, err := yson.ParseJSON([]byte(text), yson.JSONOptions{}); err == nil {
		return n, nil
	}
	return n, errorf(codeGeneric, "Error parsing header %s", name).because(err)
}
