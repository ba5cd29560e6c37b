package wire

import (
	"mime"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// Format is how a value is encoded: YSON of a flavour, or JSON with options.
type Format struct {
	JSON    bool
	Flavour yson.Format
	Options yson.JSONOptions
}

// MediaType names the format in an answer.
func (f Format) MediaType() string {
	if f.JSON {
		return "application/json"
	}
	return "application/x-yt-yson-" + f.Flavour.String()
}

// Write returns a value in the format.
func (f Format) Write(n yson.Node) ([]byte, error) {
	if f.JSON {
		return yson.AppendJSON(nil, n, f.Options)
	}
	return yson.Append(nil, n, f.Flavour)
}

// Read reads a value. YSON may be of any flavour, whatever was declared.
func (f Format) Read(data []byte) (yson.Node, error) {
	if f.JSON {
		return yson.ParseJSON(data, f.Options)
	}
	return yson.Parse(data)
}

// FormatOfMedia reads a media type; ok is false if it is not one of our formats.
func FormatOfMedia(text string) (f Format, ok bool) {
	media, _, err := mime.ParseMediaType(strings.TrimSpace(text))
	if err != nil {
		return Format{}, false
	}
	switch media {
	case "application/json", "text/json":
		return Format{JSON: true}, true
	case "application/x-yt-yson-text", "application/x-yt-yson", "application/yson":
		return Format{}, true
	case "application/x-yt-yson-binary":
		return Format{Flavour: yson.Binary}, true
	case "application/x-yt-yson-pretty":
		return Format{Flavour: yson.Pretty}, true
	}
	return Format{}, false
}

// FormatOf reads a format from a parameter or header: a string with attributes.
func FormatOf(n yson.Node) (Format, error) {
	name, ok := n.Text()
	if !ok {
		return Format{}, Errorf(CodeGeneric, "A format must be a string such as yson or json, not %s", n.Kind())
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
			return Format{Flavour: yson.Binary}, nil
		case "text":
			return Format{Flavour: yson.Text}, nil
		case "pretty":
			return Format{Flavour: yson.Pretty}, nil
		}
		return Format{}, Errorf(CodeGeneric, "Error parsing YSON format %q: it must be text, binary or pretty", CutText(flavour, 100))
	case "json":
		o, err := jsonOptions(attribute, flavour)
		return Format{JSON: true, Options: o}, err
	}
	if f, ok := FormatOfMedia(name); ok {
		return f, nil
	}
	return Format{}, Errorf(CodeGeneric, "Format %q is not supported: it must be yson or json", CutText(name, 100))
}

// jsonOptions reads the attributes of the format json. It ignores unknown ones: clients add their
// own.
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
		return o, Errorf(CodeGeneric, "Error parsing attributes_mode %q: it must be on_demand, always or never", CutText(mode, 100))
	}
	return o, nil
}

// HeaderValue reads a header with YSON or, from older clients, JSON.
func HeaderValue(name, text string) (yson.Node, error) {
	n, err := yson.Parse([]byte(text))
	if err == nil {
		return n, nil
	}
	if n, err := yson.ParseJSON([]byte(text), yson.JSONOptions{}); err == nil {
		return n, nil
	}
	return n, Errorf(CodeGeneric, "Error parsing header %s", name).Because(err)
}
