package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// Bounds of requests.
const (
	maxParameters  = 8 << 20  // bytes of parameters and of structured input
	maxBinaryInput = 32 << 20 // bytes of files
	maxHeaderParts = 1000     // pieces of split parameters
)

// message is a request as it came, before anybody is asked for permission.
type message struct {
	parameters yson.Node
	body       []byte // as it came, for the leader
	input      []byte // data of the command, without compression
	inputAs    format
	outputAs   format
}

// readMessage takes a request apart.
func readMessage(w http.ResponseWriter, r *http.Request, cmd *command) (*message, error) {
	m := &message{}
	limit := int64(maxParameters)
	if cmd.input == rawBytes || cmd.input == tabular {
		limit = maxBinaryInput
	}
	var err error
	if m.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return m, requestBroken(err)
	}
	data, err := decompress(m.body, r.Header.Get("Content-Encoding"), limit)
	if err != nil {
		return m, err
	}
	query, err := queryParameters(r.URL.RawQuery)
	if err != nil {
		return m, err
	}
	header, err := headerParameters(r.Header)
	if err != nil {
		return m, err
	}
	m.parameters = merge(query, header)
	guess, err := m.inputFormat(r)
	if err != nil {
		return m, err
	}
	if r.Method == http.MethodPost && len(bytes.TrimSpace(data)) > 0 {
		body, err := guess.read(data)
		if err != nil {
			return m, errorf(codeGeneric, "Error parsing parameters in the body of the request").because(err)
		}
		if body.Kind() != yson.MapKind {
			return m, errorf(codeGeneric, "Parameters must be a map, not %s", body.Kind())
		}
		m.parameters = merge(m.parameters, body)
		data = nil
	}
	m.input = data
	if m.inputAs, err = m.inputFormat(r); err != nil {
		return m, err
	}
	m.outputAs, err = m.outputFormat(r)
	return m, err
}

// requestBroken is a body that could not be read: too long, or cut off.
func requestBroken(err error) error {
	if _, tooLong := err.(*http.MaxBytesError); tooLong {
		return err
	}
	return errorf(codeGeneric, "The body of the request cannot be read").because(err)
}

// decompress undoes a content encoding. Clients say gzip and send zlib.
func decompress(data []byte, encoding string, limit int64) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return data, nil
	case "gzip", "x-gzip", "deflate", "zlib":
	default:
		return nil, errorf(codeGeneric, "Content encoding %q is not supported: use gzip, deflate or identity", cutText(encoding, 100))
	}
	if len(data) == 0 {
		return nil, nil
	}
	in := bufio.NewReader(bytes.NewReader(data))
	var unpacked io.Reader
	magic, err := in.Peek(2)
	switch {
	case err == nil && magic[0] == 0x1f && magic[1] == 0x8b:
		unpacked, err = gzip.NewReader(in)
	case err == nil:
		unpacked, err = zlib.NewReader(in)
	}
	if err != nil {
		return nil, errorf(codeGeneric, "The body of the request is neither gzip nor zlib").because(err)
	}
	out, err := io.ReadAll(io.LimitReader(unpacked, limit+1))
	switch {
	case err != nil:
		return nil, errorf(codeGeneric, "The compressed body of the request is damaged").because(err)
	case int64(len(out)) > limit:
		return nil, errorf(codeGeneric, "The request is longer than %d bytes", limit)
	}
	return out, nil
}

// headerParameters reads X-YT-Parameters, or the base64 pieces of it.
func headerParameters(h http.Header) (yson.Node, error) {
	text := []byte(h.Get("X-YT-Parameters"))
	if len(h.Values("X-YT-Parameters")) == 0 {
		var pieces strings.Builder
		for i := range maxHeaderParts {
			piece, ok := pieceOf(h, i)
			if !ok {
				break
			}
			pieces.WriteString(piece)
		}
		if pieces.Len() == 0 {
			return yson.Map(), nil
		}
		var err error
		if text, err = base64.StdEncoding.DecodeString(pieces.String()); err != nil {
			if text, err = base64.RawStdEncoding.DecodeString(pieces.String()); err != nil {
				return yson.Node{}, errorf(codeGeneric, "Error parsing headers X-YT-Parameters0, …: they are not base64").because(err)
			}
		}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return yson.Map(), nil
	}
	as := format{json: true}
	if notation := h.Get("X-YT-Header-Format"); notation != "" {
		n, err := headerValue("X-YT-Header-Format", notation)
		if err != nil {
			return n, err
		}
		if as, err = formatOf(n); err != nil {
			return n, errorf(codeGeneric, "Error parsing header X-YT-Header-Format").because(err)
		}
	}
	n, err := as.read(text)
	if err != nil {
		return n, errorf(codeGeneric, "Error parsing header X-YT-Parameters").because(err)
	}
	if n.Kind() != yson.MapKind {
		return n, errorf(codeGeneric, "Parameters must be a map, not %s", n.Kind())
	}
	return n, nil
}

func pieceOf(h http.Header, i int) (string, bool) {
	for _, name := range []string{fmt.Sprintf("X-YT-Parameters%d", i), fmt.Sprintf("X-YT-Parameters-%d", i)} {
		if values := h.Values(name); len(values) > 0 {
			return strings.TrimSpace(values[0]), true
		}
	}
	return "", false
}

// inputFormat is what the body is written in: the parameter, else the header,
// else the media type, else YSON.
func (m *message) inputFormat(r *http.Request) (format, error) {
	if n, ok := (parameters{m.parameters}).get("input_format"); ok {
		return formatOf(n)
	}
	if text := r.Header.Get("X-YT-Input-Format"); text != "" {
		n, err := headerValue("X-YT-Input-Format", text)
		if err != nil {
			return format{}, err
		}
		return formatOf(n)
	}
	if f, ok := formatOfMedia(r.Header.Get("Content-Type")); ok {
		return f, nil
	}
	return format{}, nil
}

// outputFormat is what the answer is written in: the parameter, else the header,
// else what the client accepts, else JSON, which people can read.
func (m *message) outputFormat(r *http.Request) (format, error) {
	if n, ok := (parameters{m.parameters}).get("output_format"); ok {
		return formatOf(n)
	}
	if text := r.Header.Get("X-YT-Output-Format"); text != "" {
		n, err := headerValue("X-YT-Output-Format", text)
		if err != nil {
			return format{}, err
		}
		return formatOf(n)
	}
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if f, ok := formatOfMedia(accepted); ok {
			return f, nil
		}
	}
	return format{json: true}, nil
}
