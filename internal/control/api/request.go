package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/gate"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// Limits on requests.
const (
	maxParameters  = 8 << 20  // bytes of parameters and of structured input
	maxBinaryInput = 32 << 20 // bytes of binary input that is not a stream
	maxHeaderParts = 1000     // pieces of split parameters
	maxGuestInput  = 64 << 10 // bytes of a body without a token
	maxGuests      = 1 << 20  // bytes of all such bodies at a time
)

// message is a request as received, before any permission check but that of the command's row.
type message struct {
	account    *gate.Account // has taken the memory of the bodies and the answer
	parameters yson.Node
	body       []byte // as received, for the leader
	input      []byte // the command's data, decompressed
	inputAs    wire.Format
	outputAs   wire.Format
	stream     *stream // instead of body and input, for commands that read the body themselves
}

// stream is a body that a command reads.
type stream struct {
	body     io.Reader
	encoding string
	length   int64 // negative if it is not known
}

// readMessage reads the parts of a request. The memory that it takes is charged to the user who makes
// the request, and all callers without a token count as one. The message has an account even if there is
// an error.
func (a *API) readMessage(w http.ResponseWriter, r *http.Request, cmd *command, who auth.Identity) (*message, error) {
	limit, most := int64(maxParameters), int64(0)
	if cmd.input == rawBytes || cmd.input == tabular {
		limit = maxBinaryInput
	}
	if who.User == auth.Guest && who.Token == "" {
		limit, most = maxGuestInput, maxGuests
	}
	m := &message{account: a.options.Budget.Open(who.Real, most)}
	var data []byte
	var err error
	encoding := r.Header.Get("Content-Encoding")
	if cmd.streams && r.Method == http.MethodPut {
		m.stream = &stream{r.Body, encoding, r.ContentLength}
	} else {
		if m.body, err = m.account.ReadAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength); err != nil {
			return m, requestBroken(err)
		}
		if data, err = m.decompress(encoding, limit); err != nil {
			return m, err
		}
	}
	query, err := wire.QueryParameters(r.URL.RawQuery)
	if err != nil {
		return m, err
	}
	header, err := headerParameters(r.Header)
	if err != nil {
		return m, err
	}
	m.parameters = wire.Merge(query, header)
	guess, err := m.inputFormat(r)
	if err != nil {
		return m, err
	}
	if r.Method == http.MethodPost && len(bytes.TrimSpace(data)) > 0 {
		body, err := guess.Read(data)
		if err != nil {
			return m, wire.Errorf(wire.CodeGeneric, "Error parsing parameters in the body of the request").Because(err)
		}
		if body.Kind() != yson.MapKind {
			return m, wire.Errorf(wire.CodeGeneric, "Parameters must be a map, not %s", body.Kind())
		}
		m.parameters = wire.Merge(m.parameters, body)
		data = nil
	}
	m.input = data
	if m.inputAs, err = m.inputFormat(r); err != nil {
		return m, err
	}
	m.outputAs, err = m.outputFormat(r)
	return m, err
}

// requestBroken is the error for a body that could not be read: too long, truncated, too slow, or more
// than there is memory for.
func requestBroken(err error) error {
	if _, tooLong := err.(*http.MaxBytesError); tooLong {
		return err
	}
	var full *gate.Full
	if errors.As(err, &full) {
		e := wire.Errorf(wire.CodeQueueSize, "There is no memory for the request: %s", full.Error()).
			With("reason", yson.String("bytes_in_flight")).With("bytes_taken", yson.Int64(full.Taken)).
			With("bytes_wanted", yson.Int64(full.Wanted)).With("limit", yson.Int64(full.Limit))
		e.Status = http.StatusServiceUnavailable
		if full.Own {
			e.Status = http.StatusTooManyRequests
		}
		return e
	}
	return wire.Errorf(wire.CodeGeneric, "The body of the request cannot be read").Because(err)
}

// decompress undoes a content encoding. Some clients declare gzip and send zlib.
func (m *message) decompress(encoding string, limit int64) ([]byte, error) {
	unpacked, packed, err := unpack(bytes.NewReader(m.body), encoding)
	if err != nil || !packed || len(m.body) == 0 {
		return m.body, err
	}
	out, err := m.account.ReadAll(io.LimitReader(unpacked, limit+1), -1)
	var full *gate.Full
	switch {
	case errors.As(err, &full):
		return nil, requestBroken(err)
	case err != nil:
		return nil, wire.Errorf(wire.CodeGeneric, "The compressed body of the request is damaged").Because(err)
	case int64(len(out)) > limit:
		return nil, wire.Errorf(wire.CodeGeneric, "The request is longer than %d bytes", limit)
	}
	return out, nil
}

// unpack returns a body without its content encoding, and whether it had one.
func unpack(body io.Reader, encoding string) (unpacked io.Reader, packed bool, err error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, false, nil
	case "gzip", "x-gzip", "deflate", "zlib":
	default:
		return nil, false, wire.Errorf(wire.CodeGeneric, "Content encoding %q is not supported: use gzip, deflate or identity", wire.CutText(encoding, 100))
	}
	in := bufio.NewReader(body)
	magic, err := in.Peek(2)
	switch {
	case err == io.EOF && len(magic) == 0:
		return in, true, nil
	case err == nil && magic[0] == 0x1f && magic[1] == 0x8b:
		unpacked, err = gzip.NewReader(in)
	case err == nil:
		unpacked, err = zlib.NewReader(in)
	}
	if err != nil {
		return nil, false, wire.Errorf(wire.CodeGeneric, "The body of the request is neither gzip nor zlib").Because(err)
	}
	return unpacked, true, nil
}

// headerParameters reads X-YT-Parameters, or its base64 pieces.
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
				return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing headers X-YT-Parameters0, …: they are not base64").Because(err)
			}
		}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return yson.Map(), nil
	}
	as := wire.Format{JSON: true}
	if notation := h.Get("X-YT-Header-Format"); notation != "" {
		n, err := wire.HeaderValue("X-YT-Header-Format", notation)
		if err != nil {
			return n, err
		}
		if as, err = wire.FormatOf(n); err != nil {
			return n, wire.Errorf(wire.CodeGeneric, "Error parsing header X-YT-Header-Format").Because(err)
		}
	}
	n, err := as.Read(text)
	if err != nil {
		return n, wire.Errorf(wire.CodeGeneric, "Error parsing header X-YT-Parameters").Because(err)
	}
	if n.Kind() != yson.MapKind {
		return n, wire.Errorf(wire.CodeGeneric, "Parameters must be a map, not %s", n.Kind())
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

// inputFormat is the format of the body: the parameter, else the header, else the media type, else
// YSON.
func (m *message) inputFormat(r *http.Request) (wire.Format, error) {
	if n, ok := (wire.Parameters{Node: m.parameters}).Get("input_format"); ok {
		return wire.FormatOf(n)
	}
	if text := r.Header.Get("X-YT-Input-Format"); text != "" {
		n, err := wire.HeaderValue("X-YT-Input-Format", text)
		if err != nil {
			return wire.Format{}, err
		}
		return wire.FormatOf(n)
	}
	if f, ok := wire.FormatOfMedia(r.Header.Get("Content-Type")); ok {
		return f, nil
	}
	return wire.Format{}, nil
}

// outputFormat is the format of the answer: the parameter, else the header, else what the client
// accepts, else JSON, which people can read.
func (m *message) outputFormat(r *http.Request) (wire.Format, error) {
	if n, ok := (wire.Parameters{Node: m.parameters}).Get("output_format"); ok {
		return wire.FormatOf(n)
	}
	if text := r.Header.Get("X-YT-Output-Format"); text != "" {
		n, err := wire.HeaderValue("X-YT-Output-Format", text)
		if err != nil {
			return wire.Format{}, err
		}
		return wire.FormatOf(n)
	}
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if f, ok := wire.FormatOfMedia(accepted); ok {
			return f, nil
		}
	}
	return wire.Format{JSON: true}, nil
}
